"""Configuration: models, TOML recipes with inheritance, dotted overrides, one report of all mistakes."""
