"""An episode of the agent on a scripted model, a scripted judge and a real workspace, sandbox and store."""

from pathlib import Path

from warpsmith.agent.policy import AgentPolicy
from warpsmith.agent.settings import AgentSettings
from warpsmith.llm.scripted import ScriptedCall, ScriptedLLM, ScriptedReply
from warpsmith.rollout import Limits, run_episode
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.rollout.scripted import ScriptedCompiler, ScriptedJudge, scripted_verdict
from warpsmith.sandbox import best_available
from warpsmith.store import Manifest, RunStore
from warpsmith.types import Device, Episode, Status, Submission, Target, Task, Verdict
from warpsmith.types.llm import LLM, Entry
from warpsmith.types.protocols import JudgeSettings, Sandbox

CODE = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x): return x + 1
def get_inputs(): return [torch.rand(4)]
def get_init_inputs(): return []
"""
TASK = Task(name="plus", code=CODE)
SETTINGS = JudgeSettings(device=Device.SIM)
MANIFEST = Manifest(
    command="optimize", task_hash=TASK.task_hash, task_name="plus", policy="agent", device=Device.SIM
)
DONE = ScriptedReply(text="done")


def says(text: str = "", *calls: tuple[str, dict[str, object]]) -> ScriptedReply:
    return ScriptedReply(
        text=text, calls=tuple(ScriptedCall(name=name, arguments=arguments) for name, arguments in calls)
    )


def writes(text: str) -> tuple[str, dict[str, object]]:
    """A file of the answer; `good` in it passes."""
    return "Bash", {"command": f"echo '# {text}' > model_new.py"}


VERIFY: tuple[str, dict[str, object]] = ("Verify", {})


def answer(task: Task, given: Submission, settings: JudgeSettings, calls: int) -> Verdict:
    status = Status.PASSED if "good" in given.files["model_new.py"] else Status.WRONG
    return scripted_verdict(task, given, settings, status)


def play(
    folder: Path,
    llm: LLM,
    limits: Limits | None = None,
    settings: AgentSettings | None = None,
    sandbox: Sandbox | None = None,
    seed: int | None = None,
) -> tuple[Episode, tuple[Entry, ...]]:
    """The finished episode as it was stored, and its journal."""
    with RunStore(folder) as store:
        store.open(MANIFEST)
        episode = run_episode(
            TASK,
            AgentPolicy(llm, sandbox or best_available(), settings),
            judge=ScriptedJudge(answer),
            compiler=ScriptedCompiler(),
            target=Target(device=Device.SIM),
            settings=SETTINGS,
            store=store,
            limits=limits,
            seed=seed,
        )
        assert store.episodes()[-1] == episode
        assert store.turns(episode.episode_id) == episode.turns
    return episode, read_journal(journal_path(folder, episode.episode_id))


def scripted(
    *replies: ScriptedReply, native_tools: bool = True, context_tokens: int = 131_072
) -> ScriptedLLM:
    return ScriptedLLM(replies, native_tools=native_tools, context_tokens=context_tokens)
