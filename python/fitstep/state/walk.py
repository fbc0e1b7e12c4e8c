"""The walk from a step function to everything that it can reach, breadth first.

Breadth first, so that of several paths to an object the shortest names it. Properties are never
run, and library code is not entered: neither torch's nor an installed package's globals can be
what a user changes between two steps. Objects of any class are entered, except those of the
libraries below, whose insides are none of a training step's state.
"""

from __future__ import annotations

import dis
import functools
import random
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

import torch

from fitstep.errors import CaptureError, is_user_file
from fitstep.state import forms
from fitstep.state.nodes import LARGE, Above, Node, Obstacle, Place, Reach, Role, is_enum, is_number

MAX_NODES = 300_000

_CLOSED_LIBRARIES = frozenset(sys.stdlib_module_names) | {
    *("numpy", "pandas", "matplotlib", "sklearn", "scipy", "sympy", "tqdm", "rich", "wandb"),
    *("tensorboard", "tensorboardX", "mlflow", "triton", "functorch", "torchgen", "PIL", "pytest"),
    *("_pytest", "IPython", "ipykernel", "fitstep"),
}
_OPEN_IN_STDLIB = frozenset(
    {"argparse", "collections", "functools", "types", "weakref", "queue", "threading", "_thread"}
)
_OPEN_IN_TORCH = ("torch.nn.", "torch.optim", "torch.distributions", "torch.amp", "torch.cuda.amp")
_GENERATORS = (torch.Generator, random.Random)
SCHEDULERS = (
    torch.optim.lr_scheduler.LRScheduler,
    torch.optim.lr_scheduler.ReduceLROnPlateau,
)


