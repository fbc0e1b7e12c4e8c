"""Names, imports and globals in a code object, and the function inside a callable."""

from __future__ import annotations

import dis
import functools
import types


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
    found = {i.argval: None for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME"}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(imports_in(constant)))
    return list(found)


def globals_in(code: types.CodeType) -> list[str]:
    """The names that the code uses as globals; names_in() has attributes, too."""
    found = dict.fromkeys(
        one.argval
        for one in dis.get_instructions(code)
        if "GLOBAL" in one.opname or one.opname.endswith("_NAME")
    )
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(globals_in(constant)))
    return list(found)


def innermost(function: object) -> object:
    """The function inside nested partials and methods."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        else:
            return function
