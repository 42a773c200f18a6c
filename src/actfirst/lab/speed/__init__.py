"""Measurements of what makes training fast: rollout options, growth, the update step, new weights (docs/speed.md).

All of them time things that alternate within one run, so that other load on the machine hits every side alike.
"""
