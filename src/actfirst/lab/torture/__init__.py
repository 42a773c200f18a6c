"""Attacks on a run: trouble at a file operation or at some time, resumption, and a comparison with a quiet run."""
