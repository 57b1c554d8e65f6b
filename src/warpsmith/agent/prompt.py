"""What the model is told at the start."""

import ast
import re
from functools import cache
from importlib import resources
from pathlib import Path

from warpsmith.types import Device, Rules, Task, Verdict
from warpsmith.workspace.template import starter

_SYSTEM = """\
You write fast CUDA kernels for a PyTorch model. You work by yourself in a folder, with the tools below; nobody
answers questions. The folder holds model.py (the reference, which stays as it is) and model_new.py, where you define
ModelNew: the same results with the same constructor, parameters and inputs, computed by kernels of your own.

Work in rounds: read, write, compile, verify, profile, and go on while there is something to gain. What counts is the
best submission that the judge passed, judged afresh at the end. A submission that gives wrong results has failed,
however fast. When you are done, answer without calling a tool."""

_SIM = (
    "This machine has no GPU: kernels run in a simulator, which proves results and tells no times. Once your own "
    "kernels pass Verify there is nothing more to gain: say that you are done."
)


_RULES = {
    Rules.PAPER: "The rules here: forward computes with your own kernels alone. PyTorch operators there (also +, *, "
    "torch.sum, .float()) are refused; torch.empty and views are fine.",
    Rules.PRACTICAL: "The rules here: PyTorch operators are allowed in forward beside your own kernels.",
}


def system_text(device: Device, rules: Rules, skill: str, tools: str) -> str:
    """The system message: the work, the rules, the skill, and the tools where they are called in text."""
    parts = [_SYSTEM, _RULES[rules], _SIM if device is Device.SIM else "", skill, tools]
    return "\n\n".join(part for part in parts if part)


def task_listing(task: Task) -> str:
    """The task in full."""
    return f"The task is {task.name}. model.py:\n\n```python\n{task.code.rstrip()}\n```"


def task_text(task: Task, folder: Path, *, compact: bool = False) -> str:
    """The first message: the task in full, so that it never has to be read again.

    `compact`: where `model_new.py` begins too. Without it small models take the constructor of the skill's example.
    """
    if compact:
        return f"Your folder is {folder}. {task_listing(task)}\n\n{_beginning(task)}"
    return (
        f"Your folder is {folder}. {task_listing(task)}\n\n"
        "model_new.py holds the same class now, under the name ModelNew. Write it anew, with kernels beside it, so "
        "that ModelNew is correct and as fast as you can make it."
    )


def _beginning(task: Task) -> str:
    lines = starter(task.code).rstrip().splitlines()
    try:
        body = ast.parse("\n".join(lines)).body
    except SyntaxError:
        body = []
    last = max(
        (node.end_lineno or 0 for node in body if isinstance(node, ast.Import | ast.ImportFrom)), default=0
    )
    lines.insert(last, "import cuda_extension")
    listed = "\n".join(lines)
    return (
        f"model_new.py begins as this, before it calls a kernel:\n\n```python file=model_new.py\n{listed}\n```\n\n"
        "Answer with two files. First kernels/NAME.cu, where NAME begins with a letter: a kernel for what forward "
        "computes, and its NAME_launcher. Then model_new.py: this one, where forward allocates the output and calls "
        "cuda_extension.NAME in place of PyTorch's operators, with exactly the launcher's arguments but the stream. "
        "All else is as it was."
    )


_SINGLE = """\
You write CUDA kernels for a PyTorch model. You answer once: nobody answers questions, and you cannot try anything.
Define ModelNew in model_new.py: the same results as Model, with the same constructor, parameters and inputs, computed
by CUDA kernels of your own in kernels/NAME.cu. A wrong result has failed, however fast.

Give every file whole, in a fenced block whose first line says which file it is, as in the example below. Give
model_new.py and your .cu files, and nothing else."""


def single_turn_system(rules: Rules) -> str:
    """The system message where the model answers once and calls no tools."""
    parts = [_SINGLE, _RULES[rules], skill_section("A kernel and its call")]
    return "\n\n".join(part for part in parts if part)


def single_turn_task(task: Task) -> str:
    """The task in full, and what is to come back."""
    return f"{task_listing(task)}\n\n{_beginning(task)}"


@cache
def skill() -> str:
    """The skill's text without its front matter, and without the names that its samples have for tests."""
    text = (resources.files("warpsmith.agent") / "skill" / "SKILL.md").read_text("utf-8")
    text = re.sub(r"^(```\w+ file=\S+) .*$", r"\1", text, flags=re.MULTILINE)
    return text.split("---\n", 2)[2].strip() if text.startswith("---\n") else text


def skill_section(title: str) -> str:
    """One section of the skill, with its heading. Raises ValueError where it has none of this title."""
    start = skill().index(f"## {title}\n")
    end = skill().find("\n## ", start)
    return skill()[start : end if end >= 0 else None].strip()


def compact_skill() -> str:
    """What of the skill a small model is shown."""
    parts = [skill_section("What is allowed"), skill_section("A kernel and its call")]
    return "\n\n".join([*parts, "SKILL.md and the pages that it names hold more."])


def best_text(number: int, verdict: Verdict, files: dict[str, str], room_chars: int = 24_000) -> str:
    """The best result so far, with its sources as far as they fit: what trimming never takes away."""
    times = verdict.timings
    said = f"median {times.candidate.median_ms:.4g} ms" if times is not None else "not timed"
    parts = [f"Your best result so far ({number} judged): {verdict.status.value}, {said}. Its files:"]
    for name, text in files.items():
        shown = text if len(text) <= room_chars else f"{text[:room_chars]}\n[... cut ...]"
        room_chars -= len(shown)
        parts.append(f"{name}:\n```\n{shown.rstrip()}\n```")
        if room_chars <= 0:
            break
    return "\n\n".join(parts)


RESUMED = (
    "The work was interrupted and goes on now. Files are as they were; the shell is a new one: variables and "
    "background jobs are gone, and files must be read again before they are changed."
)
LOST_CALL = (
    "The work was interrupted during this call: it may or may not have taken effect. Look, then go on."
)
CUT = "Your answer was cut off at its maximum length. Say less at once: make one call, in smaller pieces."
EMPTY = "You gave neither text nor a call. Go on with a tool call, or say that you are done."
NO_ANSWER = (
    "You called no tool, so nothing happened: code in an answer's text is not in your folder, and nothing was judged "
    "yet. Write the files with calls, then call Verify."
)
NO_ANSWER_COMPACT = (
    "Your answer holds no file and no call, so nothing happened, and nothing was judged yet. Give model_new.py and "
    "kernels/NAME.cu whole, each in a fenced block whose first line names it."
)
REPEATED = "[This is the same call with the same result as before. Do something else.]"
