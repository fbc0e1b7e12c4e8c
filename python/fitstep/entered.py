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
from collections.abc import Callable, Container, Iterator, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from . import _core
from .collector import all_objects
from .errors import CaptureError
from .frames import arguments_of
from .muted import LeavesTheProcess
from .state import Node, Reach
from .state.classes import file_of, is_seen_file
from .state.walk import Walk

# Of packages that are not looked into: there figures and pictures change.
_NOTES = ("/matplotlib/", "/PIL/ImageDraw.py")


class FirstImport(LeavesTheProcess):
    """The step was about to import a module for the first time; nothing could undo that."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
        self.undo: Any = None  # Of the recording that ends here.


def look_into_large(reach: Reach, see: Callable[[Reach], None]) -> None:
    """`see` is given what large containers in `reach` hold."""
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
    """What there is before a preview."""

    def __init__(self) -> None:
        objects = all_objects()
        self.ids = frozenset(map(id, objects))
        self.functions: dict[int, list[types.FunctionType]] = {}  # With state, by id of their code.
        for one in objects:
            if type(one) is types.FunctionType and (one.__closure__ or _has_defaults(one)):
                self.functions.setdefault(id(one.__code__), []).append(one)


_INERT = frozenset((int, float, bool, str, bytes, complex, type(None), type, type(...)))


def _has_defaults(function: types.FunctionType) -> bool:
    """Whose content may change."""
    given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return not _INERT.issuperset(map(type, given))


@contextlib.contextmanager
def entering(
    reach: Reach,
    existing: Existing,
    see: Callable[[Reach], None],
    refuse: Callable[[CaptureError], None],
) -> Iterator[_core.Watch]:
    """In its body `see` is given what functions reach that this thread enters, beyond `reach`;
    `refuse` is told of an error, which user code may catch, before it is raised. What watches the
    thread is given out, for a limit."""
    walk = Walk(Reach(reach.function))
    walk.know(reach)
    inner: dict[int, types.CodeType] = {}  # Of functions that the preview makes itself.

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
    """Takes out those of users and installed packages that are not among these, and names them."""
    new = [name for name, m in list(sys.modules.items()) if name not in before and _is_seen(m)]
    for name in new:
        del sys.modules[name]
    return new


def _is_seen(module: object) -> bool:
    return isinstance(module, types.ModuleType) and is_seen_file(file_of(module))


class _Imports:
    """Finds no module: raises FirstImport for one that is about to be imported by a preview."""

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
    """In its body this thread imports no module of a user or of an installed package, except those
    in `tried`: there FirstImport is raised."""
    finder: Any = _Imports(tried)
    sys.meta_path.insert(0, finder)
    before = set(sys.modules)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        new = forget_modules(before)  # The step has run their code, and will do so once more.
    imported = [name for name in new if name in tried]
    if imported:
        raise CaptureError(
            f"the step is the first to import {imported[0]}, which only it can import",
            todo=f"import {imported[0]} before compile",
        )
