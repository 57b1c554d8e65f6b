"""Which trajectories a model should not be taught: those that failed, and those that walk in circles.

Rejection fine-tuning keeps what earned a positive reward, and of it what keeps to the tools' schemas and neither
repeats itself nor goes back and forth.
"""

import json
from collections.abc import Sequence
from enum import StrEnum

from pydantic import Field

from warpsmith.types import Episode, Record, Turn, sha256_hex
from warpsmith.types.llm import Entry, Role


class Fault(StrEnum):
    """Why a trajectory is left out."""

    NO_REWARD = "no reward can be given"
    NOT_POSITIVE = "reward not above 0"
    LOOP = "the same calls with the same output again and again"
    REVERTS = "edits taken back again and again"
    BAD_CALLS = "calls that break a tool's schema"


class Rejection(Record):
    """A fault with what was seen."""

    fault: Fault
    detail: str = ""


class FilterSettings(Record):
    """Each limit is the most that is still kept."""

    min_reward: float = 0.0
    """Kept above it."""
    loop_times: int = Field(3, ge=1)
    """A cycle of calls with the same outputs, so often in a row."""
    loop_length: int = Field(4, ge=1)
    """Calls of the longest cycle looked for."""
    reverts: int = Field(2, ge=0)
    """Returns of the whole folder to a state that it had left. Going back to the best once or twice is good work."""
    bad_calls: int = Field(3, ge=0)
    bad_share: float = Field(0.2, ge=0, le=1)
    """Of an episode's calls; both limits must be passed to be left out."""


def rejections(
    episode: Episode, journal: Sequence[Entry], reward: float | None, settings: FilterSettings
) -> tuple[Rejection, ...]:
    """Everything that speaks against an episode; empty: it is kept."""
    found = [
        _reward(reward, settings),
        _loop(journal, settings),
        _reverts(episode.turns, settings),
        _bad_calls(episode, settings),
    ]
    return tuple(rejection for rejection in found if rejection is not None)


def _reward(reward: float | None, settings: FilterSettings) -> Rejection | None:
    if reward is None:
        return Rejection(fault=Fault.NO_REWARD)
    if reward <= settings.min_reward:
        return Rejection(fault=Fault.NOT_POSITIVE, detail=f"reward {reward:g}")
    return None


def _loop(journal: Sequence[Entry], settings: FilterSettings) -> Rejection | None:
    calls = answered_calls(journal)
    for length in range(1, settings.loop_length + 1):
        times = longest_cycle(calls, length)
        if times > settings.loop_times:
            return Rejection(fault=Fault.LOOP, detail=f"{length} calls, {times} times in a row")
    return None


def answered_calls(journal: Sequence[Entry]) -> list[str]:
    """A digest of each call with its arguments and output, in the order of the answers."""
    asked: dict[str, str] = {}
    digests = []
    for entry in journal:
        if entry.reply is not None:
            asked |= {call.id: f"{call.name} {_plain(call.arguments)}" for call in entry.reply.message.calls}
        elif entry.message is not None and entry.message.role is Role.TOOL:
            call = asked.get(entry.message.call_id or "", "")
            digests.append(sha256_hex(json.dumps([call, entry.message.text])))
    return digests


def longest_cycle(digests: Sequence[str], length: int) -> int:
    """How often a cycle of `length` different items comes in a row at most, whole times; 1: never twice."""
    longest = run = 0
    for at in range(length, len(digests)):
        run = run + 1 if digests[at] == digests[at - length] else 0
        # of a shorter cycle's repetitions nothing new is told
        if run >= length and (length == 1 or len(set(digests[at - length + 1 : at + 1])) > 1):
            longest = max(longest, run)
    return longest // length + 1


def _reverts(turns: Sequence[Turn], settings: FilterSettings) -> Rejection | None:
    times = reverts(turns)
    if times > settings.reverts:
        return Rejection(fault=Fault.REVERTS, detail=f"{times} returns to an earlier state")
    return None


def reverts(turns: Sequence[Turn]) -> int:
    """How often what lay in the policy's folder became again what it had been before the last change."""
    states: list[str] = []
    times = 0
    for turn in turns:
        state = turn.answer_hash
        if state is None or (states and states[-1] == state):
            continue
        times += state in states
        states.append(state)
    return times


def _bad_calls(episode: Episode, settings: FilterSettings) -> Rejection | None:
    calls = sum(turn.calls for turn in episode.turns)
    bad = sum(turn.bad_calls for turn in episode.turns)
    if bad > settings.bad_calls and bad > settings.bad_share * calls:
        return Rejection(fault=Fault.BAD_CALLS, detail=f"{bad} of {calls} calls")
    return None


def _plain(arguments: str) -> str:
    """Arguments that mean the same read the same."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
