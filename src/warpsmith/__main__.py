"""`python -m warpsmith`."""

from warpsmith.cli.app import main

if __name__ == "__main__":
    main()
