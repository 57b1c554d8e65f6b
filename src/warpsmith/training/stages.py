"""The stages that train: each goes on from its folder, and ends with a result and a short report in it."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from warpsmith import __version__
from warpsmith.errors import UsageError
from warpsmith.store import RunReader
from warpsmith.store.files import write_atomic
from warpsmith.training.adapters import tokenizer_folder, whole_folder
from warpsmith.training.budget import NO_BUDGET, Budget
from warpsmith.training.chat import ChatEncoder
from warpsmith.training.curriculum import CurriculumSettings, draw
from warpsmith.training.jobs import PAUSED, LearnerJob, LearnerKind, PpoJob
from warpsmith.training.judges import JudgeSpec
from warpsmith.training.launch import VERL, Engine, failure, launch, require_train_extra
from warpsmith.training.lines import write_lines
from warpsmith.training.player import EpisodePlan, Mode
from warpsmith.training.recipes import Recipe, learner_overrides, ppo_overrides
from warpsmith.training.reports import stage_report
from warpsmith.training.reward import RewardSettings, episode_reward
from warpsmith.training.samples import SampleSettings, select
from warpsmith.training.stage import (
    CHECKPOINTS,
    CURVES,
    Curves,
    Stage,
    StageFolder,
    StageManifest,
    StageResult,
)
from warpsmith.training.trackers import require_trackers
from warpsmith.training.trajectories import gather
from warpsmith.types import Record, Task

REPORT = "report.md"
START = "start"
"""Weights that adapters were merged into. Nothing of it needs to be kept between calls."""
_HF = "huggingface"
_LOOP = "warpsmith.training.engine.agent_loop.EpisodeLoop"


class PpoInputs(Record):
    """What reinforcement learning starts from. `critic` is a value model, or the actor's own model."""

    actor: str
    critic: str
    mode: Mode = Mode.AGENT
    judge: JudgeSpec
    reward: RewardSettings = RewardSettings()
    curriculum: CurriculumSettings = CurriculumSettings()
    unsafe_local: bool = False


class Chosen(NamedTuple):
    """What a supervised stage learns from, and the figures of how it was chosen."""

    records: Sequence[Record]
    figures: dict[str, float]


def fine_tune(
    out: Path,
    runs: Sequence[RunReader],
    model: str,
    made: Recipe,
    settings: SampleSettings,
    *,
    note: Callable[[str], None] = print,
    engine: Engine = VERL,
    budget: Budget = NO_BUDGET,
) -> StageResult:
    """Rejection fine-tuning on what the runs hold. Raises UsageError where nothing of it deserves to be learned."""

    def choose() -> Chosen:
        found = select(runs, ChatEncoder(tokenizer(model)), settings)
        note(f"{len(found.samples)} of {found.episodes} episodes are kept; left out: {found.left_out}")
        if not found.samples:
            raise UsageError(f"nothing to learn: {found.left_out}", hint="collect more, or loosen the filter")
        counts = {f"left_out/{name}": float(count) for name, count in found.left_out.items()}
        return Chosen(found.samples, {"samples": float(len(found.samples))} | counts)

    asked = _asked(Stage.RFT, made, model=model, runs=_named(runs), samples=_dump(settings))
    lesson = Lesson(LearnerKind.FINE_TUNE, made.fine_tune_batch, made.fine_tune_epochs)
    return _supervised(out, asked, choose, lesson, model, made, engine, budget)


def pretrain_critic(
    out: Path,
    runs: Sequence[RunReader],
    model: str,
    made: Recipe,
    reward: RewardSettings,
    *,
    note: Callable[[str], None] = print,
    engine: Engine = VERL,
    budget: Budget = NO_BUDGET,
) -> StageResult:
    """Value pretraining on every rewarded trajectory of the runs. Raises UsageError where there is none."""

    def choose() -> Chosen:
        found = gather(runs, reward, made.response_tokens)
        note(f"{len(found.rewarded)} trajectories; left out: {found.left_out}")
        if not found.rewarded:
            raise UsageError(
                f"no trajectory has token ids and a reward: {found.left_out}",
                hint="collect with the model that ppo will start from",
            )
        policies = len({one.policy.split("#")[0] for one in found.rewarded})
        counts = {"trajectories": float(len(found.rewarded)), "policies": float(policies)}
        return Chosen(found.rewarded, counts)

    asked = _asked(Stage.VALUE, made, model=model, runs=_named(runs), reward=_dump(reward))
    lesson = Lesson(LearnerKind.CRITIC, made.value_batch, made.value_epochs)
    return _supervised(out, asked, choose, lesson, model, made, engine, budget)


