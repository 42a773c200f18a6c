"""What a person sees: the live panel, plain lines, pictures, tables, and play in the terminal."""
