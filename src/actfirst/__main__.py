"""`python -m actfirst` is the `actfirst` command."""

from actfirst.cli.main import main

if __name__ == "__main__":
    main()
