"""The folder a policy works in, and reading a submission back out of a folder."""

from warpsmith.workspace.materialize import PROTECTED_FILES, materialize
from warpsmith.workspace.submission import load_submission

__all__ = ["PROTECTED_FILES", "load_submission", "materialize"]
