"""What `get_init_inputs` gives, as arguments of `Model`: the one reading of it."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple


class Arguments(NamedTuple):
    """Arguments of a constructor."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def constructor_arguments(found: object, model: Callable[..., object]) -> Arguments:
    """`found` read as arguments of `model`.

    A list or tuple holds them by position; anything else is the only one. `[[…], {…}]`, a list or tuple and a dict
    with names for keys, holds them by position and by name, if `model` takes them so.
    """
    if not isinstance(found, list | tuple):
        return Arguments((found,), {})
    if len(found) == 2 and isinstance(found[0], list | tuple) and isinstance(found[1], dict):
        args, kwargs = tuple(found[0]), found[1]
        if all(isinstance(name, str) for name in kwargs) and _takes(model, args, kwargs):
            return Arguments(args, dict(kwargs))
    return Arguments(tuple(found), {})


def _takes(model: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(model).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True
