"""The arguments of a step function: whether an example fits it, and how two calls differ."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path

from .errors import CaptureError
from .host_numbers import is_number


def arguments_of(function: Callable[..., Any], example: Any) -> tuple[Any, ...]:
    """Raises CaptureError if the function cannot be called with the example."""
    args = example if isinstance(example, tuple) else (example,)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return args  # A builtin: the call will tell.
    try:
        signature.bind(*args)
    except TypeError as error:
        kind = type(example).__name__
        if isinstance(example, tuple):
            todo = "give example= a tuple of all positional arguments"
        else:
            todo = f"a {kind} is one argument: give several in a tuple, example=(x, y)"
        name = getattr(function, "__qualname__", type(function).__name__)
        raise CaptureError(f"{name} cannot be called with example: {error}", todo=todo) from None
    return args


def describe_change(
    function: Callable[..., Any],
    before: tuple[tuple[Any, ...], dict[str, Any]],
    now: tuple[tuple[Any, ...], dict[str, Any]],
) -> list[str]:
    """In words, how the arguments of two calls differ in what may select a program; if only in
    numbers, what these are now."""
    old, new = (_described(function, *call) for call in (before, now))
    lines = []
    for name in [*old, *(name for name in new if name not in old)]:
        was, is_now = old.get(name, "not given"), new.get(name, "not given")
        if was != is_now:
            lines.append(f"{name} was {was} and is {is_now} now")
    numbers = [leaf for leaf in tree_flatten(now)[0] if is_number(leaf)]
    if numbers and not lines:
        lines.append(f"its numeric arguments are {numbers}")
    return lines


def _described(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, str]:
    try:
        named = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        named = {f"argument {i}": value for i, value in enumerate(args)} | kwargs
    found = {}
    for name, value in named.items():
        for path, leaf in tree_flatten_with_path(value)[0]:
            found[name + keystr(path)] = _brief(leaf)
    return found


def _brief(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        dtype = str(leaf.dtype).removeprefix("torch.")
        how = "" if leaf.is_contiguous() else f" with strides {leaf.stride()}"
        return f"{dtype} of shape {tuple(leaf.shape)}{how}"
    if leaf is None or isinstance(leaf, bool | str):
        return repr(leaf)
    return f"a {type(leaf).__name__}"
