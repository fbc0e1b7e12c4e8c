"""Which names did the Python code read that ran?

A number counts as read when its name is read by code that ran. Bytecode tells an attribute that is
read from one that is written or called, so `self.step += 1` in a training loop does not look as if
`optimizer.step()` read it.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType

import torch

from fitstep.errors import is_user_file
from fitstep.state import forms
from fitstep.state.nodes import Above, Node, Reach
from fitstep.state.walk import innermost, is_user_class

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_READ_BY_TORCH = tuple(_TORCH + folder for folder in ("nn", "optim", "distributions", "amp"))
_INDIRECT = frozenset({"getattr", "attrgetter", "vars", "__dict__", "__getattribute__"})
_STORES = frozenset({"STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL"})
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


@dataclass(slots=True)
class Names:
    """Names that one piece of code reads."""

    attributes: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)  # Read only to be called at once: obj.name(...).
    globals: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)  # Of an enclosing function.
    strings: set[str] = field(default_factory=set)  # Constants: names for getattr.

    def add(self, other: Names) -> None:
        """Adds the names of other code."""
        self.attributes |= other.attributes
        self.called |= other.called
        self.globals |= other.globals
        self.variables |= other.variables
        self.strings |= other.strings

    def has(self, name: str, called: bool) -> bool:
        """Whether an attribute is read; by a constant string only where anything reads so."""
        if name in self.attributes or (called and name in self.called):
            return True
        return name in self.strings and not _INDIRECT.isdisjoint(self.globals | self.attributes)


class RanCode:
    """What the code that ran during a recording can have read.

    Errs on the side of "read": a name says nothing about the object that it was read from. Does
    not see names that are put together at run time, such as getattr(self, f"w{i}").
    """

    def __init__(self, codes: Iterable[CodeType], reach: Reach) -> None:
        self._codes = set(codes)
        self._reach = reach
        self._user = Names()
        self._library = Names()
        for code in self._codes:
            file = code.co_filename
            if is_user_file(file):
                self._user.add(_names_of(code))
            elif _may_read_state(file):
                self._library.add(_names_of(code))

    def reads(self, node: Node, key: object, *, called: bool = True) -> bool:
        """Whether an entry was read, going by its name or that of the list or dict it is in.

        A name that is only ever called counts if `called`: a number cannot be.
        """
        form = node.form
        if form.plain:
            return self._reads_container(node.container, set())
        if isinstance(form, forms.PartialForm):
            return True
        if isinstance(form, forms.DefaultsForm):
            return node.container.__code__ in self._codes
        name = str(key)
        if isinstance(form, forms.CellForm):
            return name in self._user.variables or name in self._library.variables
        if isinstance(form, forms.NamesForm):
            user = self._user
            return name in user.globals or user.has(name, called)
        return self._reads_attribute(node, name, called)

    def _reads_attribute(self, node: Node, name: str, called: bool) -> bool:
        owner = node.owner if isinstance(node.owner, type) else type(node.owner)
        who = [self._user]
        if node.owned_by != "user" or not _is_only_known_to_users(owner):
            who.append(self._library)
        return any(names.has(name, called) for names in who)

    def _reads_container(self, container: object, seen: set[int]) -> bool:
        """Whether any of the names of a list or dict was read; it may have several. One without
        a name, such as the keywords of a partial, is read."""
        if id(container) in seen:
            return False
        seen.add(id(container))
        edges = self._reach.edges.get(id(container))
        return edges is None or any(self._reads_above(above, seen) for above in edges)

    def _reads_above(self, above: Above, seen: set[int]) -> bool:
        node = above.node
        if node.form.plain:
            return self._reads_container(node.container, seen)
        return self.reads(node, above.key)


def written_at(reach: Reach, node: Node, key: object) -> str | None:
    """ "file:line in function" of the one place in the user's code that sets an entry by its name;
    None where there is no such place, or there are several."""
    if not isinstance(key, str | int):
        return None
    found = {place for code in _user_codes(reach) for place in _writes(code, node, key)}
    return found.pop() if len(found) == 1 else None


def _user_codes(reach: Reach) -> set[CodeType]:
    values = [innermost(reach.function)]
    for node in reach.nodes:
        values += [node.owner, *(value for _, value in node.entries())]
        if isinstance(node.form, forms.ClassForm):
            values += vars(node.container).values()
    todo = [innermost(value) for value in values]
    codes = [f.__code__ for f in todo if isinstance(f, FunctionType)]
    for code in codes:  # Grows meanwhile: functions in functions.
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    return {c for c in codes if is_user_file(c.co_filename) and c.co_name != "__init__"}


def _writes(code: CodeType, node: Node, key: object) -> Iterator[str]:
    line: int | None = None
    constants: list[object] = []  # Of the line.
    for one in dis.get_instructions(code):
        if one.starts_line:
            line = _line_of(one, line)
            constants = []
        if one.opname == "LOAD_CONST":
            constants.append(one.argval)
        is_item = node.form.plain and one.opname == "STORE_SUBSCR" and key in constants
        if is_item or (not node.form.plain and one.opname in _STORES and one.argval == key):
            yield f"{code.co_filename}:{line} in {code.co_name}"


def _line_of(instruction: dis.Instruction, line: int | None) -> int | None:
    """The line that an instruction begins (a flag from Python 3.13 on); `line` if it is unknown."""
    found = getattr(instruction, "line_number", None) or instruction.starts_line
    return int(found) if found else line


def _may_read_state(file: str) -> bool:
    """Whether library code may read what users set: torch's modules and installed packages.

    Not the standard library and torch's machinery: they read much, by names such as "step".
    """
    if file.startswith(_TORCH):
        return file.startswith(_READ_BY_TORCH)
    is_stdlib = file.startswith(_STDLIB) and "-packages" + os.sep not in file
    return not is_stdlib and not file.startswith((_OWN, "<"))


def _is_only_known_to_users(cls: type) -> bool:
    """Whether no library reads attributes of a class: a user's own, or a mere namespace."""
    return is_user_class(cls) or cls.__module__.partition(".")[0] in sys.stdlib_module_names


