"""Tables and figures in the paper's form, from run folders and stored results alone."""
