"""Has the n-th call into the core raise MemoryError, counted while a call ends a segment."""

import types
from collections.abc import Callable
from typing import Any

import pytest
from fitstep.steps import calls

from fitstep import _core

CLASSES = ("Homes", "Segment", "StepProgram", "Plan", "Variant", "Device", "Follower")


class NthCall:
    """Patches the core. `at`: which call raises, from 1; 0 for none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 0
        self.count = 0
        self.name = ""  # Of what has raised.
        self._depth = 0
        for name, function in list(vars(_core).items()):
            if isinstance(function, types.BuiltinFunctionType):
                monkeypatch.setattr(_core, name, self._counted(name, function))
        for kind in CLASSES:
            of = getattr(_core, kind)
            for name, method in list(vars(of).items()):
                if not name.startswith("__") and type(method).__name__ == "instancemethod":
                    monkeypatch.setattr(of, name, self._counted(f"{kind}.{name}", method))
        monkeypatch.setattr(calls.Call, "_end_segment", self._inside(calls.Call._end_segment))

    def arm(self, at: int) -> None:
        """Counts anew."""
        self.at, self.count, self.name = at, 0, ""

    def _inside(self, method: Callable[..., None]) -> Callable[..., None]:
        def inside(*args: Any) -> None:
            self._depth += 1
            try:
                method(*args)
            finally:
                self._depth -= 1

        return inside

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if self._depth and self.at:
                self.count += 1
                if self.count == self.at:
                    self.name = name
                    raise MemoryError(f"refused to {name}")
            return function(*args, **kwargs)

        return counted
