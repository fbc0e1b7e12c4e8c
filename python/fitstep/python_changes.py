"""What recordings did to Python state, and whether a compiled step can do the same.

number of an optimizer, of a scheduler     the host side advances it
flag that the first call sets              set by the first run, if both programs are the same
counter, annealed weight                   refused: it would be frozen
numbers drawn in Python                    refused: they would be drawn once
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .errors import CaptureError
from .state import Reach
from .state.code import written_at
from .state.snapshot import MISSING, NumberChange, Snapshot, same_number


class PythonChanges:
    """Looks after each recording of one capture; `snapshot` is from before the first."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._seen = 0
        self._literals: list[bytes] = []
        self.flags: list[NumberChange] = []

    @property
    def flag_paths(self) -> list[str]:
        return [flag.path for flag in self.flags]

    def look(self, index: int, drawn: list[str], literals: list[bytes]) -> None:
        """After recording `index` and before its changes are undone. Raises CaptureError."""
        if drawn:
            raise CaptureError(
                f"the step draws random numbers from {drawn[0]} in Python, which a captured step "
                "would draw once and never again",
                todo="draw with torch operators such as torch.rand, or pass the numbers as tensors",
            )
        if index and len(literals) == len(self._literals) and literals != self._literals:
            raise CaptureError(
                "the step makes a tensor from Python values that are others each time",
                todo="pass the values to the step as a tensor, or make them with torch operators",
            )
        self._literals = literals
        found = [c for c in self._snapshot.changes() if not _is_understood(c)]
        if index == 0:
            self.flags = found
            return
        known = {change.path: change for change in self.flags}
        for change in found:
            before = known.get(change.path)
            if before is None or not same_number(before.new, change.new):
                raise _frozen(before or change, self._snapshot.reach)

    def want_more(self, count: int) -> bool:
        """Whether one recording more is needed to know a flag from a counter."""
        return bool(self.flags) and count == 1

    def compare(self, first: tuple[Any, set[int]], second: tuple[Any, set[int]]) -> None:
        """Each: a program, and which of its ops are optimizers'. The first is the one before the
        flags were set. Raises CaptureError where they differ, as one would run for the other."""
        if _outline(*first) != _outline(*second):
            flag = self.flags[0]
            raise CaptureError(
                f"the first call of the step {_sets(flag)}, and does something else than later "
                "calls",
                where=written_at(self._snapshot.reach, flag.node, flag.key),
                todo="run the step once with plain PyTorch before compiling it",
            )


def check_flags(flags: list[NumberChange]) -> list[NumberChange]:
    """The flags that have yet to be set. Raises CaptureError for one with a third value."""
    todo = []
    for flag in flags:
        try:
            now = flag.node.get(flag.key)
        except KeyError:
            todo.append(flag)
            continue
        if same_number(now, flag.new):
            continue
        if not same_number(now, flag.old):
            raise _frozen(replace(flag, new=now))
        todo.append(flag)
    return todo


def _outline(step: Any, updates: set[int]) -> list[tuple[Any, Any]]:
    numbers = step.all_numbers()
    return [
        (step.op(i), numbers[i])
        for i in range(step.op_count())
        if i not in updates and not _is_bookkeeping(step.op(i)[0])
    ]


def _is_bookkeeping(name: str) -> bool:
    return name in ("aten::copy_", "fitstep::copy")  # New state takes its home instead.


def _is_understood(change: NumberChange) -> bool:
    return change.owned_by in ("optimizer", "scheduler") or change.role == "optimizer_state"


def _frozen(change: NumberChange, reach: Reach | None = None) -> CaptureError:
    return CaptureError(
        f"the step {_sets(change)}; a captured step would do so once and never again",
        where=written_at(reach, change.node, change.key) if reach else None,
        todo="keep it in a tensor (a buffer), or change it outside the step",
    )


def _sets(change: NumberChange) -> str:
    if change.old is MISSING:
        return f"sets the Python value {change.path}, which was not there, to {change.new!r}"
    if change.new is MISSING:
        return (
            f"deletes the Python value {change.path}, which was {change.old!r}, or puts an object "
            "or a tensor in its place"
        )
    return f"changes the Python value {change.path} from {change.old!r} to {change.new!r}"
