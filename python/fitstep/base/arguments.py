"""Checks of a step function's signature: `example` fits it, and a call runs it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..errors import CaptureError


def arguments_of(function: Callable[..., Any], example: Any) -> tuple[Any, ...]:
    """`example` as a tuple. Raises CaptureError if the function cannot be called with it."""
    args = example if isinstance(example, tuple) else (example,)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return args  # A builtin has no signature; the call will raise.
    try:
        signature.bind(*args)
    except TypeError as error:
        kind = type(example).__name__
        if isinstance(example, tuple):
            todo = "pass all positional arguments in a tuple, example=(x, y)"
        else:
            todo = f"a {kind} is one argument: pass several in a tuple, example=(x, y)"
        name = getattr(function, "__qualname__", type(function).__name__)
        raise CaptureError(f"{name} cannot be called with example=: {error}", todo=todo) from None
    return args


def runs_later(function: Callable[..., Any]) -> bool:
    """Whether a call only creates a coroutine or a generator, and runs nothing yet."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return any(
        is_such(function)
        for is_such in (
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
        )
    )
