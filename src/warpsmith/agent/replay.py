"""Turns that had ended before an episode was interrupted, as steps."""

from warpsmith.types import Turn
from warpsmith.types.protocols import Environment, PolicyStep


def as_it_was(env: Environment, turn: Turn) -> PolicyStep:
    """The step that the turn was stored for."""
    return PolicyStep(
        note=turn.note,
        submission=env.submission(turn.submission_hash) if turn.submission_hash else None,
        answer=env.submission(turn.answer_hash) if turn.answer_hash else None,
        usage=turn.usage,
        calls=turn.calls,
        bad_calls=turn.bad_calls,
        left=turn.left,
    )
