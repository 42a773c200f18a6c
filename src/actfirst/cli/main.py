"""Entry point of the `actfirst` command."""


def main() -> None:
    raise SystemExit("not built yet")
