"""The policy that a language model plays: a loop of answers and tool calls over one workspace."""

import shutil
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

from warpsmith.agent.actions import Actions, EnvironmentService, Profiler
from warpsmith.agent.actions_desk import Desk
from warpsmith.agent.actions_workspace import AgentWorkspace
from warpsmith.agent.context import ToolContext
from warpsmith.agent.conversation import Conversation
from warpsmith.agent.disk import DiskWatch
from warpsmith.agent.prompt import RESUMED, compact_skill, skill, system_text, task_text
from warpsmith.agent.replay import as_it_was
from warpsmith.agent.session import Session
from warpsmith.agent.settings import AgentSettings
from warpsmith.agent.single_turn import SingleTurnPolicy
from warpsmith.agent.text_calls import describe_briefly, describe_tools
from warpsmith.agent.toolbox import Toolbox
from warpsmith.errors import SubmissionUnreadableError
from warpsmith.sandbox import python_paths
from warpsmith.types import StopReason, Submission, Verdict
from warpsmith.types.llm import LLM, Message, Role
from warpsmith.types.protocols import Environment, Judge, Policy, PolicyStep, Sandbox
from warpsmith.workspace.submission import MODEL_FILE
from warpsmith.workspace.template import environment, needs_own_python

_FOLDER = "workspace"
_START = "start"
"""Holds the hash of what the workspace held before any work: handed in unchanged, it is no answer."""


def policy_for(
    llm: LLM,
    sandbox: Sandbox,
    settings: AgentSettings,
    *,
    sanitizing: Judge | None = None,
    profiler: Profiler | None = None,
) -> Policy:
    """The agent that `settings` describe: working in its loop, or giving one answer."""
    if not settings.loop:
        return SingleTurnPolicy(llm, settings)
    return AgentPolicy(llm, sandbox, settings, sanitizing=sanitizing, profiler=profiler)


class AgentPolicy:
    """Lets `llm` work with the tools, its commands in `sandbox`, until it is done or can go no further.

    An interrupted episode goes on from its journal: turns that had ended are yielded again as they were, calls
    that were under way are answered so. Raises what the model's service raises where asking it is pointless.
    """

    def __init__(
        self,
        llm: LLM,
        sandbox: Sandbox,
        settings: AgentSettings | None = None,
        *,
        sanitizing: Judge | None = None,
        profiler: Profiler | None = None,
    ):
        self.name = f"agent:{llm.name}"
        self._llm = llm
        self._sandbox = sandbox
        self._settings = settings or AgentSettings()
        self.settings = self._settings.model_dump(mode="json")
        self._sanitizing, self._profiler = sanitizing, profiler

    def solve(self, env: Environment) -> Generator[PolicyStep, Verdict | None, StopReason | None]:
        """One step a turn."""
        yield from _replayed(env)
        folder = env.workdir / _FOLDER
        # the mark is written last: a folder without it was left half laid out
        is_new = not (env.workdir / _START).exists() or not folder.is_dir()
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            workspace = AgentWorkspace.lay_out(env.task, folder, with_skill=self._settings.skill)
            start = _snapshot(workspace)
            _put_back(env, folder)
            (env.workdir / _START).write_text(start.submission_hash if start else "")
        else:
            workspace = AgentWorkspace.open(env.task, folder, with_skill=self._settings.skill)
        service = EnvironmentService(env, sanitizing=self._sanitizing, profiler=self._profiler)
        judged: list[str] = []
        actions = Actions(workspace, service, asked=lambda _, given, found: _note(env, judged, given, found))
        with ExitStack() as stack:
            context = stack.enter_context(self._context(workspace))
            if is_new and not env.past_turns:
                # the first message says what it holds
                context.note(MODEL_FILE, (folder / MODEL_FILE).read_bytes())
            disk = stack.enter_context(
                DiskWatch(
                    workspace.root,
                    self._settings.max_disk_bytes,
                    self._settings.max_files,
                    context.kill_running,
                )
            )
            desk = stack.enter_context(Desk(actions))
            toolbox = Toolbox(context, actions, env.device, compact=self._settings.compact)
            conversation = Conversation(env)
            self._begin(conversation, env, toolbox, workspace.root)
            session = Session(self._llm, self._settings, env, conversation, toolbox)
            while True:
                judged.clear()
                stop = session.turn()
                if desk.failure is not None:
                    raise desk.failure
                if stop is None and not workspace.root.is_dir():
                    stop = StopReason.WORKSPACE_LOST
                elif stop is None and disk.look():
                    stop = StopReason.DISK_LIMIT
                # a background job may ask the judge meanwhile: the store takes one at a time
                with actions.lock:
                    yield self._step(env, session, workspace, judged)
                if stop is not None:
                    return stop
                conversation.next_turn()

    def _context(self, workspace: AgentWorkspace) -> ToolContext:
        return ToolContext(
            workspace.root,
            self._sandbox,
            env=environment(workspace.root),
            read_only=tuple(python_paths()) if needs_own_python() else (),
            protected=tuple(workspace.fixed),
        )

    def _begin(self, conversation: Conversation, env: Environment, toolbox: Toolbox, root: Path) -> None:
        """The first two messages; where the conversation goes on, the answers that it lacks."""
        if len(conversation.messages) < 2:
            text = self._system_text(env, toolbox)
            said_of_task = task_text(env.task, root, compact=self._settings.compact)
            for role, said in ((Role.SYSTEM, text), (Role.USER, said_of_task))[len(conversation.messages) :]:
                conversation.say(Message(role=role, text=said))
            return
        conversation.close_open_calls()
        if conversation.reply is None and conversation.resumed and conversation.turn:
            conversation.say(Message(role=Role.USER, text=RESUMED))

    def _system_text(self, env: Environment, toolbox: Toolbox) -> str:
        compact = self._settings.compact
        told = (compact_skill() if compact else skill()) if self._settings.skill else ""
        describe = describe_briefly if compact else describe_tools
        return system_text(env.device, env.rules, told, "" if self._native else describe(toolbox.specs))

    @property
    def _native(self) -> bool:
        return self._llm.native_tools and not self._settings.text_tools

    def _step(
        self, env: Environment, session: Session, workspace: AgentWorkspace, judged: list[str]
    ) -> PolicyStep:
        conversation = session.conversation
        workspace.restore()
        answer = _snapshot(workspace)
        if answer is not None and (env.workdir / _START).read_text() == answer.submission_hash:
            answer = None
        return PolicyStep(
            note=session.note,
            submission=env.submission(judged[-1]) if judged else None,
            answer=answer,
            usage=conversation.usage,
            calls=conversation.calls,
            bad_calls=conversation.bad_calls,
        )


def _replayed(env: Environment) -> Generator[PolicyStep, Verdict | None, None]:
    for turn in env.past_turns:
        yield as_it_was(env, turn)


def _put_back(env: Environment, folder: Path) -> None:
    """The last answer's files, where an interrupted episode's folder is gone."""
    last = next((turn.answer_hash for turn in reversed(env.past_turns) if turn.answer_hash), None)
    submission = env.submission(last) if last else None
    for name, text in submission.files.items() if submission else ():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def _snapshot(workspace: AgentWorkspace) -> Submission | None:
    try:
        return workspace.snapshot()
    except SubmissionUnreadableError:
        return None


def _note(env: Environment, judged: list[str], submission: Submission, found: object) -> None:
    """A submission counts as judged once the episode has a verdict on it: sanitizing alone gives none."""
    if isinstance(found, Verdict) and env.verdict(submission.submission_hash) is not None:
        judged.append(submission.submission_hash)
