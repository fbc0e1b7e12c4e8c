"""What the functions that a preview enters can reach, looked at before they run.

The walk from the step function goes by names in code. What runs without being named there (methods
of installed packages, registries, names that are made up) is met when it is entered:

    first call of a function's code ──> the globals that it names are walked, saved, held
    a function returns a module     ──> so is what its caller names there
    first import of a module        ──> the preview ends; the module is imported, and it begins anew
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from . import _core
from .errors import CaptureError
from .muted import LeavesTheProcess
from .state import Reach
from .state.classes import is_seen_file
from .state.walk import Walk


class FirstImport(LeavesTheProcess):
    """The step was about to import a module for the first time; nothing could undo that."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def look_into_large(reach: Reach, see: Callable[[Reach], None]) -> None:
    """`see` is given what large containers in `reach` hold."""
    walk = Walk(Reach(reach.function))
    walk.know(reach)
    todo = reach.large
    while todo:
        for node in todo:
            walk.look_into(node)
        found = walk.take()
        todo = found.large
        see(found)


@contextlib.contextmanager
def entering(
    reach: Reach, see: Callable[[Reach], None], refuse: Callable[[CaptureError], None]
) -> Iterator[None]:
    """In its body `see` is given what functions reach that this thread enters, beyond `reach`;
    `refuse` is told of an error, which user code may catch, before it is raised."""
    walk = Walk(Reach(reach.function))
    walk.know(reach)
    inner: dict[int, types.CodeType] = {}  # Of functions that the preview makes itself.

    def look(frame: types.FrameType, module: types.ModuleType | None) -> None:
        code = frame.f_code
        if not is_seen_file(code.co_filename):
            return
        modules = [module] if module is not None else frame.f_locals.values()
        inner.update((id(c), c) for c in code.co_consts if isinstance(c, types.CodeType))
        try:
            if code.co_freevars and id(code) not in inner:
                walk.visit_closures(code)
            walk.visit_globals(frame.f_globals, code)
            for one in modules:
                walk.visit_module(one, code)
            walk.go()
        except CaptureError as error:
            refuse(error)
            raise
        see(walk.take())

    with _core.Watch(look):
        yield


class _Imports:
    """Finds no module: raises FirstImport for one that is about to be imported by a preview."""

    def __init__(self, tried: set[str]) -> None:
        self._thread = threading.get_ident()
        self._tried = tried

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if threading.get_ident() != self._thread or name in self._tried:
            return None
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    break
        else:
            return None
        if spec.origin is not None and is_seen_file(spec.origin):
            raise FirstImport(name)
        return spec


@contextlib.contextmanager
def importing_nothing(tried: set[str]) -> Iterator[None]:
    """In its body this thread imports no module of a user or of an installed package, except those
    in `tried`: there FirstImport is raised."""
    finder: Any = _Imports(tried)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
