"""Says how far your time is from what the GPU allows: `python3 -m utils.roofline`."""

from utils.ask import main

if __name__ == "__main__":
    main("roofline")
