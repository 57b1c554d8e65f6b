"""A context on an empty workspace: in the best sandbox for what runs commands, in none for what does not."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warpsmith.agent.tools import Answer, ToolContext, call
from warpsmith.sandbox import LocalSandbox, best_available
from warpsmith.types.protocols import Sandbox

Caller = Callable[..., Answer]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    return best_available()


@pytest.fixture
def isolated(root: Path, sandbox: Sandbox) -> Iterator[ToolContext]:
    with ToolContext(root, sandbox) as context:
        yield context


@pytest.fixture
def context(root: Path) -> Iterator[ToolContext]:
    with ToolContext(root, LocalSandbox()) as context:
        yield context


@pytest.fixture
def ask(context: ToolContext) -> Caller:
    """Calls a tool that runs no commands."""
    return lambda name, **arguments: call(name, arguments, context)


@pytest.fixture
def run(isolated: ToolContext) -> Caller:
    """Calls any tool."""
    return lambda name, **arguments: call(name, arguments, isolated)
