"""Measures your kernels with Nsight Compute: `python3 -m utils.ncu`."""

from utils.ask import main

if __name__ == "__main__":
    main("ncu")