class Walk:
    """One walk; the result is in `reach`. Paths are filled in by `discover`."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self._queue: deque[tuple[object, Above | None, str]] = deque()
        self._seen: set[int] = set()
        self._keep: list[object] = []  # Ids are only unique among objects that are alive.
        self._named: dict[int, set[str]] = {}  # id of globals -> names already looked at.
        self.module_paths: list[tuple[torch.nn.Module, Above | None, str]] = []
        self.found: list[tuple[list[tuple[str, Any]], Any, Above | None, str]] = []

    def leave_out(self, known: Reach) -> None:
        """Objects of another walk are not entered."""
        self._seen.update(id(one) for node in known.nodes for one in (node.owner, node.container))

    def add_root(self, value: object, path: str) -> None:
        """Walks from one more root. A function's own path is empty: "closure.model"."""
        self._queue.append((value, None, path))
        while self._queue:
            self._visit(*self._queue.popleft())
            if len(self.reach.nodes) > MAX_NODES:
                raise CaptureError(
                    f"the step function reaches more than {MAX_NODES} objects",
                    todo="keep data sets and logs out of the closure and globals that it names",
                )

    def _visit(self, value: object, above: Above | None, root: str) -> None:
        if isinstance(value, torch.Tensor):
            self._visit_tensor(value, above)
            return
        if is_number(value) or isinstance(value, types.BuiltinFunctionType | types.CodeType):
            owner = getattr(value, "__self__", None)
            if isinstance(owner, torch.Tensor):  # A method of a tensor, such as p.add_.
                self._visit_tensor(owner, above)
            return
        if above is not None:
            self.reach.edges.setdefault(id(value), []).append(above)
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._keep.append(value)
        if isinstance(value, tuple | frozenset):
            for i, item in enumerate(value):
                self._follow(item, above, root, f"[{i}]")
            self._seen.discard(id(value))  # In every entry that holds it, it is to be rebuilt.
        elif isinstance(value, types.FunctionType):
            self._visit_function(value, above, root)
        elif isinstance(value, type):
            self._visit_class(value)
        elif not self._visit_wrapper(value, above, root):
            self._visit_object(value, above, root)

    def _follow(self, value: object, above: Above | None, root: str, rest: str) -> None:
        """Queues a value that is reached through another one which is no node."""
        if above is None:
            self._queue.append((value, None, (root + rest).lstrip(".")))
        else:
            self._queue.append((value, Above(above.node, above.key, above.rest + rest), ""))

    def _visit_wrapper(self, value: object, above: Above | None, root: str) -> bool:
        """Things that only stand for others: methods, partials, weak references, caches."""
        if isinstance(value, types.MethodType):
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
            target = value()
            if isinstance(target, torch.Tensor | torch.nn.Module | torch.optim.Optimizer):
                self._follow(target, above, root, "()")
        elif isinstance(value, functools._lru_cache_wrapper):
            self.reach.caches.append(value)
            self._follow(value.__wrapped__, above, root, "")
        elif isinstance(value, types.ModuleType):
            pass  # Looked into by name only, from the functions that name it.
        elif isinstance(value, _GENERATORS) or _is_numpy_generator(value):
            self.found.append((self.reach.generators, value, above, root))
        else:
            return False
        return True

    def _visit_object(self, value: object, above: Above | None, root: str) -> None:
        self._note(value, above, root)
        form = forms.plain_form_of(value)
        if form is not None:
            inside = _module_table(above)
            if inside is None:
                self._add(form, value, value, above, root, "", style="item")
            else:  # model.weight, not model._parameters['weight'].
                self._add(form, value, value, inside.above, inside.root, "", style="modules")
        if not is_open(type(value)):
            return
        attributes = forms.attributes_of(value)
        if attributes is not None:
            self._add(forms.AttributesForm(), attributes, value, above, root, "")
        if forms.slots_of(type(value)):
            self._add(forms.SlotsForm(), value, value, above, root, "")
        for base in type(value).__mro__:
            if is_user_class(base):
                self._queue.append((base, None, ""))

    def _note(self, value: object, above: Above | None, root: str) -> None:
        """Sorts modules, optimizers, schedulers and obstacles into their lists."""
        reach = self.reach
        if isinstance(value, torch.nn.Module):
            self.module_paths.append((value, above, root))
        if isinstance(value, torch.optim.Optimizer):
            self.found.append((reach.optimizers, value, above, root))
        if isinstance(value, SCHEDULERS):
            self.found.append((reach.schedulers, value, above, root))
        for kind in type(value).__mro__:
            if kind.__module__.startswith("torch") and kind.__name__ in _OBSTACLES:
                names: dict[int, str] = {}
                path = above.path(names) if above else root
                reach.obstacles.append(Obstacle(path, *_OBSTACLES[kind.__name__]))
                break

    def _visit_function(self, function: types.FunctionType, above: Above | None, root: str) -> None:
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            if id(cell) not in self._seen:
                self._seen.add(id(cell))
                form = forms.CellForm(name)
                self._add(form, cell, function, above, root, ".closure", role="closure")
        if function.__defaults__ or function.__kwdefaults__:
            self._add(
                *(forms.DefaultsForm(), function, function),
                *(above, root, ".default"),
                role="default",
            )
        if function.__dict__:
            self._add(forms.AttributesForm(), function.__dict__, function, above, root, "")
        if is_user_file(function.__code__.co_filename):
            self._visit_names(function.__globals__, function, globals_in(function.__code__))

    def _visit_names(
        self, scope: dict[str, Any], function: types.FunctionType, names: Iterable[str]
    ) -> None:
        """Those entries of a module's globals with names that occur in a function's code."""
        seen = self._named.setdefault(id(scope), set())
        names = [n for n in names if n not in seen]
        seen.update(names)
        if not names:
            return
        home = scope.get("__name__")
        root_home = getattr(innermost(self.reach.function), "__globals__", {}).get("__name__")
        path = "global" if home == root_home else str(home)
        self._add(forms.NamesForm(names), scope, scope, None, path, "", role="global")
        for name in names:
            module = scope.get(name)
            if isinstance(module, types.ModuleType) and is_user_file(_file_of(module)):
                self._visit_names(vars(module), function, names_in(function.__code__))

    def _visit_class(self, cls: type) -> None:
        if not is_user_class(cls) or is_enum(cls):
            return
        node = self._add(forms.ClassForm(), cls, cls, None, cls.__qualname__, "", role="class")
        for name, member in vars(cls).items():
            if isinstance(member, types.FunctionType | staticmethod | classmethod | property):
                self._queue.append((member, Above(node, name), ""))

    def _visit_tensor(self, tensor: torch.Tensor, above: Above | None) -> None:
        assert above is not None, "a tensor is reached through a container"
        container, key = _holder(above, tensor)
        role = "tuple" if container is not above.node.container else above.node.role
        self.reach.tensors.append(Place("", container, key, tensor, role, above))
        if id(tensor) in self._seen:
            return
        self._seen.add(id(tensor))
        self._keep.append(tensor)
        attributes = forms.attributes_of(tensor)
        if attributes:
            node = self._add(forms.AttributesForm(), attributes, tensor, above, "", "")
            node.holder = tensor
        for hooks in (tensor._backward_hooks, tensor._post_accumulate_grad_hooks):
            for hook in (hooks or {}).values():
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
        style: Any = "attribute",
        role: Role | None = None,
    ) -> Node:
        """Makes a node and queues what its entries hold."""
        if above is not None:
            above = Above(above.node, above.key, above.rest + rest)
        else:
            root = (root + rest).lstrip(".")
        node = Node(form, container, owner, above, root, style)
        node.role = role or ("attribute" if style == "attribute" else _role_of(form))
        self.reach.nodes.append(node)
        self._keep.append(container)
        node.large = large = form.plain and len(container) > LARGE
        for key, value in node.entries():
            if isinstance(key, torch.Tensor) and key is not value:
                self._queue.append((key, Above(node, key), ""))
            if not is_number(value) and not (large and not _is_state(value)):
                self._queue.append((value, Above(node, key), ""))
        return node


