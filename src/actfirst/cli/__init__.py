"""The `actfirst` command: one small file per command group. Nothing imports this package."""
