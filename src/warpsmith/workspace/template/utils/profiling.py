"""Times ModelNew beside PyTorch: `python3 -m utils.profiling`."""

import argparse

from utils.ask import main


def _options() -> None:
    parser = argparse.ArgumentParser(description="Time ModelNew beside eager PyTorch and torch.compile.")
    parser.add_argument(
        "--iters", type=int, default=10, help="accepted; the judge chooses how often it measures"
    )
    parser.add_argument("--single-run", help="accepted; the judge always measures all three")
    parser.parse_args()


if __name__ == "__main__":
    _options()
    main("profile")
