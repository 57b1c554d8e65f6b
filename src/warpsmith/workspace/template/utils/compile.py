"""Builds kernels/ and model_new.py: `python3 -m utils.compile`."""

from utils.ask import main

if __name__ == "__main__":
    main("compile")
