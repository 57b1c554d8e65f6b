"""Files in a reply's text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.agent.text_files import read_files

KERNEL = "__global__ void k() {}\n"
MODEL = "class ModelNew:\n    pass\n"


@pytest.mark.parametrize(
    ("text", "files"),
    [
        (f"```cuda file=kernels/add.cu\n{KERNEL}```", {"kernels/add.cu": KERNEL}),
        (f"```python model_new.py\n{MODEL}```", {"model_new.py": MODEL}),
        (f"```python:model_new.py\n{MODEL}```", {"model_new.py": MODEL}),
        (f"```kernels/add.cu\n{KERNEL}```", {"kernels/add.cu": KERNEL}),
        (f"### `kernels/add.cu`\n\n```cpp\n{KERNEL}```", {"kernels/add.cu": KERNEL}),
        (f"**kernels/add.cu**:\n```cpp\n{KERNEL}```\ntalk", {"kernels/add.cu": KERNEL}),
        (f"```cpp\n// kernels/add.cu\n{KERNEL}```", {"kernels/add.cu": f"// kernels/add.cu\n{KERNEL}"}),
        (f"```python\n# File: model_new.py\n{MODEL}```", {"model_new.py": f"# File: model_new.py\n{MODEL}"}),
        # no path: by what it defines
        (
            f"Here:\n```python\n{MODEL}```\n```cuda\n{KERNEL}```",
            {"model_new.py": MODEL, "kernels/kernel.cu": KERNEL},
        ),
        # the later of two, talk, and what was cut
        (f"```python model_new.py\nx\n```\n```python model_new.py\n{MODEL}```", {"model_new.py": MODEL}),
        ("run:\n```bash\nls\n```", {}),
        (f"```python model_new.py\n{MODEL}", {}),
        # a fence within a longer one is part of it
        ("````md a/b.py\n```\nx\n```\n````", {"a/b.py": "```\nx\n```\n"}),
        # a call and a command are no files, whatever they are about
        ('Now model_new.py:\n```json\n{"name": "Read"}\n```', {}),
        ("Then run model_new.py:\n```bash\npython model_new.py\n```", {}),
        # a mention in prose far away names nothing
        ("see model.py.\n\nNow a command:\n```bash\npython model.py\n```", {}),
    ],
)
def test_paths_are_found_where_models_write_them(text: str, files: dict[str, str]) -> None:
    assert read_files(text) == files


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    assert all(path and isinstance(body, str) for path, body in read_files(text).items())


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}/[a-z]{1,8}\.cu", fullmatch=True), st.text("ab {};\n/*", max_size=60)
    )
)
def test_what_is_written_as_the_prompt_asks_comes_back(files: dict[str, str]) -> None:
    text = "\n\n".join(f"```cuda file={path}\n{body}\n```" for path, body in files.items())
    assert read_files(text) == {path: f"{body}\n" for path, body in files.items()}
