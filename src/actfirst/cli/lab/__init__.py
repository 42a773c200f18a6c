"""Commands of the lab: measurements, comparisons, the report, and the making of the pocket models."""
