"""A run folder: everything that happened in a run, and the key that a resumed run goes on from.

- `manifest.json`: what was run
- `lock`: held by the process that writes
- `segments/N.jsonl`: turns, verdicts, episodes; append-only, see `segments`
- `blobs/ab/abcd…`: submissions and long texts, by SHA-256
"""

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from warpsmith.errors import InfrastructureError, UsageError
from warpsmith.store.files import make_folder, refused, write_atomic
from warpsmith.store.lock import FolderLock
from warpsmith.store.segments import (
    EpisodeLine,
    FailureLine,
    Line,
    Manifest,
    SegmentWriter,
    SessionLine,
    TurnLine,
    VerdictLine,
    read_segment,
    segment_paths,
)
from warpsmith.types import Episode, Status, Submission, Turn, Verdict, sha256_hex

_NOT_KEY = {"versions", "started_at", "pins"}


class RunReader:
    """What a run folder held when it was read; needs no lock, so a run can be looked at while it goes on.

    Raises UsageError where `path` is no run folder, InfrastructureError where it is damaged.
    """

    def __init__(self, path: Path):
        self.path = path
        self._clear()
        manifest = self._read_manifest()
        if manifest is None:
            raise UsageError(f"{path} is not a run folder", hint="give a folder that a run wrote with --out")
        self._manifest = manifest
        self._read_segments()

    @property
    def manifest(self) -> Manifest:
        """What the run was asked to do when it was first started."""
        if self._manifest is None:
            raise UsageError(f"the run folder {self.path} was not opened")
        return self._manifest

    def turns(self, episode_id: str | None = None) -> tuple[Turn, ...]:
        """Turns in the order in which they were appended: of one episode, or of all."""
        return tuple(t.turn for t in self._turns if episode_id is None or t.episode_id == episode_id)

    def turns_by_episode(self) -> tuple[tuple[str, Turn], ...]:
        """Every turn in order, with the id of its episode."""
        return tuple((line.episode_id, line.turn) for line in self._turns)

    def sessions(self) -> tuple[Manifest, ...]:
        """The manifest of each process that wrote, in order: with what, and on what, it ran."""
        return tuple(self._sessions)

    def episodes(self) -> tuple[Episode, ...]:
        """Finished episodes in order; one put again under the same id stands once, in its latest form."""
        return tuple(self._episodes.values())

    def failures(self) -> tuple[FailureLine, ...]:
        """Episodes that were lost, in order; one that was tried again and finished is still among them."""
        return tuple(self._failures)

    def verdicts(self) -> tuple[Verdict, ...]:
        """Every verdict in order."""
        return tuple(line.verdict for line in self._verdicts)

    def verdict(self, verdict_hash: str) -> Verdict | None:
        """The verdict with this content hash."""
        return self._by_hash.get(verdict_hash)

    def find_verdict(self, task_hash: str, submission_hash: str, settings_hash: str) -> Verdict | None:
        """The latest verdict on this question. Infrastructure verdicts answer nothing and are never found."""
        return self._found.get((task_hash, submission_hash, settings_hash))

    def submission(self, submission_hash: str) -> Submission | None:
        """The submission with this hash."""
        data = self.blob(submission_hash)
        return None if data is None else Submission.model_validate_json(data)

    def blob(self, blob_hash: str) -> bytes | None:
        """The bytes with this SHA-256. Raises InfrastructureError where they are damaged."""
        path = self._blob_path(blob_hash)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refused("read", path, error) from error
        if sha256_hex(data) != blob_hash:
            raise InfrastructureError(f"{path} is damaged", hint="remove the file and run again")
        return data

    def _clear(self) -> None:
        self._manifest: Manifest | None = None
        self._turns: list[TurnLine] = []
        self._sessions: list[Manifest] = []
        self._episodes: dict[str, Episode] = {}
        self._verdicts: list[VerdictLine] = []
        self._by_hash: dict[str, Verdict] = {}
        self._found: dict[tuple[str, str, str], Verdict] = {}
        self._failures: list[FailureLine] = []

    def _blob_path(self, blob_hash: str) -> Path:
        return self.path / "blobs" / blob_hash[:2] / blob_hash

    def _read_manifest(self) -> Manifest | None:
        path = self.path / "manifest.json"
        try:
            return Manifest.model_validate_json(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise refused("read", path, error) from error
        except ValidationError as error:
            raise InfrastructureError(
                f"{path} is damaged or was written by another version",
                hint="move the run folder away and start anew",
            ) from error

    def _read_segments(self) -> None:
        for path in segment_paths(self.path / "segments"):
            for line in read_segment(path):
                self._take(line)

    def _take(self, line: Line) -> None:
        match line:
            case TurnLine():
                self._turns.append(line)
            case EpisodeLine(episode=episode):
                self._episodes[episode.episode_id] = episode
            case VerdictLine(verdict=verdict):
                self._verdicts.append(line)
                self._by_hash[verdict.content_hash] = verdict
                if verdict.status is not Status.INFRASTRUCTURE:
                    key = (verdict.task_hash, verdict.submission_hash, line.settings_hash)
                    self._found[key] = verdict
            case FailureLine():
                self._failures.append(line)
            case SessionLine(manifest=manifest):
                self._sessions.append(manifest)


class RunStore(RunReader):
    """A run folder that this process alone writes to: `with RunStore(path) as store: store.open(manifest)`.

    Entering makes the folder and takes its lock (RunLockedError where another process holds it); `open`
    starts the run or goes on with it. A method that writes has written durably when it returns, and raises
    InfrastructureError where the system refuses; what was stored before then stays whole. Threads may share it.
    """

    def __init__(self, path: Path):
        self.path = path
        self._clear()
        self._lock = FolderLock(path)
        self._writer = SegmentWriter(path / "segments")
        self._one = threading.RLock()
        self._questions: dict[tuple[str, str, str], threading.Lock] = {}

    def __enter__(self) -> Self:
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is not a folder", hint="choose a folder for the run")
        make_folder(self.path)
        self._lock.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        self._lock.release()

    def open(self, manifest: Manifest, *, growing: Collection[str] = ()) -> None:
        """Starts the run, or reads what it holds and goes on.

        `growing` names settings of which more may be asked than before: the manifest then says the new number, and
        each session what was asked when. Raises UsageError that says what differs where the folder holds another run.
        """
        if not self._lock.held:
            raise UsageError(f"the run folder {self.path} is not locked", hint="use `with RunStore(path)`")
        self._writer.close()
        self._clear()
        stored = self._read_manifest()
        now = manifest if stored is None else _grown(stored, manifest, growing)
        if differences := _differences(now, manifest):
            raise UsageError(
                f"{self.path} holds another run: {'; '.join(differences)}",
                hint="give the same options as before, or choose another folder",
            )
        if now != stored:
            write_atomic(self.path / "manifest.json", now.model_dump_json(indent=2) + "\n")
        self._manifest = now
        self._read_segments()
        self._append(SessionLine(manifest=manifest.model_copy(update={"tasks": ()})))

    def append_turn(self, episode_id: str, turn: Turn) -> None:
        """Records a turn of an episode that is under way."""
        self._append(TurnLine(episode_id=episode_id, turn=turn))

    def put_verdict(self, verdict: Verdict, settings_hash: str) -> str:
        """Records a verdict reached under the settings with this hash, and returns the verdict's own hash."""
        self._append(VerdictLine(settings_hash=settings_hash, verdict=verdict))
        return verdict.content_hash

    @contextmanager
    def answering(self, task_hash: str, submission_hash: str, settings_hash: str) -> Iterator[None]:
        """One thread at a time looks for an answer to this question and pays for it where there is none."""
        with self._one:
            lock = self._questions.setdefault((task_hash, submission_hash, settings_hash), threading.Lock())
        with lock:
            yield

    def put_failure(self, failure: FailureLine) -> None:
        """Records that an episode was lost; the next start tries it again."""
        self._append(failure)

    def put_episode(self, episode: Episode) -> None:
        """Records a finished episode."""
        self._append(EpisodeLine(episode=episode))

    def put_submission(self, submission: Submission) -> str:
        """Stores a submission under its hash, which it returns."""
        return self.put_blob(submission.canonical_json())

    def put_blob(self, data: str | bytes) -> str:
        """Stores text (as UTF-8) or bytes under their SHA-256, which it returns."""
        blob_hash = sha256_hex(data)
        path = self._blob_path(blob_hash)
        if not path.exists():
            make_folder(path.parent)
            write_atomic(path, data)
        return blob_hash

    def _append(self, line: Line) -> None:
        if self._manifest is None or not self._lock.held:
            raise UsageError(f"the run folder {self.path} was not opened")
        with self._one:
            self._writer.append(line)
            self._take(line)


def _grown(stored: Manifest, wanted: Manifest, growing: Collection[str]) -> Manifest:
    """The stored one, with the larger numbers of `growing` that are wanted now."""
    both = {name: (stored.settings.get(name), wanted.settings.get(name)) for name in growing}
    more = {
        n: new
        for n, (old, new) in both.items()
        if isinstance(old, int) and isinstance(new, int) and new > old
    }
    return stored.model_copy(update={"settings": {**stored.settings, **more}})


def _differences(stored: Manifest, wanted: Manifest) -> list[str]:
    """What of the key differs, as `policy was 'a', now 'b'`."""
    old, new = _flat(stored), _flat(wanted)
    names = [name for name in old | new if old.get(name) != new.get(name)]
    return [f"{name} was {old.get(name)!r}, now {new.get(name)!r}" for name in names]


def _flat(manifest: Manifest) -> dict[str, object]:
    dump = manifest.model_dump(mode="json", exclude=_NOT_KEY)
    settings = dump.pop("settings")
    # named by `task_hash`; all of them in one line would help nobody
    dump.pop("tasks")
    return dump | {f"settings.{name}": value for name, value in sorted(settings.items())}
