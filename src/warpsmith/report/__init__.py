"""Reads the store only and writes what a person takes away."""

from warpsmith.report.markdown import EpisodeRecords, outcome
from warpsmith.report.profile_text import profile_lines, profile_summary
from warpsmith.report.result import REPORT_FILE, SOLUTION_FOLDER, write_result
from warpsmith.report.variant_text import variant_lines, variants_summary
from warpsmith.report.verdict_text import headline, summary, verdict_lines

__all__ = [
    "REPORT_FILE",
    "SOLUTION_FOLDER",
    "EpisodeRecords",
    "headline",
    "outcome",
    "profile_lines",
    "profile_summary",
    "summary",
    "variant_lines",
    "variants_summary",
    "verdict_lines",
    "write_result",
]