_OBSTACLES = {
    "GradScaler": (
        "a GradScaler decides from the data whether to step",
        "train in bfloat16, which needs no scaler",
    ),
    "DataParallel": ("DataParallel copies the model at each call", "pass the model inside it"),
    "DistributedDataParallel": ("DistributedDataParallel is not supported", "pass its .module"),
    "FullyShardedDataParallel": ("FSDP is not supported", "pass the model inside it"),
    "FSDPModule": ("FSDP is not supported", "do not shard the model"),
    "ScriptModule": ("a scripted module keeps its state out of sight", "use the Python module"),
    "OptimizedModule": ("torch.compile is around the module", "pass the module it was made from"),
    "LazyModuleMixin": ("a lazy module has no parameters yet", "run the model once before"),
}


def names_in(code: types.CodeType) -> list[str]:
    """All names in a code object and the code objects nested in it, in order, once each."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(names_in(constant)))
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


def is_user_class(cls: type) -> bool:
    """Whether a class is defined in user code."""
    module = sys.modules.get(cls.__module__)
    return module is not None and is_user_file(_file_of(module))


def _file_of(module: types.ModuleType) -> str:
    file = getattr(module, "__file__", None)
    # A module without a file is built in, but for the one that a user types into.
    return file or ("<stdin>" if module.__name__ == "__main__" else "<frozen>")


def _module_table(above: Above | None) -> Node | None:
    """The attributes of a module, if `above` is one of its three tables of named things."""
    if above is None or above.rest or not isinstance(above.node.owner, torch.nn.Module):
        return None
    return above.node if above.key in ("_parameters", "_buffers", "_modules") else None


def _role_of(form: forms.Form) -> Role:
    return "dict" if isinstance(form, forms.DictForm) else "list"


def is_open(kind: type) -> bool:
    """Whether to look at the attributes of a class's objects."""
    if issubclass(kind, (torch.nn.Module, torch.optim.Optimizer, *SCHEDULERS)):
        return True
    home = kind.__module__ or ""
    top = home.partition(".")[0]
    if top == "torch":
        return f"{home}.".startswith(_OPEN_IN_TORCH)
    if top in _CLOSED_LIBRARIES and top not in _OPEN_IN_STDLIB:
        return is_user_class(kind)
    return True


def _is_state(value: object) -> bool:
    return isinstance(value, torch.Tensor | torch.nn.Module)


def _is_numpy_generator(value: object) -> bool:
    kind = type(value)
    return kind.__module__.startswith("numpy.random") and kind.__name__ in (
        "Generator",
        "RandomState",
    )


def innermost(function: object) -> object:
    """The function inside partials and methods."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        else:
            return function


def _holder(above: Above, tensor: torch.Tensor) -> tuple[Any, object]:
    """The innermost container with the key of a tensor: the node's, or a tuple in its entry."""
    if above.key is tensor:
        return above.node.container, tensor
    container: Any = above.node.container
    key = above.key
    value = above.node.get(key)
    while isinstance(value, tuple):
        inner = [i for i, item in enumerate(value) if item is tensor or _in_tuple(item, tensor)]
        if not inner:
            break
        container, key, value = value, inner[0], value[inner[0]]
    return container, key


def _in_tuple(value: object, tensor: torch.Tensor) -> bool:
    return isinstance(value, tuple) and any(v is tensor or _in_tuple(v, tensor) for v in value)
