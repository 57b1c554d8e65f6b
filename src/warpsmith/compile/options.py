"""`warpsmith.toml` of a submission: compiler flags from an allow-list."""

import re
import tomllib
from collections.abc import Mapping

from warpsmith.errors import CompileFailedError

SETTINGS_FILE = "warpsmith.toml"

_ALLOWED = re.compile(
    r"""--?use_fast_math
    | -lineinfo | --generate-line-info
    | --?maxrregcount=[0-9]{1,3}
    | --?(?:fmad|ftz|prec-div|prec-sqrt)=(?:true|false)
    | -D[A-Za-z_]\w*(?:=[\w.+-]*)?
    | --?std=c\+\+(?:14|17|20)
    | -O[0-3]
    | --?(?:expt-relaxed-constexpr|expt-extended-lambda|extended-lambda|extra-device-vectorization)""",
    re.VERBOSE,
)


def nvcc_flags(files: Mapping[str, str]) -> tuple[str, ...]:
    """The submission's own `[compile] nvcc_flags`, in order; empty without a settings file.

    Raises CompileFailedError with one line that names the unreadable file, unknown key or refused flag.
    """
    text = files.get(SETTINGS_FILE)
    if text is None:
        return ()
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CompileFailedError(f"{SETTINGS_FILE}: {error}") from error
    section = settings.pop("compile", {})
    flags = section.pop("nvcc_flags", []) if isinstance(section, dict) else None
    if settings or section:
        unknown = next(iter([*settings, *(section if isinstance(section, dict) else ["compile"])]))
        raise CompileFailedError(
            f"{SETTINGS_FILE}: unknown entry `{unknown}`; only [compile] nvcc_flags is read"
        )
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise CompileFailedError(f"{SETTINGS_FILE}: nvcc_flags must be a list of strings")
    for flag in flags:
        if not is_allowed(flag):
            raise CompileFailedError(f"{SETTINGS_FILE}: nvcc flag {flag!r} is not allowed")
    return tuple(flags)


def is_allowed(flag: str) -> bool:
    """Whether a submission may give this flag to nvcc."""
    return _ALLOWED.fullmatch(flag) is not None


def standard(flag: str) -> int | None:
    """The year of a flag such as `-std=c++17`, else None."""
    match = re.fullmatch(r"--?std=(?:c|gnu)\+\+(14|17|20|2a|23|2b)", flag)
    return int({"2a": "20", "2b": "23"}.get(match[1], match[1])) if match else None


def raised(flags: tuple[str, ...], least: str) -> tuple[str, ...]:
    """`flags` without those that ask for an older standard than `least` (such as `c++20`): headers need that."""
    year = standard(f"-std={least}") or 0
    return tuple(flag for flag in flags if (standard(flag) or year) >= year)


def merged(defaults: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, ...]:
    """`defaults` followed by `own`, less the defaults for optimisation level and standard that `own` sets."""

    def topic(flag: str) -> str:
        for prefix in ("-O", "-std=", "--std="):
            if flag.startswith(prefix):
                return prefix.lstrip("-")
        return flag

    chosen = {topic(flag) for flag in own}
    return (*(flag for flag in defaults if topic(flag) not in chosen), *own)


def defines(flags: tuple[str, ...]) -> tuple[str, ...]:
    """The `-D` flags alone: what also means something to a host compiler."""
    return tuple(flag for flag in flags if flag.startswith("-D"))
