"""Forms: one interface to read and write the entries of every kind of container.

A step function keeps state in dicts, lists, attributes of objects, closure cells, globals of
modules, classes, default arguments and `functools.partial`s. A Form reads any of these as entries
(key, value), and `write` replaces the entries in the same container object, so that references
which user code holds stay valid.

No form runs user code: overridden `__getitem__`, `__setattr__` and properties are bypassed.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from typing import Any, cast

import torch
from torch.utils._pytree import tree_leaves

Entry = tuple[object, object]

_MISSING = object()


class Form:
    """One kind of container. Stateless, except for forms of some of the keys only."""

    plain = False  # True for list, dict, deque and set, whose values have no names of their own.

    def entries(self, container: Any) -> list[Entry]:
        """All entries, in the container's order."""
        raise NotImplementedError

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        """Afterwards `self.entries(container)` holds the same objects as `entries`."""
        raise NotImplementedError

    def restore(self, container: Any, saved: Sequence[Entry]) -> None:
        """`write`, unless the container has exactly these objects as entries already."""
        now = self.entries(container)
        if len(now) != len(saved) or any(
            a[0] is not b[0] or a[1] is not b[1] for a, b in zip(now, saved, strict=True)
        ):
            self.write(container, saved)


class DictForm(Form):
    plain = True

    def entries(self, container: Any) -> list[Entry]:
        return list(_dict_type(container).items(container))

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        base = _dict_type(container)
        base.clear(container)
        for key, value in entries:
            base.__setitem__(container, key, value)


class AttributesForm(DictForm):
    """The `__dict__` of an object: entries are attributes and have names of their own."""

    plain = False


class ListForm(Form):
    plain = True

    def entries(self, container: Any) -> list[Entry]:
        return list(enumerate(list.__iter__(container)))

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        list.__setitem__(container, slice(None), [value for _, value in entries])


class DequeForm(Form):
    plain = True

    def entries(self, container: Any) -> list[Entry]:
        return list(enumerate(deque.__iter__(container)))

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        deque.clear(container)
        deque.extend(container, [value for _, value in entries])


class SetForm(Form):
    """A set: every element is its own key."""

    plain = True

    def entries(self, container: Any) -> list[Entry]:
        return [(value, value) for value in set.__iter__(container)]

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        wanted = {id(value) for value, _ in entries}
        for value in [value for value in set.__iter__(container) if id(value) not in wanted]:
            set.discard(container, value)  # The order of the others stays as before.
        if len(container) != len(entries):
            set.clear(container)
            set.update(container, [value for _, value in entries])


