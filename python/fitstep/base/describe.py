"""Ops of a program as text for messages: name, module, file and line."""

from __future__ import annotations

from typing import Any

from .. import _core


def describe(step: Any, culprit: tuple[int, int]) -> str:
    """One line for an op that sets the floor; `culprit` is (op, bytes)."""
    op, size = culprit
    return f"{describe_op(step, op)}: {_core.format_bytes(size)}"


def describe_op(step: Any, op: int) -> str:
    """The op's name, and where the user's code called it."""
    name, module, file, line = step.op(op)
    where = f" at {file}:{line}" if file else ""
    return f"{name}{f' in {module}' if module else ''}{where}"
