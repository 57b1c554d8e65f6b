"""`python -m warpsmith.cli`."""

from warpsmith.cli.app import main

if __name__ == "__main__":
    main()
