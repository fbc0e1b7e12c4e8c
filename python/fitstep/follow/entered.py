"""Walks the state of functions that a preview enters, before they run.

The walk from the step function follows names in code. Functions that no code names (methods of
installed packages, registries, computed names) are found when the preview enters them:

    first call of a function's code ──> the globals that it names are walked, saved, replaced
    a function returns a module     ──> the names that its caller uses there, too
    first import of a module        ──> the preview stops, imports the module, and starts again
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections.abc import Callable, Container, Iterator, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from .. import _core
from ..base.collector import all_objects
from ..base.frames import arguments_of
from ..errors import CaptureError
from ..state import Node, Reach
from ..state.classes import file_of, is_seen_file
from ..state.walk import Walk
from .muted import LeavesTheProcess

# Packages that are not walked; their functions change figures and pictures, so a preview stops.
_NOTES = ("/matplotlib/", "/PIL/ImageDraw.py")


class FirstImport(LeavesTheProcess):
    """The step was about to import a module for the first time, which cannot be undone."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
        self.undo: Any = None  # The Undo of the recording that stops here.


def look_into_large(reach: Reach, see: Callable[[Reach], None]) -> None:
    """Walks what large containers in `reach` hold, and calls `see` with it."""
    walk = Walk(Reach(reach.function))
    walk.know(reach)
    _look_into(walk, reach.large, see)


def _look_into(walk: Walk, todo: list[Node], see: Callable[[Reach], None]) -> None:
    while todo:
        for node in todo:
            walk.look_into(node)
        found = walk.take()
        todo = found.large
        see(found)


class Existing:
    """The objects that exist before a preview."""

    def __init__(self) -> None:
        objects = all_objects()
        self.ids = frozenset(map(id, objects))
        self.functions: dict[int, list[types.FunctionType]] = {}  # With state, by id of the code.
        for one in objects:
            if type(one) is types.FunctionType and (one.__closure__ or _has_defaults(one)):
                self.functions.setdefault(id(one.__code__), []).append(one)


_INERT = frozenset((int, float, bool, str, bytes, complex, type(None), type, type(...)))


def _has_defaults(function: types.FunctionType) -> bool:
    """Whether a function has default arguments whose content may change."""
    given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return not _INERT.issuperset(map(type, given))


@contextlib.contextmanager
def entering(
    reach: Reach,
    existing: Existing,
    see: Callable[[Reach], None],
    refuse: Callable[[CaptureError], None],
) -> Iterator[_core.Watch]:
    """In its body `see` is called with what entered functions of this thread reach beyond `reach`.
    `refuse` is called with a CaptureError before it is raised, as user code may catch it. Yields
    the watch, on which a limit of calls can be set."""
    walk = Walk(Reach(reach.function))
    walk.know(reach)
    inner: dict[int, types.CodeType] = {}  # Code of functions that the preview itself creates.

    def look(frame: types.FrameType, module: types.ModuleType | None) -> None:
        code = frame.f_code
        if module is None and any(part in code.co_filename for part in _NOTES):
            raise LeavesTheProcess(code.co_name)  # Python 3.10 has no co_qualname.
        if code.co_name == "<module>" or not is_seen_file(code.co_filename):
            return
        modules = [module] if module is not None else _core.values_of_frame(frame)
        inner.update((id(c), c) for c in code.co_consts if isinstance(c, types.CodeType))
        try:
            if id(code) not in inner:
                walk.visit_functions(code, existing.functions.get(id(code), ()))
            walk.visit_globals(frame.f_globals, code)
            if module is None:
                walk.visit_arguments(arguments_of(frame), existing.ids)
            for one in modules:
                walk.visit_module(one, code)
            walk.go()
        except CaptureError as error:
            refuse(error)
            raise
        found = walk.take()
        see(found)
        _look_into(walk, found.large, see)

    with _core.Watch(look) as watch:
        yield watch


def forget_modules(before: Container[str]) -> list[str]:
    """Removes modules of users and packages that are not in `before` from sys.modules; returns
    their names."""
    new = [name for name, m in list(sys.modules.items()) if name not in before and _is_seen(m)]
    for name in new:
        del sys.modules[name]
    return new


def _is_seen(module: object) -> bool:
    return isinstance(module, types.ModuleType) and is_seen_file(file_of(module))


class _Imports:
    """An import finder that finds nothing, and raises FirstImport if a preview imports a module."""

    def __init__(self, tried: set[str]) -> None:
        self._thread = threading.get_ident()
        self._tried = tried

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        asks = sys._getframe(2).f_code.co_name  # importlib.util.find_spec() imports nothing.
        is_import = asks in ("_find_and_load_unlocked", "_find_and_load")
        if threading.get_ident() != self._thread or name in self._tried or not is_import:
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
    """In its body FirstImport is raised if this thread imports a new module of a user or of an
    installed package, unless its name is in `tried`."""
    finder: Any = _Imports(tried)
    sys.meta_path.insert(0, finder)
    before = set(sys.modules)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        new = forget_modules(before)  # The first real call imports these modules again.
    imported = [name for name in new if name in tried]
    if imported:
        raise CaptureError(
            f"the step imports {imported[0]} for the first time, and compile could not import it",
            todo=f"import {imported[0]} before compile",
        )
