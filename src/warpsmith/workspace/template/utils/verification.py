"""Compares ModelNew with Model on fresh inputs: `python3 -m utils.verification`."""

from utils.ask import main

if __name__ == "__main__":
    main("verify")
