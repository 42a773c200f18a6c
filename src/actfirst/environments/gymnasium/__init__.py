"""Environments of Gymnasium that are played by text."""
