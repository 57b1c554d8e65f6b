"""What runs over many: checks of task sets, stored submissions judged again. Imports no torch."""

from warpsmith.evaluation.check_log import CheckLog
from warpsmith.evaluation.check_table import check_lines, set_lines, set_summary
from warpsmith.evaluation.regrade_table import regraded_lines, rescored_lines
from warpsmith.evaluation.regrading import Regraded, Rescored, regrade, rescore

__all__ = [
    "CheckLog",
    "Regraded",
    "Rescored",
    "check_lines",
    "regrade",
    "regraded_lines",
    "rescore",
    "rescored_lines",
    "set_lines",
    "set_summary",
]
