"""Environments of verifiers."""
