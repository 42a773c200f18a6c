"""Measurements made from run folders alone."""
