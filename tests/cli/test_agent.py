"""The agent as the command line makes it: instruments of this machine, what it was told in the records, wrong use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.loop import MANIFEST, SETTINGS, TASK, answer, results
from tests.cli.real import error_line

from warpsmith.cli import wiring
from warpsmith.cli.agent_options import AgentOptions
from warpsmith.evaluation.protocols import plan
from warpsmith.judge.instruments.ncu import NcuProfiler
from warpsmith.judge.instruments.sanitize import SanitizedJudge
from warpsmith.recipes.fleet import LocalFleet
from warpsmith.rollout import run_episode
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge
from warpsmith.store import RunReader, RunStore
from warpsmith.types import Device, StopReason, Target

MODEL_NEW = """\
# good
import torch, cuda_extension
class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        cuda_extension.plus(x, out, x.numel())
        return out
"""
FAULTY = """\
__global__ void plus(const float* x, float* out, int n) {
    const int i = threadIdx.x;
    if (i <= n) out[i] = x[i] + 1.0f;
}
extern "C" void plus_launcher(const float* x, float* out, int n, cudaStream_t stream) {
    plus<<<1, 32, 0, stream>>>(x, out, n);
}
"""


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def script(folder: Path, *replies: dict[str, object]) -> str:
    """A model that answers so, as `--model` names it."""
    (folder / "script.json").write_text(json.dumps(replies))
    return f"scripted:{folder / 'script.json'}"


def test_alone_it_has_the_machines_instruments() -> None:
    pytest.importorskip("torch")
    station = wiring.station(Device.SIM)
    assert isinstance(station.sanitizing, SanitizedJudge) and isinstance(station.profiler, NcuProfiler)
    assert station.profiler.target == station.target and station.profiler.isolation != "none"


def test_the_machines_instruments_answer_on_workers_that_stay(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    work = {
        "calls": [
            call("Bash", command="mkdir -p kernels; cat > model_new.py <<'END'\n" + MODEL_NEW + "END"),
            call("Bash", command="cat > kernels/plus.cu <<'END'\n" + FAULTY + "END"),
            call("Sanitize"),
            call("Bash", command="python3 -m utils.ncu; echo status $?"),
        ]
    }
    options = AgentOptions(script(tmp_path, work, {"text": "done"}), None, None, False, False)
    with RunStore(tmp_path / "run") as store, LocalFleet(Device.SIM, 1) as fleet:
        store.open(MANIFEST)
        episode = run_episode(
            TASK,
            options.at(fleet.station(), plan("paper")),
            judge=ScriptedJudge(answer),
            compiler=ScriptedCompiler(),
            target=Target(device=Device.SIM),
            settings=SETTINGS,
            store=store,
        )
    assert episode.stop is StopReason.FINISHED
    # sanitizing alone is no judgement of the episode
    assert episode.turns[0].submission_hash is None
    _, _, sanitized, profiled = results(read_journal(journal_path(tmp_path / "run", episode.episode_id)))[:4]
    assert "kernels/plus.cu:3 in plus: read of 4 bytes outside global memory" in sanitized
    assert "the simulator has no counters: profile on a GPU" in profiled and "status 1" in profiled


def run(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    """`warpsmith optimize` with a scripted judge, on the simulator."""
    (folder / "task.py").write_text(TASK.code)
    argv = [sys.executable, "-m", "tests.cli.scripted_cli", "optimize", str(folder / "task.py")]
    return subprocess.run(
        [*argv, "--device", "sim", "--out", str(folder / "result"), "--json", "--policy", "agent", *args],
        env={**os.environ, "JUDGED": str(folder / "judged"), "WARPSMITH_CACHE": str(folder / "cache")},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_what_it_was_told_stands_in_manifest_and_episode(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    work = {"calls": [call("Bash", command="echo '# good' > model_new.py"), call("Verify")]}
    model = script(tmp_path, work, {"text": "done"})
    done = run(tmp_path, "--model", model, "--seed", "11")
    assert done.returncode == 0 and json.loads(done.stdout)["status"] == "passed", done.stderr
    kept = RunReader(tmp_path / "result")
    (episode,) = kept.episodes()
    assert episode.seed == 11 and episode.policy_settings["loop"] is True
    assert kept.manifest.settings["seed"] == 11 and kept.manifest.settings["policy.skill"] is True
    done = run(tmp_path, "--model", model, "--seed", "12")
    assert done.returncode == 2 and "settings" in error_line(done.stderr)


def test_a_service_that_refuses_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    refused = run(tmp_path, "--model", script(tmp_path, {"fails": "refused"}))
    assert refused.returncode == 3 and json.loads(refused.stdout)["status"] == "infrastructure"
    assert error_line(refused.stderr) == (
        "warpsmith: the model's service takes no question: the script says that the request is refused; "
        "mend the script; then the same command goes on"
    )
    (kept,) = RunReader(tmp_path / "result").episodes()
    assert kept.stop is StopReason.MODEL_REFUSED


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--model", "scripted:x", "--max-cost", "1"),
            "--max-cost needs the model's price; give --price IN,OUT, as 3,15",
        ),
        (("--model", "hf:no/such/folder/here"), "cannot load the model no/such/folder/here"),
        ((), "the agent needs a model"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    pytest.importorskip("transformers")
    done = run(tmp_path, *options)
    assert done.returncode == 2 and said in error_line(done.stderr), done.stderr