class CellForm(Form):
    """A closure cell; its one key is the variable's name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def entries(self, container: Any) -> list[Entry]:
        try:
            return [(self.name, container.cell_contents)]
        except ValueError:  # Not assigned yet.
            return []

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        if entries:
            container.cell_contents = entries[0][1]
        elif self.entries(container):
            del container.cell_contents


class NamesForm(DictForm):
    """Those globals of a Python module that functions in reach name; others are left alone."""

    plain = False

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def entries(self, container: Any) -> list[Entry]:
        return [(name, container[name]) for name in self.names if name in container]

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        wanted = dict(entries)
        for name in self.names:
            if name in wanted:
                container[name] = wanted[name]
            else:
                container.pop(name, None)


class ScopeForm(DictForm):
    """All globals of a Python module."""

    plain = False

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        wanted = dict(entries)
        for name in [name for name in container if name not in wanted]:
            del container[name]
        container.update(wanted)  # Never cleared first: other threads use these globals.


class FactoryForm(Form):
    def entries(self, container: Any) -> list[Entry]:
        return [("default_factory", container.default_factory)]

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        container.default_factory = entries[0][1]


class SlotsForm(Form):
    """The `__slots__` of an object, through their descriptors."""

    def entries(self, container: Any) -> list[Entry]:
        found: list[Entry] = []
        for name, slot in slots_of(type(container)):
            value = _read_slot(slot, container)
            if value is not _MISSING:
                found.append((name, value))
        return found

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        wanted = dict(entries)
        for name, slot in slots_of(type(container)):
            if name in wanted:
                slot.__set__(container, wanted[name])
            elif _read_slot(slot, container) is not _MISSING:
                slot.__delete__(container)


class ClassForm(Form):
    def entries(self, container: Any) -> list[Entry]:
        return [(k, v) for k, v in vars(container).items() if not _is_pythons_own(k, v)]

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        wanted = dict(entries)
        for name, value in self.entries(container):
            if name not in wanted:
                type.__delattr__(container, cast(str, name))
            elif wanted[name] is value:
                del wanted[name]
        for name, value in wanted.items():
            type.__setattr__(container, cast(str, name), value)


class ScriptedForm(Form):
    """The attributes of a scripted or traced module, which are in C++, not in a Python dict. Each
    read creates new numbers and lists; the object of the earlier read is returned instead if its
    repr() is the same, which distinguishes 0.0 from -0.0 and matches NaN."""

    def __init__(self) -> None:
        self._seen: dict[object, object] = {}

    def entries(self, container: Any) -> list[Entry]:
        module, any_torch = container._c, cast(Any, torch._C)
        names = [n for n, _ in any_torch.ParameterDict(module).items()]
        names += [n for n, _ in any_torch.BufferDict(module).items()]
        concrete = vars(container).get("_concrete_type")
        names += [] if concrete is None else concrete.get_attributes()
        found: dict[object, object] = {sys.intern(n): module.getattr(n) for n in names}
        for name, value in found.items():
            was = self._seen.get(name)
            if type(value) is type(was) and _has_no_tensor(value) and repr(value) == repr(was):
                found[name] = was
        self._seen = {**found}
        return list(found.items())

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        for name, value in entries:
            container._c.setattr(name, value)
        self._seen = dict(entries)


class DefaultsForm(Form):
    """The default arguments of a function, by argument name."""

    def entries(self, container: Any) -> list[Entry]:
        return list(self._named(container).items()) + list((container.__kwdefaults__ or {}).items())

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        wanted = dict(entries)
        names = self._named(container)
        if names:
            container.__defaults__ = tuple(wanted.get(name, names[name]) for name in names)
        for name in container.__kwdefaults__ or ():
            container.__kwdefaults__[name] = wanted.get(name, container.__kwdefaults__[name])

    @staticmethod
    def _named(function: types.FunctionType) -> dict[str, object]:
        values = function.__defaults__ or ()
        code = function.__code__
        # A decorator may have set more defaults than there are arguments.
        names = [*map(str, range(len(values))), *code.co_varnames[: code.co_argcount]]
        return dict(zip(names[len(names) - len(values) :], values, strict=True))


class PartialForm(Form):
    """The positional arguments of a `functools.partial`; its keywords are a dict, another node."""

    def entries(self, container: Any) -> list[Entry]:
        return list(enumerate(container.args))

    def write(self, container: Any, entries: Sequence[Entry]) -> None:
        args = tuple(value for _, value in entries)
        partial: Any = functools.partial
        function, _, keywords, attributes = partial.__reduce__(container)[2]
        partial.__setstate__(container, (function, args, keywords, attributes))


def _has_no_tensor(value: object) -> bool:
    return not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(value))


def attributes_of(value: object) -> dict[str, object] | None:
    """The `__dict__` of an object without running its `__getattribute__`; None if it has none."""
    try:
        # A `threading.local` (written in C) returns the dict of this thread.
        is_local = isinstance(value, threading.local)
        found = value.__dict__ if is_local else object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def slots_of(cls: type) -> tuple[tuple[str, Any], ...]:
    """(name, descriptor) of every data slot that a class and its bases declare."""
    return _slots_of(cls)


@functools.lru_cache(maxsize=4096)
def _slots_of(cls: Hashable) -> tuple[tuple[str, Any], ...]:
    assert isinstance(cls, type)
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        declared = vars(base).get("__slots__", ())
        for name in (declared,) if isinstance(declared, str) else tuple(declared):
            full = f"_{base.__name__.lstrip('_')}{name}" if _is_mangled(name) else name
            slot = vars(base).get(full)
            if inspect.ismemberdescriptor(slot) and full not in found:
                found[full] = slot
    return tuple(found.items())


def _is_mangled(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")


def _read_slot(slot: Any, container: object) -> object:
    try:
        return cast(object, slot.__get__(container))
    except AttributeError:
        return _MISSING


def _is_pythons_own(name: str, value: object) -> bool:
    dunder = name.startswith("__") and name.endswith("__")
    is_slot = inspect.ismemberdescriptor(value) or inspect.isgetsetdescriptor(value)
    own = dunder and not isinstance(value, types.FunctionType)
    return own or is_slot or name in ("_abc_impl", "_is_protocol")


def _dict_type(container: object) -> Any:
    # An OrderedDict keeps an order of its own; dict's methods would corrupt it.
    return OrderedDict if isinstance(container, OrderedDict) else dict


_PLAIN_FORMS = ((dict, DictForm()), (list, ListForm()), (deque, DequeForm()), (set, SetForm()))


def plain_form_of(kind: type) -> Form | None:
    """The form for a class derived from list, dict, deque or set; None for other classes."""
    for base, form in _PLAIN_FORMS:
        if issubclass(kind, base):
            return form
    return None
