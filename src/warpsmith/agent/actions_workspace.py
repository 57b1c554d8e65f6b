"""A workspace as the judge reads it: a copy of its sources, taken while a model's processes may change them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from warpsmith.agent.confine import Workspace
from warpsmith.agent.failures import ToolError
from warpsmith.compile.support import BINDING, BINDING_PATH, REGISTRY, REGISTRY_PATH
from warpsmith.errors import SubmissionUnreadableError
from warpsmith.types import Submission, Task
from warpsmith.types.submission import MAX_FILES, MAX_TOTAL_CHARS
from warpsmith.workspace.submission import IGNORED_FOLDERS, MODEL_FILE, SETTINGS_FILE, SOURCE_SUFFIXES
from warpsmith.workspace.template import fixed_files, is_program, lay_out

_MAX_WALKED = 100_000


@dataclass(frozen=True)
class AgentWorkspace:
    """The folder of one episode. `fixed` holds what the model must leave as it is: relative path -> text."""

    files: Workspace
    fixed: Mapping[str, str]

    @classmethod
    def lay_out(cls, task: Task, folder: Path, *, with_skill: bool = True) -> "AgentWorkspace":
        """Fills a new folder, with the skill's pages or without. Raises InfrastructureError where writing fails."""
        fixed = lay_out(task, folder, more=_given(with_skill))
        return cls(Workspace(folder), fixed)

    @classmethod
    def open(cls, task: Task, folder: Path, *, with_skill: bool = True) -> "AgentWorkspace":
        """A folder that was laid out so before, as a model left it."""
        return cls(Workspace(folder), fixed_files(task, _given(with_skill)))

    @property
    def root(self) -> Path:
        """Where it lies."""
        return self.files.root

    def snapshot(self) -> Submission:
        """The sources as they are now; fixed files, links, hidden files and build outputs are no part of it.

        Raises SubmissionUnreadableError, in one line, where they are no submission.
        """
        found: dict[str, str] = {}
        total = 0
        try:
            for walked, entry in enumerate(self.files.walk(enter=_is_source_folder)):
                if walked > _MAX_WALKED:
                    raise SubmissionUnreadableError(
                        f"the workspace holds more than {_MAX_WALKED} files",
                        hint="delete what is not a source",
                    )
                if not _is_source(entry.path) or entry.path in self.fixed:
                    continue
                data, _ = self.files.read(entry.path, MAX_TOTAL_CHARS)
                found[entry.path] = _text(entry.path, data)
                total += len(data)
                if len(found) > MAX_FILES or total > MAX_TOTAL_CHARS:
                    raise SubmissionUnreadableError(
                        f"the workspace holds more than {MAX_FILES} source files or {MAX_TOTAL_CHARS} characters",
                        hint="delete earlier attempts",
                    )
            return Submission(files=found)
        except ToolError as error:
            raise SubmissionUnreadableError(str(error)) from error
        except ValidationError as error:
            why = (
                str(error.errors()[0]["msg"])
                if MODEL_FILE in found
                else f"there is no regular file {MODEL_FILE}"
            )
            raise SubmissionUnreadableError(why, hint=f"write {MODEL_FILE}") from error

    def restore(self) -> tuple[str, ...]:
        """Writes back every fixed file that is not as it was; their paths.

        What cannot be written back is left: nothing reads these files but the model's own processes.
        """
        return tuple(name for name, text in self.fixed.items() if self._restored(name, text.encode()))

    def _restored(self, name: str, data: bytes) -> bool:
        try:
            if self.files.read(name, max(1, len(data))) == (data, name):
                return False
        except ToolError:
            # missing, another kind of file, or longer
            pass
        try:
            self.files.replace(name, data, 0o755 if is_program(name) else 0o644)
        except ToolError:
            return False
        return True


@cache
def skill() -> Mapping[str, str]:
    """Relative path -> text of `SKILL.md` and the pages that it names."""
    folder = Path(__file__).with_name("skill")
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(folder.rglob("*.md"))
    }


def _given(with_skill: bool) -> dict[str, str]:
    return {**(skill() if with_skill else {}), BINDING_PATH: BINDING, REGISTRY_PATH: REGISTRY}


def _is_source_folder(name: str) -> bool:
    return name not in IGNORED_FOLDERS and not name.startswith(".") and "egg-info" not in name


def _is_source(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    suffix = name[name.rfind(".") :] if "." in name else ""
    return path == SETTINGS_FILE or (suffix in SOURCE_SUFFIXES and not name.startswith("."))


def _text(path: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SubmissionUnreadableError(f"{path} is not UTF-8 text") from error
    if "\0" in text:
        raise SubmissionUnreadableError(f"{path} is a binary file")
    return text
