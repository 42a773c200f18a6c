"""The lab: measurements, comparisons, the report, the making of the pocket models. Only the commands import it."""
