"""Kernels of other packages, run on made-up data to measure them: what they change is put back.

measured, and nothing has changed     a part of programs, as any operator
a count, a cache, a generator moved   it runs between segments, once per call and in its turn
"""

from __future__ import annotations

import contextlib
import sys
from types import TracebackType
from typing import TYPE_CHECKING

from . import _core
from .entered import Existing, entering
from .state import Reach
from .undo import Undo, put_back

if TYPE_CHECKING:
    from typing_extensions import Self


class Trial:
    """A context in whose body such kernels run. `has_changed` says afterwards whether they changed
    anything that their code can reach, `has_imported` whether modules were imported meanwhile."""

    def __init__(self) -> None:
        self.has_changed = self.has_imported = False
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._modules = len(sys.modules)
        reach = Reach(None)
        self._undo = Undo(reach, keeps_contents=True)
        watched = entering(reach, Existing(), self._undo.add, lambda _error: None)
        self._stack.enter_context(watched)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        self.has_imported = len(sys.modules) != self._modules
        with _core.NotFollowed():
            self.has_changed = self._undo.has_changed()
            put_back(self._undo)
