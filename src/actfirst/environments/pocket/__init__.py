"""Pocket houses: generated ALFWorld games, small enough to learn in minutes, with an oracle and an expert."""
