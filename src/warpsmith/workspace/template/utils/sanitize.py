"""Looks for faulty memory accesses, races at barriers and deadlocks: `python3 -m utils.sanitize`."""

from utils.ask import main

if __name__ == "__main__":
    main("sanitize")
