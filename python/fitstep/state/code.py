"""Names, imports and globals in a code object, and the function inside a callable."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable


def names_in(code: types.CodeType) -> list[str]:
    """All names in a code object and in code nested in it, once each, in order. String constants
    that are identifiers count, too: getattr(settings, "rate")."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(names_in(constant)))
        elif isinstance(constant, str) and constant.isidentifier():
            found[constant] = None
    return list(found)


def imports_in(code: types.CodeType) -> list[str]:
    """The names of modules that the code imports when it runs."""
    return _in_all(code, lambda one: _own_names(one)[0])


def globals_in(code: types.CodeType) -> list[str]:
    """The names that the code uses as globals; names_in() has attributes, too."""
    return _in_all(code, lambda one: _own_names(one)[1])


def _in_all(code: types.CodeType, names: Callable[[types.CodeType], tuple[str, ...]]) -> list[str]:
    """What `names` gives for a code object and for code nested in it, once each, in order."""
    found = dict.fromkeys(names(code))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(_in_all(constant, names)))
    return list(found)


@functools.lru_cache(maxsize=1 << 14)  # Each preview walks the same code again.
def _own_names(code: types.CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The modules that the code itself imports, and its globals."""
    modules: dict[str, None] = {}
    names: dict[str, None] = {}
    for one in dis.get_instructions(code):
        if one.opname == "IMPORT_NAME":
            modules[one.argval] = None
        if "GLOBAL" in one.opname or one.opname.endswith("_NAME"):
            names[one.argval] = None
    return tuple(modules), tuple(names)


def innermost(function: object) -> object:
    """The function inside nested partials and methods."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        else:
            return function
