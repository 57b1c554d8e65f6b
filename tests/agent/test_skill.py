"""Every code sample of the skill is built and judged; those beyond the simulator are compiled by nvcc."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.warm import warm_pool

import warpsmith.agent
from warpsmith.agent.actions import Actions, JudgeService
from warpsmith.agent.actions_desk import Desk
from warpsmith.agent.actions_workspace import AgentWorkspace
from warpsmith.agent.context import ToolContext
from warpsmith.agent.tools import call
from warpsmith.compile import LocalCompiler
from warpsmith.compile.toolchain import find_nvcc
from warpsmith.judge.service import LocalJudge
from warpsmith.sandbox import best_available
from warpsmith.types import Device, Status, Submission, Target, Task
from warpsmith.types.protocols import JudgeSettings
from warpsmith.workspace.template import environment

SKILL = Path(warpsmith.agent.__file__).with_name("skill")
_FENCE = re.compile(r"^```(\S+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".py": "python", ".cu": "cuda"}


@dataclass
class Sample:
    """The files of one sample. `only` names what it is compiled by in place of being judged."""

    name: str
    page: str
    files: dict[str, str] = field(default_factory=dict)
    only: str = ""


def samples() -> dict[str, Sample]:
    found: dict[str, Sample] = {}
    for page in sorted(SKILL.rglob("*.md")):
        for language, info, code in _FENCE.findall(page.read_text()):
            options = dict(word.split("=", 1) for word in info.split())
            # every sample says what it is, so that none is left out
            assert {"file", "sample"} <= set(options) <= {"file", "sample", "only"}, (page, info)
            assert _LANGUAGES[Path(options["file"]).suffix] == language
            sample = found.setdefault(options["sample"], Sample(options["sample"], page.name))
            assert sample.page == page.name and options["file"] not in sample.files
            sample.files[options["file"]] = code
            sample.only = options.get("only", "")
    return found


SAMPLES = samples()
JUDGED = [name for name, sample in SAMPLES.items() if not sample.only]
COMPILED = [name for name, sample in SAMPLES.items() if sample.only]


def test_the_format() -> None:
    text = (SKILL / "SKILL.md").read_text()
    _, front, body = text.split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    # what Agent Skills ask of a name and a description
    assert re.fullmatch(r"[a-z0-9-]{1,64}", fields["name"]) and 0 < len(fields["description"]) <= 1024
    assert len(body.splitlines()) < 500
    named = set(re.findall(r"`(references/[\w-]+\.md)`", body))
    assert named == {f"references/{path.name}" for path in (SKILL / "references").iterdir()}
    for page in SKILL.rglob("*.md"):
        assert set(re.findall(r"`([\w-]+\.md)`", page.read_text())) <= {p.name for p in SKILL.rglob("*.md")}
        prose = [line for line in page.read_text().splitlines()[4:] if not line.startswith("|")]
        assert max(map(len, prose)) <= 140, page


def test_every_page_has_a_sample_that_is_judged() -> None:
    pages = {path.name for path in SKILL.rglob("*.md")}
    assert {SAMPLES[name].page for name in JUDGED} == pages
    assert set(COMPILED) == {"mma", "cluster"} and {SAMPLES[name].only for name in COMPILED} == {"nvcc"}


@pytest.fixture(scope="module")
def judge(shared_caches: Path) -> Iterator[LocalJudge]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_CACHE", str(shared_caches))
        with closing(warm_pool()) as pool:
            judge = LocalJudge(pool, LocalCompiler(shared_caches / "compile"), best_available(), ahead=True)
            with closing(judge):
                yield judge


@pytest.mark.parametrize("name", JUDGED)
def test_a_sample_passes_the_judge(judge: LocalJudge, name: str) -> None:
    files = dict(SAMPLES[name].files)
    task = Task(name=name, code=files.pop("model.py"))
    verdict = judge.judge(task, Submission(files=files), JudgeSettings(device=Device.SIM))
    log = verdict.compile.log if verdict.compile else ""
    assert verdict.status is Status.PASSED, (verdict.detail, log)


@pytest.mark.parametrize("name", COMPILED)
def test_a_sample_compiles_for_hopper(tmp_path: Path, name: str) -> None:
    nvcc = find_nvcc()
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    for path, code in SAMPLES[name].files.items():
        source = tmp_path / Path(path).name
        source.write_text(code)
        done = subprocess.run(
            [nvcc, "-arch=sm_90", "-std=c++17", "-cubin", "-o", tmp_path / "out.cubin", source],
            capture_output=True, text=True, timeout=280,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_a_sample_through_the_workspaces_scripts(judge: LocalJudge, tmp_path: Path) -> None:
    files = dict(SAMPLES["first"].files)
    task = Task(name="first", code=files.pop("model.py"))
    workspace = AgentWorkspace.lay_out(task, tmp_path / "w")
    settings, target = JudgeSettings(device=Device.SIM), Target(device=Device.SIM)
    service = JudgeService(task, judge, LocalCompiler(), target, settings)
    with (
        Desk(Actions(workspace, service)),
        ToolContext(workspace.root, best_available(), env=environment(workspace.root)) as context,
    ):
        verify = {"command": "sudo python3 -m utils.verification"}
        # the start is the reference by another name
        assert call("Bash", verify, context).text.startswith("[PASS] verify success")
        for name, code in files.items():
            call("Read", {"file_path": name}, context)
            call("Write", {"file_path": name, "content": code}, context)
        assert call("Bash", {"command": "bash utils/compile.sh"}, context).text.startswith("Compile success")
        assert call("Bash", verify, context).text.startswith("[PASS] verify success")
        call("Bash", {"command": "sed -i 's/ i < n; i +=/ i < n - 9; i +=/' kernels/silu_mul.cu"}, context)
        said = call("Bash", verify, context)
    assert (
        said.is_error
        and said.text.startswith("[FAIL] wrong")
        and "elements that no thread writes" in said.text
    )
