"""The function inside a callable, and which names its code holds."""

from __future__ import annotations

import dis
import functools
import types


def names_in(code: types.CodeType) -> list[str]:
    """All names in a code object and the code objects nested in it, in order, once each; words in
    quotes, too: getattr(settings, "rate")."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(names_in(constant)))
        elif isinstance(constant, str) and constant.isidentifier():
            found[constant] = None
    return list(found)


def imports_in(code: types.CodeType) -> list[str]:
    """The modules that the code imports itself, as it names them."""
    found = {i.argval: None for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME"}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(imports_in(constant)))
    return list(found)


def globals_in(code: types.CodeType) -> list[str]:
    """Those of them that stand for globals; an attribute may have the name of one."""
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
    """The function inside partials and methods."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        else:
            return function
