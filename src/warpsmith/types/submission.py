"""A submission: a map of relative paths to text."""

from enum import StrEnum
from pathlib import PurePosixPath

from pydantic import field_validator

from warpsmith.types.base import Record

MAX_FILES = 256
MAX_TOTAL_CHARS = 4 * 1024 * 1024


class SubmissionForm(StrEnum):
    """How the sources are bound to Python (DESIGN: C-ABI, the original release's workspace, one file)."""

    C_ABI = "c_abi"
    WORKSPACE = "workspace"
    SINGLE_FILE = "single_file"


class Submission(Record):
    """Text files by relative POSIX path; `model_new.py` defines `ModelNew`."""

    files: dict[str, str]

    @field_validator("files")
    @classmethod
    def _safe(cls, files: dict[str, str]) -> dict[str, str]:
        if "model_new.py" not in files:
            raise ValueError("no model_new.py in the submission")
        if len(files) > MAX_FILES or sum(map(len, files.values())) > MAX_TOTAL_CHARS:
            raise ValueError(f"more than {MAX_FILES} files or {MAX_TOTAL_CHARS} characters")
        for path in files:
            pure = PurePosixPath(path)
            if pure.is_absolute() or ".." in pure.parts or str(pure) != path or "\0" in path:
                raise ValueError(f"unsafe path {path!r}")
        return dict(sorted(files.items()))

    @property
    def submission_hash(self) -> str:
        """Identity: the hash of paths and texts."""
        return self.content_hash

    @property
    def form(self) -> SubmissionForm:
        """Workspace if it has a `.cpp` of its own, C-ABI if it has a `.cu`, else a single file."""
        suffixes = {PurePosixPath(p).suffix for p in self.files}
        if ".cpp" in suffixes or ".cc" in suffixes:
            return SubmissionForm.WORKSPACE
        if ".cu" in suffixes:
            return SubmissionForm.C_ABI
        return SubmissionForm.SINGLE_FILE
