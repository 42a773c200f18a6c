"""Environments that an OpenEnv server plays."""
