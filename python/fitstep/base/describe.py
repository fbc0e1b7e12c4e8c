"""Ops and counts as text for messages."""

from __future__ import annotations

from typing import Any

from .. import _core


def describe(step: Any, culprit: tuple[int, int]) -> str:
    """One line for an op that sets the floor; `culprit` is (op, bytes)."""
    op, size = culprit
    return f"{describe_op(step, op)}: {_core.format_bytes(size)}"


def counted(number: int, noun: str) -> str:
    """A count with its noun: "1 run", "4 runs"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_seconds(seconds: float) -> str:
    """A time with three digits, in its fitting unit: "12.3 ms"."""
    for unit, size_s in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size_s:
            return f"{seconds / size_s:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns" if seconds else "0 s"


def describe_op(step: Any, op: int) -> str:
    """The op's name, and where the user's code called it."""
    name, module, file, line = step.op(op)
    where = f" at {file}:{line}" if file else ""
    return f"{name}{f' in {module}' if module else ''}{where}"
