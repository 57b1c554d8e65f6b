"""Reading a submission out of a folder, and laying one out."""

from pathlib import Path

import pytest

from warpsmith.errors import InfrastructureError, SubmissionUnreadableError
from warpsmith.types import Submission, SubmissionForm, Task
from warpsmith.workspace import load_submission, materialize

NEW = "class ModelNew: ...\n"


def lay(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def test_folder_takes_sources_and_leaves_the_rest(tmp_path: Path) -> None:
    wanted = {
        "model_new.py": NEW,
        "kernels/add.cu": "// add",
        "kernels/common.cuh": "#pragma once",
        "kernels/add_binding.cpp": "// bind",
        "binding_registry.h": "// registry",
        "warpsmith.toml": "flags = []",
    }
    ignored = {
        "model.py": "the reference",
        "utils/verification.py": "a judge's script",
        "README.md": "words",
        "kernels/deep.toml": "no",
        "add.so": b"\x7fELF",
        "build/gen.cu": "output",
        "__pycache__/x.py": "cache",
        ".git/hook.py": "git",
        ".hidden.py": "hidden",
    }
    submission = load_submission(lay(tmp_path, wanted | ignored))
    assert submission.files == wanted
    assert submission.form is SubmissionForm.WORKSPACE


def test_one_file_is_model_new(tmp_path: Path) -> None:
    lay(tmp_path, {"anything.py": NEW})
    submission = load_submission(tmp_path / "anything.py")
    assert submission.files == {"model_new.py": NEW}
    assert submission.form is SubmissionForm.SINGLE_FILE


def test_same_files_elsewhere_have_the_same_hash(tmp_path: Path) -> None:
    one = load_submission(lay(tmp_path / "one", {"model_new.py": NEW, "k.cu": "x"}))
    two = load_submission(lay(tmp_path / "two", {"k.cu": "x", "model_new.py": NEW}))
    assert one.submission_hash == two.submission_hash


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"other.py": NEW}, "no model_new.py"),
        ({}, "no model_new.py"),
        ({"model_new.py": b"\xff\xfe"}, "not UTF-8"),
        ({"model_new.py": NEW, "k.cu": b"a\x00b"}, "binary"),
        ({"model_new.py": NEW} | {f"k{i}.cu": "" for i in range(256)}, "more than 256"),
        ({"model_new.py": "#" * (4 * 1024 * 1024 + 1)}, "too large"),
        ({"model_new.py": NEW, "a.cu": "#" * 3_000_000, "b.cu": "#" * 3_000_000}, "more than"),
    ],
)
def test_unreadable_folders(tmp_path: Path, files: dict[str, str | bytes], said: str) -> None:
    with pytest.raises(SubmissionUnreadableError, match=said) as caught:
        load_submission(lay(tmp_path, files))
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_unreadable_paths(tmp_path: Path) -> None:
    with pytest.raises(SubmissionUnreadableError, match="no such submission"):
        load_submission(tmp_path / "absent")
    lay(tmp_path, {"k.cu": "x"})
    with pytest.raises(SubmissionUnreadableError, match=r"neither a folder nor a \.py"):
        load_submission(tmp_path / "k.cu")


def test_links_that_lead_out_are_refused(tmp_path: Path) -> None:
    lay(tmp_path, {"secret.py": "key", "sub/model_new.py": NEW})
    (tmp_path / "sub" / "stolen.py").symlink_to(tmp_path / "secret.py")
    with pytest.raises(SubmissionUnreadableError, match="leads out"):
        load_submission(tmp_path / "sub")


def test_materialize_and_read_back(tmp_path: Path) -> None:
    submission = Submission(files={"model_new.py": NEW, "kernels/k.cu": "x"})
    folder = materialize(Task(name="t", code="class Model: ..."), submission, tmp_path / "w")
    assert (folder / "model.py").read_text() == "class Model: ..."
    assert load_submission(folder) == submission


def test_materialize_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="cannot"):
        materialize(Task(name="t", code="x"), None, tmp_path / "file")
