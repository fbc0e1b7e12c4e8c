"""The walk from a step function to everything that it can reach.

Breadth first, so that the shortest of several paths names an object. Properties never run. Globals
of functions of installed packages are walked when a preview enters these functions (`entered.py`):
from here they would lead to everything that is installed. Objects of all classes are walked, except
those of libraries in `classes.py`, which hold no state of a training step.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import random
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import Any

import torch

from fitstep.errors import CaptureError, is_user_file
from fitstep.state import forms
from fitstep.state.caches import values_in
from fitstep.state.classes import file_of, is_seen_class, is_seen_file
from fitstep.state.code import globals_in, imports_in, innermost, names_in
from fitstep.state.kinds import GENERATORS, NUMPYS, STAND_INS, Kind
from fitstep.state.nodes import (
    HUGE,
    LARGE,
    Above,
    Node,
    Place,
    Reach,
    Style,
    is_enum,
    is_number_type,
    is_plain_data,
)
from fitstep.state.taken import check_not_taken
from fitstep.state.unshaped import UNSHAPED, hooks_of

MAX_NODES = 300_000
_ATTRIBUTES, _SLOTS = forms.AttributesForm(), forms.SlotsForm()
_STEPS = (("fitstep.steps.step", "Step"), ("fitstep.steps.first_call", "FirstCallStep"))
_CONTAINERS = frozenset((list, dict, set, deque))


class Walk:
    """One walk; the result is in `reach`. `discover` fills in the paths."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self._queue: deque[tuple[object, Above | None, str]] = deque()
        self._seen: set[int] = set()
        self._keep: list[object] = []  # Keeps objects alive, as ids of dead ones are used again.
        self._codes: set[int] = set()  # Ids of code of functions whose closures were walked.
        self._named: dict[int, set[str]] = {}  # id of globals -> names that were walked.
        self._kinds: dict[type, Kind] = {}
        self.modules: list[tuple[torch.nn.Module, Above | None, str]] = []
        self.found: list[tuple[list[tuple[str, Any]], Any, Above | None, str]] = []

    def know(self, reach: Reach) -> None:
        """Marks everything in `reach` as walked already."""
        self._seen.update(map(id, reach.caches))
        for node in reach.nodes:
            self._seen.update((id(node.container), id(node.owner)))
            if isinstance(node.owner, types.FunctionType):
                self._codes.add(id(node.owner.__code__))
            if isinstance(node.form, forms.NamesForm):
                self._named.setdefault(id(node.container), set()).update(node.form.names)

    def add_root(self, value: object, path: str) -> None:
        """Walks from one more root. The step function's path is "", as in "closure.model"."""
        self._queue.append((value, None, path))
        self.go()

    def go(self) -> None:
        """Visits what is queued, until nothing is."""
        while self._queue:
            self._visit(*self._queue.popleft())
            if len(self.reach.nodes) > MAX_NODES:
                raise CaptureError(
                    f"the step function reaches more than {MAX_NODES} objects",
                    todo="keep data sets and logs out of the step's closure, globals and arguments",
                )

    def look_into(self, node: Node) -> None:
        """Walks what a large container holds, except tensors and modules."""
        for key, value in node.entries():
            if not self._kind(type(value)).is_tensor_or_module:
                self._queue.append((value, Above(node, key), ""))
        self.go()

    def take(self) -> Reach:
        """Returns what was found since the last call; tensors and generators have no names."""
        for kind, value, _above, _root in self.found:
            kind.append(("", value))
        self.found.clear()
        found, self.reach = self.reach, Reach(self.reach.function)
        return found

    def _visit(self, value: object, above: Above | None, root: str) -> None:
        kind = self._kind(type(value))
        if kind.visit is None:
            return
        if kind.is_once:
            if id(value) in self._seen:
                return
            self._seen.add(id(value))
            self._keep.append(value)
        kind.visit(self, value, above, root)

    def _kind(self, kind: type) -> Kind:
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = Kind(kind, *self._visit_of(kind))
        return found

    @staticmethod
    def _visit_of(kind: type) -> tuple[Callable[..., None] | None, bool]:
        """The method that visits objects of a class, and whether to visit each object once."""
        at_every_path: list[tuple[Any, Callable[..., None]]] = [
            (torch.Tensor, Walk._visit_tensor),
            ((tuple, frozenset), Walk._visit_tuple),
            (types.BuiltinFunctionType, Walk._visit_builtin),
            (types.MethodWrapperType, Walk._visit_builtin),
            (types.MethodDescriptorType, Walk._visit_descriptor),
        ]
        once: list[tuple[Any, Callable[..., None]]] = [
            (types.FunctionType, Walk._visit_function),
            (type, Walk._visit_class),
            (GENERATORS, Walk._visit_generator),
            (STAND_INS, Walk._visit_stand_in),
        ]
        for of, visit in at_every_path:
            if issubclass(kind, of):
                return visit, False
        if is_enum(kind):  # A member: its value may be a list, and it may have attributes.
            return Walk._visit_object, True
        # Of Python modules only the globals that functions name are walked.
        if is_number_type(kind) and kind.__dictoffset__ and is_seen_class(kind):
            return Walk._visit_object, True  # Of a user's class: it may have attributes.
        if is_number_type(kind) or issubclass(kind, (types.CodeType, types.ModuleType)):
            return None, True
        for of, visit in once:
            if issubclass(kind, of):
                return visit, True
        if (kind.__module__, kind.__name__) in _STEPS:
            return Walk._visit_step, True
        is_numpys = (kind.__module__ or "").startswith("numpy.random") and kind.__name__ in NUMPYS
        return Walk._visit_generator if is_numpys else Walk._visit_object, True

    def _visit_tuple(self, value: Any, above: Above | None, root: str) -> None:
        for i, item in enumerate(value):
            if self._kind(type(item)).visit is not None:
                self._follow(item, above, root, f"[{i}]")
        if type(value).__dictoffset__ and id(value) not in self._seen:
            self._seen.add(id(value))
            self._visit_object(value, above, root)

    def _visit_builtin(self, value: Any, above: Above | None, root: str) -> None:
        check_not_taken(value, lambda: above.path({}) if above else root)
        owner = getattr(value, "__self__", None)
        if not isinstance(owner, types.ModuleType | type | None):  # A method, as log.append.
            self._follow(owner, above, root, ".__self__")

    def _visit_descriptor(self, value: Any, above: Above | None, root: str) -> None:
        check_not_taken(value, lambda: above.path({}) if above else root)

    def _visit_step(self, value: Any, above: Above | None, root: str) -> None:
        self._follow(value.function, above, root, ".function")  # An outer step calls it.

    def _visit_generator(self, value: Any, above: Above | None, root: str) -> None:
        if isinstance(value, random.SystemRandom):  # It has no state.
            return
        self.found.append((self.reach.generators, value, above, root))

    def _follow(self, value: object, above: Above | None, root: str, rest: str) -> None:
        """Queues a value inside another value that is no node."""
        if above is None:
            self._queue.append((value, None, (root + rest).lstrip(".")))
        else:
            self._queue.append((value, Above(above.node, above.key, above.rest + rest), ""))

    def _visit_stand_in(self, value: Any, above: Above | None, root: str) -> None:
        """Visits what wraps other objects: methods, partials, weak references, caches."""
        if type(value) in weakref.ProxyTypes:
            with contextlib.suppress(ReferenceError):
                self._follow(value.__reduce_ex__.__self__, above, root, "")
        elif isinstance(value, types.MethodType):
            self._follow(value.__self__, above, root, "" if above else ".self")
            self._follow(value.__func__, above, root, "")
        elif isinstance(value, functools.partial):
            self._follow(value.func, above, root, ".func")
            self._add(forms.PartialForm(), value, value, above, root, ".args", style="item")
            self._follow(value.keywords, above, root, ".keywords")
        elif isinstance(value, staticmethod | classmethod):
            self._follow(value.__func__, above, root, "")
        elif isinstance(value, property):
            for function in (value.fget, value.fset):
                self._follow(function, above, root, "")
        elif isinstance(value, functools.cached_property):
            self._follow(value.func, above, root, "")
        elif isinstance(value, weakref.ref):
            self._follow(value(), above, root, "()")
        elif isinstance(value, contextvars.ContextVar):
            self._follow(value.get(None), above, root, ".get()")
        elif isinstance(value, memoryview):
            self._follow(value.obj, above, root, ".obj")
        elif isinstance(value, types.MappingProxyType):
            for held in gc.get_referents(value):
                self._follow(held, above, root, "")
        else:
            self.reach.caches.append(value)
            self._follow(value.__wrapped__, above, root, "")
            for held in values_in(value):
                self._follow(held, above, root, "()")

    def _visit_object(self, value: Any, above: Above | None, root: str) -> None:
        kind = self._kind(type(value))
        if kind.is_module:
            self.modules.append((value, above, root))
        elif kind.is_optimizer:
            self.found.append((self.reach.optimizers, value, above, root))
        elif kind.is_scheduler:
            self.found.append((self.reach.schedulers, value, above, root))
        if kind.form is not None:
            inside = above.module_table() if above else None
            if inside is None:
                self._add(kind.form, value, value, above, root, "", style="item")
            else:  # model.weight, not model._parameters['weight'].
                self._add(kind.form, value, value, inside.above, inside.root, "", style="modules")
        if kind.makes_values:
            self._add(forms.FactoryForm(), value, value, above, root, "")
        if kind.is_array and value.dtype.hasobject and value.size <= HUGE:
            for i, held in enumerate(value.flat):
                self._follow(held, above, root, f".flat[{i}]")
        if kind.is_scripted and "_c" in vars(value):
            self._add(forms.ScriptedForm(), value, value, above, root, "")
            for name, child in value._modules.items():
                self._follow(child, above, root, f".{name}")
        if not kind.is_open:
            return
        attributes = forms.attributes_of(value)
        if attributes is not None:
            self._add(_ATTRIBUTES, attributes, value, above, root, "")
        if kind.has_slots:
            self._add(_SLOTS, value, value, above, root, "")
        for base in kind.classes:
            if id(base) not in self._seen:
                self._queue.append((base, None, ""))

    def _visit_function(self, function: types.FunctionType, above: Above | None, root: str) -> None:
        check_not_taken(function, lambda: above.path({}) if above else root)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            if id(cell) not in self._seen:
                self._seen.add(id(cell))
                form = forms.CellForm(name)
                self._add(form, cell, function, above, root, ".closure")
        if function.__defaults__ or function.__kwdefaults__:
            self._add(forms.DefaultsForm(), function, function, above, root, ".default")
        if function.__dict__ or is_seen_file(function.__code__.co_filename):
            self._add(_ATTRIBUTES, function.__dict__, function, above, root, "")
        if is_user_file(function.__code__.co_filename):
            self.visit_globals(function.__globals__, function.__code__)

    def visit_functions(
        self, code: types.CodeType, functions: Iterable[types.FunctionType]
    ) -> None:
        """Walks closures and defaults of `functions`, whose code is `code`."""
        if id(code) not in self._codes:
            self._codes.add(id(code))
            for function in functions:
                self._queue.append((function, None, function.__qualname__))

    def visit_arguments(self, values: list[object], existing: Container[int]) -> None:
        """Walks arguments of a function whose ids are in `existing`, and the class of the first
        argument, which may be `self`."""
        for i, value in enumerate(values):
            kind = value if isinstance(value, type) else type(value)
            if i == 0:
                self._queue.append((kind, None, kind.__qualname__))
            is_object = is_seen_class(kind) or (i > 0 and kind in _CONTAINERS)
            is_object &= not isinstance(value, type | tuple | torch.Tensor)
            if is_object and id(value) in existing:
                self._queue.append((value, None, kind.__qualname__))

    def visit_globals(self, scope: dict[str, Any], code: types.CodeType) -> None:
        """Walks the globals that a function's code names, and modules that it imports."""
        names = globals_in(code)
        if "globals" in names:
            names += [k for k, v in scope.items() if not isinstance(v, types.BuiltinFunctionType)]
            self._add(forms.ScopeForm(), scope, scope, None, str(scope.get("__name__")), "")
        self._visit_names(scope, code, names)
        for name in (scope.get("__name__"), *code.co_consts):  # sys.modules[__name__]
            if isinstance(name, str):
                self.visit_module(name, code)
        package = scope.get("__package__") or ""
        for name in imports_in(code):
            for full in (name, f"{package}.{name}".strip(".")):
                if full in sys.modules:
                    self.visit_module(sys.modules[full], code)

    def visit_module(self, module: Any, code: types.CodeType) -> None:
        """Walks what a function's code names in a module, given as an object or by name."""
        if isinstance(module, str) and {"modules", "__import__"} & {*code.co_names}:
            module = sys.modules.get(module)
        if isinstance(module, types.ModuleType) and is_seen_file(file_of(module)):
            self._visit_names(vars(module), code, names_in(code))

    def _visit_names(
        self, scope: dict[str, Any], code: types.CodeType, names: Iterable[str]
    ) -> None:
        """Walks the globals of a module with these names."""
        seen = self._named.setdefault(id(scope), set())
        names = [n for n in names if n not in seen]
        seen.update(names)
        if not names:
            return
        home = scope.get("__name__")
        root_home = getattr(innermost(self.reach.function), "__globals__", {}).get("__name__")
        path = "global" if home == root_home else str(home)
        self._add(forms.NamesForm(names), scope, scope, None, path, "")
        for name in names:
            self.visit_module(scope.get(name), code)

    def _visit_class(self, cls: type, _above: Above | None, _root: str) -> None:
        if not is_seen_class(cls):
            return
        if is_enum(cls):
            for name, member in vars(cls)["_member_map_"].items():
                self._queue.append((member, None, f"{cls.__qualname__}.{name}"))
            return
        self._add(forms.ClassForm(), cls, cls, None, cls.__qualname__, "")
        for base in (*cls.__mro__[1:], type(cls)):
            self._queue.append((base, None, base.__qualname__))

    def _visit_tensor(self, tensor: torch.Tensor, above: Above | None, _root: str) -> None:
        assert above is not None, "a tensor is reached through a container"
        is_unshaped = isinstance(tensor, UNSHAPED)
        if not is_unshaped:
            self.reach.tensors.append(Place(tensor, "other", above))
        if id(tensor) in self._seen:
            return
        self._seen.add(id(tensor))
        self._keep.append(tensor)
        if is_unshaped:
            self.reach.unshaped.append(tensor)
        attributes = forms.attributes_of(tensor)
        if attributes is not None:
            self._add(_ATTRIBUTES, attributes, tensor, above, "", "")
        for hooks in hooks_of(tensor):
            for hook in hooks.values():
                self._follow(hook, above, "", ".hook")

    def _add(
        self,
        form: forms.Form,
        container: Any,
        owner: object,
        above: Above | None,
        root: str,
        rest: str,
        *,
        style: Style = "attribute",
    ) -> Node:
        """Adds a node, and queues what its entries hold."""
        if above is None:
            root = (root + rest).lstrip(".")
        elif rest:
            above = Above(above.node, above.key, above.rest + rest)
        node = Node(form, container, owner, above, root, style)
        node.role = "attribute" if form is _ATTRIBUTES or form is _SLOTS else "other"
        self.reach.nodes.append(node)
        self._keep.append(container)
        entries = node.entries()
        is_large = form.plain and len(entries) > LARGE
        if is_large:
            is_huge = len(entries) > HUGE or is_plain_data(entries)
            (self.reach.huge if is_huge else self.reach.large).append(node)
        for key, value in entries:
            if key is not value:
                self._enqueue(key, node, key, is_large)
            self._enqueue(value, node, key, is_large)
        return node

    def _enqueue(self, held: object, node: Node, key: object, is_large: bool) -> None:
        """Queues a value of a node's entry, unless it holds nothing or was visited."""
        kind = self._kinds.get(type(held)) or self._kind(type(held))
        if kind.visit is None or (is_large and not kind.is_tensor_or_module):
            return
        if not (kind.is_once and id(held) in self._seen):
            self._queue.append((held, Above(node, key), ""))
