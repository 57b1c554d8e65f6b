"""No isolation: for machines that cannot isolate, where a person has said that this is fine."""

from collections.abc import Sequence

from warpsmith.sandbox.limits import FIRST_TO_GO, prlimit
from warpsmith.sandbox.probe import missing
from warpsmith.sandbox.view import cwd_inside
from warpsmith.types.protocols import SandboxSpec


class LocalSandbox:
    """Runs the command as this user with all that this user may do; only file size and time are limited.

    A limit on processes would count all of the user's processes, so there is none.
    """

    name = "none"
    enterable = False

    def unavailable(self) -> str | None:
        """Always None."""
        return None

    def command(self, argv: Sequence[str], spec: SandboxSpec, *, stays: bool = False) -> list[str]:
        """`argv`, started in `spec.cwd`; the other paths of `spec` mean nothing here."""
        limits = [] if missing(("prlimit",)) else prlimit(spec, processes=False)
        script = f'{FIRST_TO_GO}; cd -- "$1" && shift && exec "$@"'
        return ["sh", "-c", script, "sandbox", cwd_inside(spec), *limits, *argv]