def reinforce(
    out: Path,
    stage: Stage,
    tasks: Sequence[Task],
    own: Sequence[Task],
    earlier: Sequence[RunReader],
    inputs: PpoInputs,
    made: Recipe,
    *,
    engine: Engine = VERL,
    budget: Budget = NO_BUDGET,
) -> StageResult:
    """PPO on the tasks, drawn by what `earlier` runs earned on them and mixed with the user's own."""
    require_train_extra(engine)
    require_trackers(made.trackers)
    with StageFolder(out) as folder:
        asked = _asked(
            stage,
            made,
            tasks=sorted(task.task_hash[:12] for task in (*tasks, *own)),
            runs=_named(earlier),
            inputs=_dump(inputs),
        )
        if (done := folder.open(asked)) is not None:
            return done
        begun, paused = time.monotonic(), False
        if folder.stopped() is None:
            job = _ppo_job(folder, tasks, own, earlier, inputs, made, budget)
            folder.prepare_resume()
            paused = _run(folder, engine.ppo, job, made, ranks=1)
        return _finish(folder, stage, begun, Path("actor") / _HF, {}, paused)


def tokenizer(model: str) -> object:
    """The tokenizer of a model's folder. Raises UsageError where there is none."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(tokenizer_folder(Path(model)), local_files_only=True)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{model} holds no tokenizer", hint="give the folder of a model in Hugging Face's format"
        ) from error


def task_rows(tasks: Sequence[Task]) -> str:
    """verl's data set of prompts, one JSON line each; the prompt itself is made by the policy."""
    rows = [
        {
            "prompt": [{"role": "user", "content": task.name}],
            "data_source": task.source.value,
            "task": task.model_dump_json(),
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": index},
        }
        for index, task in enumerate(tasks)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def _ppo_job(
    folder: StageFolder,
    tasks: Sequence[Task],
    own: Sequence[Task],
    earlier: Sequence[RunReader],
    inputs: PpoInputs,
    made: Recipe,
    budget: Budget,
) -> Path:
    """Writes what the trainer reads, the tasks in the order of training; the path of the job."""
    rewards: dict[str, list[float]] = {}
    for run in earlier:
        for episode in run.episodes():
            if (earned := episode_reward(episode, run.verdict, inputs.reward)) is not None:
                rewards.setdefault(episode.task_hash, []).append(earned)
    rows = draw(tasks, own, rewards, made.steps * (made.batch // made.samples), inputs.curriculum)
    data, loop, path = (folder.path / name for name in ("tasks.jsonl", "loop.yaml", "job.json"))
    write_atomic(data, task_rows(rows))
    write_atomic(loop, f"- name: warpsmith\n  _target_: {_LOOP}\n  job: {json.dumps(str(path))}\n")
    plan = EpisodePlan(
        folder=str(folder.path / "episodes"),
        mode=inputs.mode,
        judge=inputs.judge,
        reward=inputs.reward,
        turns=made.turns,
        context_tokens=made.context_tokens,
        response_tokens=made.response_tokens,
        answer_tokens=made.answer_tokens,
        temperature=made.temperature,
        compact=made.compact,
        unsafe_local=inputs.unsafe_local,
    )
    checkpoints = str(folder.path / CHECKPOINTS)
    job = PpoJob(
        folder=str(folder.path),
        overrides=ppo_overrides(
            made,
            _start(folder, inputs.actor),
            _start(folder, inputs.critic, critic=True),
            str(data),
            checkpoints,
            str(loop),
        ),
        plan=plan,
        lambdas=made.lambdas,
        watch=made.watch,
        ratio_limit=made.ratio_limit,
        budget=budget,
        trackers=made.trackers,
    )
    write_atomic(path, job.model_dump_json(indent=2))
    return path


class Lesson(NamedTuple):
    """How a supervised stage learns."""

    kind: LearnerKind
    batch: int
    epochs: int


def _supervised(
    out: Path,
    asked: StageManifest,
    choose: Callable[[], Chosen],
    lesson: Lesson,
    model: str,
    made: Recipe,
    engine: Engine,
    budget: Budget,
) -> StageResult:
    """Chooses once what is learned, and learns it to the end."""
    require_train_extra(engine)
    require_trackers(made.trackers)
    with StageFolder(out) as folder:
        if (done := folder.open(asked)) is not None:
            return done
        begun, paused = time.monotonic(), False
        data, told = folder.path / "data.jsonl", folder.path / "selection.json"
        if not told.exists():
            chosen = choose()
            write_lines(data, chosen.records)
            # last: where it lies, the data is whole
            write_atomic(told, json.dumps({"records": len(chosen.records), "figures": chosen.figures}))
        selection = json.loads(told.read_text())
        if selection["records"] < made.gpus:
            raise UsageError(
                f"{selection['records']} of what can be learned do not feed {made.gpus} GPUs",
                hint="collect more, or use fewer GPUs",
            )
        # a small set is one batch: the engine drops what does not fill one
        batch = max(min(lesson.batch, selection["records"]) // made.gpus, 1) * made.gpus
        steps = max(1, selection["records"] // batch) * lesson.epochs
        if folder.stopped() is None and folder.prepare_resume() < steps:
            job = _learner_job(folder, lesson._replace(batch=batch), steps, data, model, made, budget)
            paused = _run(folder, engine.learner, job, made, ranks=made.gpus)
        return _finish(folder, asked.stage, begun, Path(_HF), selection["figures"], paused)


def _learner_job(
    folder: StageFolder,
    lesson: Lesson,
    steps: int,
    data: Path,
    model: str,
    made: Recipe,
    budget: Budget,
) -> Path:
    job = LearnerJob(
        kind=lesson.kind,
        folder=str(folder.path),
        data=str(data),
        overrides=learner_overrides(
            made,
            _start(folder, model, critic=lesson.kind is LearnerKind.CRITIC),
            str(folder.path / CHECKPOINTS),
            critic=lesson.kind is LearnerKind.CRITIC,
            batch=lesson.batch,
            epochs=lesson.epochs,
            steps=steps,
        ),
        save_every=made.save_every,
        lambdas=made.lambdas,
        watch=made.watch,
        budget=budget,
        trackers=made.trackers,
    )
    path = folder.path / "job.json"
    write_atomic(path, job.model_dump_json(indent=2))
    return path


def _start(folder: StageFolder, model: str, *, critic: bool = False) -> str:
    """The folder of whole weights that a trainer starts from; what an adapter was merged into can be made again."""
    into = folder.path / START / ("critic" if critic else "actor")
    return str(whole_folder(Path(model), into, value_head=critic))


def _run(folder: StageFolder, module: str, job: Path, made: Recipe, *, ranks: int) -> bool:
    """Trains; whether it ended because its budget is spent. Raises InfrastructureError where it failed."""
    log = folder.path / "log.txt"
    end = launch(
        module,
        job,
        log=log,
        device=made.device,
        ranks=ranks,
        silence_s=made.silence_s,
        heartbeat=[folder.path / CURVES],
    )
    if end.exit_code == PAUSED:
        return True
    if not end.ok and folder.stopped() is None:
        raise failure(end, log)
    return False


def _finish(
    folder: StageFolder, stage: Stage, begun: float, inside: Path, known: Mapping[str, float], paused: bool
) -> StageResult:
    rows = Curves(folder.path).rows()
    stopped = folder.stopped()
    step = folder.good() if stopped is not None else folder.last_whole()
    last = {name: value for name, value in rows[-1].items() if name != "step"} if rows else {}
    result = StageResult(
        stage=stage,
        model=str(folder.checkpoint(step) / inside) if step else None,
        steps=int(rows[-1]["step"]) if rows else 0,
        figures={name: float(value) for name, value in known.items()} | last,
        stopped=stopped.alarm if stopped is not None else None,
        paused=paused,
        seconds=round(time.monotonic() - begun, 1),
    )
    write_atomic(folder.path / REPORT, stage_report(folder, result, rows))
    if paused:
        folder.forget()
    return result if paused else folder.finish(result)


def _asked(stage: Stage, made: Recipe, **inputs: JsonValue) -> StageManifest:
    settings: dict[str, JsonValue] = {"recipe": _dump(made), **inputs}
    return StageManifest(stage=stage, settings=settings, versions={"warpsmith": __version__})


def _dump(record: Record) -> JsonValue:
    return record.model_dump(mode="json")


def _named(runs: Sequence[RunReader]) -> list[JsonValue]:
    return [str(run.path.absolute()) for run in runs]