@functools.lru_cache(maxsize=16384)
def _names_of(code: CodeType) -> Names:
    names = Names()
    names.variables.update(code.co_freevars, code.co_cellvars)
    names.strings.update(_strings(code.co_consts))
    if sys.version_info >= (3, 15):  # Instructions that nobody has looked at yet: take all names.
        names.attributes.update(code.co_names)
        names.globals.update(code.co_names)
        return names
    for operation, argument in _instructions(code.co_code):
        _sort_name(names, code, operation, argument)
    return names


def _sort_name(names: Names, code: CodeType, operation: str, argument: int) -> None:
    version = sys.version_info
    if operation == "LOAD_ATTR":
        called = version >= (3, 12) and bool(argument & 1)
        name = code.co_names[argument >> 1 if version >= (3, 12) else argument]
        (names.called if called else names.attributes).add(name)
    elif operation == "LOAD_METHOD":
        names.called.add(code.co_names[argument])
    elif operation == "LOAD_SUPER_ATTR":
        names.attributes.add(code.co_names[argument >> 2])
    elif operation == "LOAD_GLOBAL":
        names.globals.add(code.co_names[argument >> 1 if version >= (3, 11) else argument])
    elif operation in ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
        names.globals.add(code.co_names[argument])
    elif operation in ("IMPORT_FROM", "IMPORT_NAME"):
        names.attributes.add(code.co_names[argument])


def _instructions(code: bytes) -> Iterator[tuple[str, int]]:
    extended = 0
    for i in range(0, len(code), 2):
        operation = dis.opname[code[i]]
        argument = extended << 8 | code[i + 1]
        extended = argument if operation == "EXTENDED_ARG" else 0
        yield operation, argument


def _strings(constants: tuple[object, ...]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str) and constant.isidentifier():
            yield constant
        elif isinstance(constant, tuple | frozenset):
            yield from _strings(tuple(constant))
