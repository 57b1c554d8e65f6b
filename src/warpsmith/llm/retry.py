"""Asking again: exponential backoff with jitter, and as long as the server itself says."""

import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from warpsmith.errors import ModelReplyError, ModelUnavailableError
from warpsmith.llm.settings import LLMSettings
from warpsmith.types.llm import Reply

AGAIN = frozenset({408, 409, 425, 429, *range(500, 600)})
"""Statuses after which asking again may help."""


class TryAgain(Exception):
    """A request failed in a way that may pass; `error` is raised where it does not. `after_s`: the server's wish."""

    def __init__(self, error: ModelUnavailableError | ModelReplyError, after_s: float | None = None):
        super().__init__(str(error))
        self.error = error
        self.after_s = after_s


def answered(ask: Callable[[], Reply], settings: LLMSettings, sleep: Callable[[float], None]) -> Reply:
    """The reply, with its attempts, seconds and price. Raises the last request's error where none helped."""
    begun = time.monotonic()
    reply, attempts = _persist(ask, settings, sleep)
    usage = settings.price.of(reply.usage) if settings.price else reply.usage
    seconds = round(time.monotonic() - begun, 3)
    return reply.model_copy(update={"attempts": attempts, "seconds": seconds, "usage": usage})


def _persist(
    ask: Callable[[], Reply], settings: LLMSettings, sleep: Callable[[float], None]
) -> tuple[Reply, int]:
    for attempt in range(1, settings.attempts + 1):
        try:
            return ask(), attempt
        except TryAgain as failed:
            if attempt == settings.attempts:
                raise failed.error from failed
            sleep(wait_s(attempt, failed.after_s, settings))
    raise AssertionError("attempts is at least 1")


def wait_s(attempt: int, after_s: float | None, settings: LLMSettings) -> float:
    """Seconds to wait behind request number `attempt`: the server's wish, else 2^n with up to a quarter less."""
    if after_s is not None:
        return min(max(after_s, 0.0), settings.longest_wait_s)
    wanted = min(settings.first_wait_s * 2 ** (attempt - 1), settings.longest_wait_s)
    return wanted * (1 - random.random() / 4)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that `Retry-After-Ms` or `Retry-After` (seconds or a date) ask for; None where they say nothing."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        said = headers.get(name)
        if said is None:
            continue
        try:
            return max(0.0, float(said) / unit)
        except ValueError:
            pass
        try:
            when = parsedate_to_datetime(said)
        except ValueError:
            continue
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    return None
