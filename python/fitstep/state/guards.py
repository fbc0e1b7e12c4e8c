"""Guards: what must still be true for a compiled step to be the right one.

    before each step    guards.check()        numbers that capture read, identity of parameters,
                                              buffers, modules and state, hooks
    chooses the variant facts.key(args)       see variant.py
    after each step     guards.accept()       if the step itself bound something anew

A check costs some 50 ns per guarded entry: reads go through C loops over flat lists, and only when
one fails does Python look for which.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from fitstep.errors import GuardError
from fitstep.state.code import RanCode
from fitstep.state.nodes import Node, Place, is_number
from fitstep.state.optimizers import OptimizerGuards, Replacement
from fitstep.state.snapshot import MISSING, NumberChange, Snapshot, same_number

_AGAIN = "compile the step again"
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_MODULE_KEYS = frozenset(torch.nn.Module().__dict__)
_GLOBAL_HOOKS = (
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
    torch_module._global_backward_hooks,
    torch_module._global_backward_pre_hooks,
)


def make_guards(
    snapshot: Snapshot,
    ran_code: Iterable[CodeType],
    *,
    exempt: Collection[str] | Callable[[str], bool] = (),
    optimizers: Collection[torch.optim.Optimizer] | None = None,
) -> Guards:
    """Guards for one recording, from the snapshot before it and the code that ran during it.

    Numbers whose path is `exempt` are not guarded: host parameters, and numbers that the caller
    advances itself. Numbers of optimizers and schedulers, and `training` flags, never are.
    `optimizers` are those whose groups and state the recording uses; None: all within reach. Others
    may be stepped outside, and make and replace their state there.

    REQUIRES: the swap of the recording has ended, so that all is again as in the snapshot.
    """
    is_exempt = exempt if callable(exempt) else frozenset(exempt).__contains__
    reach = snapshot.reach
    ran = RanCode(ran_code, reach)
    guards = Guards(snapshot, optimizers)
    for node in reach.nodes:
        if node.large or node.owned_by in ("optimizer", "scheduler") or node.holder is not None:
            continue
        table = _is_module_table(node)
        for key, value in node.entries():
            number = is_number(value)
            if not (table or ran.reads(node, key, called=not number)):
                continue
            if isinstance(key, torch.Tensor) or _is_checked_otherwise(node, key):
                continue
            if number and is_exempt(node.entry_path(key, reach.names)):
                continue
            guards._add(_Guard(node, key, value))
        if node.form.plain and (table or ran.reads(node, None)):
            guards._add_length(node)
    return guards


@dataclass(slots=True, eq=False)
class _Guard:
    node: Node
    key: Any
    expected: object

    def now(self) -> object:
        try:
            return self.node.get(self.key)
        except KeyError:
            return MISSING


class Guards:
    """The guards of one recording. Made by `make_guards`."""

    def __init__(
        self, snapshot: Snapshot, optimizers: Collection[torch.optim.Optimizer] | None = None
    ) -> None:
        reach = snapshot.reach
        self._reach = reach
        self._fast: list[_Guard] = []
        self._containers: list[Any] = []
        self._keys: list[Any] = []
        self._expected: list[object] = []
        self._slow: list[_Guard] = []
        self._kept: dict[int, torch.Tensor] = {}
        self._sized: list[Any] = []
        self._sizes: list[int] = []
        self._size_nodes: list[Node] = []
        self._tables: list[Place] = reach.unique("parameter", "buffer")
        self.grads_count = True  # False where the program reads no gradient that is there before.
        self._leaves: list[torch.Tensor] = [place.tensor for place in reach.leaves()]
        self._hooks: list[dict[Any, Any]] = [*_GLOBAL_HOOKS]
        for _, module in reach.all_modules:
            self._hooks += [module.__dict__[name] for name in _HOOKS if name in module.__dict__]
        self._optimizers = [
            OptimizerGuards(path, optimizer, reach)
            for path, optimizer in reach.optimizers
            if optimizers is None or optimizer in optimizers
        ]
        # The step may still clear the gradients of the others' parameters.
        self._others = [
            (path, optimizer, _parameters_of(optimizer))
            for path, optimizer in reach.optimizers
            if optimizers is not None and optimizer not in optimizers
        ]
        self._baseline()

    def __len__(self) -> int:
        return len(self._fast) + len(self._slow) + len(self._sized) + len(self._tensors)

    @property
    def paths(self) -> list[str]:
        """Paths of all guarded entries, for reports."""
        return [g.node.entry_path(g.key, self._reach.names) for g in self._fast + self._slow]

    def check(self) -> list[Replacement]:
        """Raises GuardError if anything that the step relies on has changed.

        Returns the optimizer state that was replaced by tensors of the same geometry (what
        `optimizer.load_state_dict` does): the caller copies them, puts the old tensors back, and
        calls `accept`. Whether gradients are there or not is the variant's business; a gradient
        that was there and is another tensor now is an error.
        """
        values: list[object]
        try:
            values = list(map(operator.getitem, self._containers, self._keys))
        except (KeyError, IndexError, TypeError):
            values = [guard.now() for guard in self._fast]
        if not all(map(operator.is_, values, self._expected)):
            self._explain(self._fast, values)
        if self._slow:
            self._explain(self._slow, [guard.now() for guard in self._slow])
        if list(map(len, self._sized)) != self._sizes:
            self._explain_sizes()
        self._check_tensors()
        if list(map(len, self._hooks)) != self._hook_counts or self._count_hooks() != self._held:
            raise GuardError(
                *("hooks", self._hook_counts, list(map(len, self._hooks))),
                problem="a hook was added to a module or tensor, or removed, since the step was "
                "compiled",
                todo=f"register hooks before compiling, or {_AGAIN}",
            )
        for path, optimizer, known in self._others:
            now = _parameters_of(optimizer)
            if len(now) != len(known) or not all(map(operator.is_, now, known)):
                raise GuardError(
                    *(f"{path}.param_groups", len(known), len(now)),
                    problem=f"{path} has other parameters than when the step was compiled",
                    todo=f"{_AGAIN} after adding or replacing parameters",
                )
        return [found for guards in self._optimizers for found in guards.check()]

    def accept_grads(self) -> None:
        """Takes the present gradients as the expected ones: a run made or cleared some."""
        self._grads = [leaf.grad for leaf in self._leaves]

    def keep(self, tensors: Iterable[torch.Tensor]) -> None:
        """The program reads these very tensors: `accept` takes no others in their place."""
        self._kept.update((id(tensor), tensor) for tensor in tensors)

    def _holds_kept(self, value: object) -> bool:
        if isinstance(value, tuple):
            return any(map(self._holds_kept, value))
        return id(value) in self._kept

    def accept(self) -> None:
        """Takes the present objects (not numbers) as the expected ones.

        To be called after a run that bound something anew, right after the bindings were applied.
        """
        for guard in self._fast + self._slow:
            if not is_number(guard.expected) and not self._holds_kept(guard.expected):
                guard.expected = guard.now()
        self._expected = [guard.expected for guard in self._fast]
        self._sizes = list(map(len, self._sized))
        self._baseline()

    def expect(self, changes: list[NumberChange]) -> None:
        """Expects the new numbers from now on: those that a run is known to have changed."""
        new = {(id(change.node), id(change.key)): change.new for change in changes}
        for guard in self._fast + self._slow:
            guard.expected = new.get((id(guard.node), id(guard.key)), guard.expected)
        self._expected = [guard.expected for guard in self._fast]

    def _add(self, guard: _Guard) -> None:
        if guard.node.form.indexed and _is_plainly_indexed(guard.node.container):
            self._fast.append(guard)
            self._containers.append(guard.node.container)
            self._keys.append(guard.key)
            self._expected.append(guard.expected)
        else:
            self._slow.append(guard)

    def _add_length(self, node: Node) -> None:
        self._sized.append(node.container)
        self._sizes.append(len(node.container))
        self._size_nodes.append(node)

    def _baseline(self) -> None:
        stored = [(p.path, p.container.get(p.key)) for p in self._tables]
        stored += [found for guards in self._optimizers for found in guards.rebuild()]
        self._paths = [path for path, tensor in stored if tensor is not None]
        self._tensors = [tensor for _, tensor in stored if tensor is not None]
        self._storages = [t.untyped_storage()._cdata for t in self._tensors]
        self._grads = [leaf.grad for leaf in self._leaves]
        self._hook_counts = list(map(len, self._hooks))
        self._held = self._count_hooks()

    def _count_hooks(self) -> list[int]:
        return [
            len(leaf._backward_hooks or ()) + len(leaf._post_accumulate_grad_hooks or ())
            for leaf in self._leaves
        ]

    def _check_tensors(self) -> None:
        storages = [t.untyped_storage()._cdata for t in self._tensors]
        if storages != self._storages:
            for path, now, was in zip(self._paths, storages, self._storages, strict=True):
                if now != was:
                    raise GuardError(
                        *(path, was, now),
                        problem=f"{path} was given another storage (`.data =` or `set_`)",
                        todo=f"write into it in place, {path}.copy_(new), or {_AGAIN}",
                    )
        if not self.grads_count:
            return
        for leaf, old in zip(self._leaves, self._grads, strict=True):
            new = leaf.grad
            if new is not old and new is not None and old is not None:
                path = self._reach.name(leaf) + ".grad"
                raise GuardError(
                    *(path, old, new),
                    problem=f"{path} was replaced by another tensor between two steps",
                    todo=f"write into it in place, {path}.copy_(new), or set it to None",
                )

    def _explain(self, guards: list[_Guard], values: list[object]) -> None:
        """Raises for the first guard that fails; adopts other objects for equal numbers."""
        fast = guards is self._fast
        for i, (guard, now) in enumerate(zip(guards, values, strict=True)):
            if now is guard.expected:
                continue
            if is_number(guard.expected) and is_number(now) and same_number(guard.expected, now):
                guard.expected = now
                if fast:
                    self._expected[i] = now
                continue
            path = guard.node.entry_path(guard.key, self._reach.names)
            if is_number(guard.expected):
                raise GuardError(path, guard.expected, now, todo=_number_todo(path))
            raise GuardError(
                *(path, guard.expected, now),
                problem=f"{path} was replaced since the step was compiled: it was "
                f"{_brief(guard.expected)} and is {_brief(now)} now",
                todo=f"change it in place, or {_AGAIN}",
            )

    def _explain_sizes(self) -> None:
        for node, was in zip(self._size_nodes, self._sizes, strict=True):
            now = len(node.container)
            if now != was:
                path = node.path(self._reach.names)
                raise GuardError(
                    *(path, was, now),
                    problem=f"{path} had {was} entries when the step was compiled and has {now} "
                    "now",
                    todo=_AGAIN,
                )


def _parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _is_module_table(node: Node) -> bool:
    return node.role in ("parameter", "buffer") or node.style == "modules"


def _is_checked_otherwise(node: Node, key: object) -> bool:
    # `training` chooses the variant; a module's own tables are checked by what they hold.
    return node.owned_by == "module" and key in _MODULE_KEYS


def _is_plainly_indexed(container: Any) -> bool:
    """Whether reading container[key] runs no user code and does not make a new entry."""
    read = type(container).__getitem__
    known = read in (dict.__getitem__, list.__getitem__, deque.__getitem__)
    return known and not hasattr(container, "__missing__")


def _number_todo(path: str) -> str:
    return (
        f"pass it to the step as an argument, keep it in a tensor that you write in place, or "
        f"{_AGAIN} after changing {path}"
    )


def _brief(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if is_number(value) or value is MISSING:
        return repr(value)
    return f"a {type(value).__name__}"
