"""Shadow optimizers: the numbers of an optimizer's next step, from the optimizer's own code.

A captured step holds the learning rate, the bias corrections and the like as numbers in the calls
of its program. They change with every step, so before each run the optimizer's Python code runs on
one-element replicas of its parameters, and its numbers replace those of the program. Parameters
whose replicas would do the same share one:

    parameters   w0 f32, step 7    b0 f32, step 7    w1 bf16, step 7    h f32, step 2
                      \\                /                   |                 |
    classes           class 0 (ndim equal)              class 1           class 2

Nothing about an optimizer is known here. That each parameter alone decides what is done to it is
an assumption that `match` tests on the captured ops, for every parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import torch

from .. import _core
from ..errors import CaptureError, GuardError, user_location
from .facts import tensors_in
from .replica import NUMBERS, Replica, is_scalar
from .tape import ObservationError, Signature, storage_key

# Per parameter, in the order of the groups, whether it has a gradient.
Mask = tuple[bool, ...]
# What an optimizer step does to which parameters, numbers left out. Equal formulas are run by one
# program.
Formula = tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]


@dataclass(frozen=True)
class ClassRun:
    """What one step did to the parameters of one class."""

    members: tuple[int, ...]
    signature: Signature


@dataclass(frozen=True)
class ShadowRun:
    """What one step of the optimizer did."""

    classes: tuple[ClassRun, ...]
    formula: Formula

    def signatures(self) -> dict[int, Signature]:
        """The signature of each parameter that has one."""
        return {member: one.signature for one in self.classes for member in one.members}


@dataclass
class ShadowClass:
    """Parameters that one replica stands for."""

    key: tuple[Any, ...]
    masks: tuple[bool, ...]  # Per step of the run, whether they have a gradient.
    members: tuple[int, ...]
    replica: Replica


@dataclass(frozen=True)
class _Known:
    """A step of a run whose numbers depend on nothing but the objects that it was made from."""

    sources: list[object]
    classes: list[ShadowClass]
    run: ShadowRun


def grad_mask(optimizer: torch.optim.Optimizer) -> Mask:
    """Which parameters of the optimizer have a gradient now."""
    return tuple([p.grad is not None for g in optimizer.param_groups for p in g["params"]])


class ShadowOptimizer:
    """The shadow of `optimizer`.

    One run is `begin`, then `step` once for each time that the step function calls the optimizer,
    then `advance` if the program ran. Only `advance` changes anything of the real optimizer.

    Raises CaptureError for an optimizer that cannot be shadowed.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._real = optimizer
        self._name = type(optimizer).__name__
        self._parameters: list[torch.Tensor] = []
        self._group_of: list[int] = []
        for index, group in enumerate(optimizer.param_groups):
            self._parameters += group["params"]
            self._group_of += [index] * len(group["params"])
        self._classes: list[ShadowClass] = []
        self._partitions: dict[tuple[Mask, ...], list[ShadowClass]] = {}
        self._masks: tuple[Mask, ...] = ()
        self._steps_run = 0
        self._has_begun = False  # Whether the replicas have taken over the real state.
        self._known: dict[tuple[tuple[Mask, ...], int], _Known] = {}
        self._draws = False
        self._formulas: dict[tuple[Any, ...], Formula] = {}
        self._try_out()

    @property
    def classes(self) -> list[tuple[tuple[Any, ...], torch.Tensor]]:
        """The key of every class and a parameter that it represents."""
        return [(one.key, self._parameters[one.members[0]]) for one in self._classes]

    def group_of(self, index: int) -> int:
        """The group of a parameter."""
        return self._group_of[index]

    def run(self, mask: Mask | None = None) -> ShadowRun:
        """`begin` and one step. Without a mask every parameter has a gradient."""
        self.begin([mask if mask is not None else self._everyone()])
        return self.step()

    def begin(self, masks: Sequence[Mask]) -> None:
        """Takes over the real state for a run with one step per mask.

        Raises GuardError if the optimizer's parameters are no longer those it was made from.
        """
        now = [p for group in self._real.param_groups for p in group["params"]]
        if len(now) != len(self._parameters) or not all(map(is_, now, self._parameters)):
            raise GuardError(
                f"{self._name}.param_groups",
                f"{len(self._parameters)} parameters",
                "other parameters",
                problem=f"{self._name} has other parameters now than when the step was compiled",
                todo="compile the step again after changing the optimizer's parameter groups",
            )
        self._masks = tuple(masks)
        self._steps_run = 0
        self._has_begun = False

    def _take_over(self) -> None:
        classes = self._partitions.get(self._masks)
        if classes is None or not all(self._is_uniform(one) for one in classes):
            classes = self._partitions[self._masks] = self._partition(self._masks)
        self._classes = classes
        for one in self._classes:
            one.replica.begin()
        self._has_begun = True

    def step(self) -> ShadowRun:
        """The next step of the run, with the numbers that the real groups hold now."""
        index = self._steps_run
        self._steps_run += 1
        if not self._has_begun:
            known = self._known.pop((self._masks, index), None)
            if known is not None and _are_same(known.sources, self._sources()):
                self._known[self._masks, index] = known
                self._classes = known.classes
                return known.run
            self._take_over()  # Steps before this one were known, and changed nothing.
        run = self._run_replicas(index)
        if all(one.replica.is_repeatable for one in self._classes if one.masks[index]):
            self._known[self._masks, index] = _Known(self._sources(), self._classes, run)
        return run

    def _run_replicas(self, index: int) -> ShadowRun:
        random = torch.default_generator
        was = _core.generator_state(random) if self._draws else None
        runs = tuple(
            [ClassRun(one.members, one.replica.step()) for one in self._classes if one.masks[index]]
        )
        if was is not None:
            _core.set_generator_state(random, was)
        return ShadowRun(runs, self._formula(runs))

    def advance(self) -> None:
        """After the program ran: Python numbers that the optimizer keeps itself (a step count in
        its state, its groups or its attributes) become what the steps of this run made of them."""
        if not self._has_begun:
            return
        for one in self._classes:
            if not any(one.masks[: self._steps_run]):
                continue
            numbers = one.replica.state_numbers()
            for member in one.members if numbers else ():
                self._real.state[self._parameters[member]].update(numbers)
            group = self._real.param_groups[self._group_of[one.members[0]]]
            group.update(one.replica.changed_group())
            self._real.__dict__.update(one.replica.changed_attributes())

    def sets_itself(self) -> set[str]:
        """The entries of groups that the optimizer's own step sets, such as a count of steps."""
        self.run()
        return {key for one in self._classes for key in one.replica.changed_group()}

    def formulas_ahead(self, mask: Mask | None = None, count: int = 8) -> list[Formula]:
        """The formulas of the next `count` steps with one mask and unchanged groups: where two
        neighbours differ, another program is needed."""
        mask = mask if mask is not None else self._everyone()
        self.begin([mask] * count)
        return [self.step().formula for _ in range(count)]

    def _sources(self) -> list[object]:
        """The objects that all numbers of a repeatable step come from, without looking into
        them."""
        found: list[object] = []
        for group in self._real.param_groups:
            found += group
            found += group.values()
        found += [v for v in self._real.__dict__.values() if isinstance(v, NUMBERS)]
        for parameter, state in self._real.state.items():
            found.append(parameter)
            found += state
            found += state.values()
        return found

    def _everyone(self) -> Mask:
        return (True,) * len(self._parameters)

    def _try_out(self) -> None:
        """Two steps under observation: the first often makes state that the second needs."""
        todo = (
            "use an optimizer whose step treats every parameter alone and decides nothing by "
            "their values, or call its step() outside the compiled function"
        )
        for key, value in self._real.__dict__.items():
            if isinstance(value, torch.optim.Optimizer):
                raise self._refusal(f"its attribute {key!r} is another optimizer", todo)
        random = torch.default_generator
        was = _core.generator_state(random)
        try:
            self.begin([self._everyone()] * 2)
            self._take_over()
            real = self._real_storages()
            for one in self._classes * 2:
                self._draws |= one.replica.observed_step(real)
        except ObservationError as error:
            raise self._refusal(str(error), todo) from None
        except Exception as error:
            reason = f"its step fails on one element ({type(error).__name__}: {error})"
            raise self._refusal(reason, todo) from error
        finally:
            _core.set_generator_state(random, was)

    def _real_storages(self) -> frozenset[int]:
        states = [tensors_in(state.values()) for state in self._real.state.values()]
        tensors = [*self._parameters, *(tensor for state in states for tensor in state)]
        return frozenset(storage_key(tensor) for tensor in tensors)

    def _refusal(self, reason: str, todo: str) -> CaptureError:
        problem = f"{self._name} cannot be part of a compiled step: {reason}"
        return CaptureError(problem, where=user_location(), todo=todo)

    def _partition(self, masks: tuple[Mask, ...]) -> list[ShadowClass]:
        """The classes for a run with these masks, given the real state."""
        members: dict[tuple[Any, ...], list[int]] = {}
        for index, parameter in enumerate(self._parameters):
            own_masks = tuple([mask[index] for mask in masks])
            members.setdefault(self._key(index, parameter, own_masks), []).append(index)
        return [
            ShadowClass(
                key=key,
                masks=tuple([mask[found[0]] for mask in masks]),
                members=tuple(found),
                replica=Replica(self._real, self._parameters[found[0]], self._group_of[found[0]]),
            )
            for key, found in members.items()
        ]

    def _key(
        self, index: int, parameter: torch.Tensor, own_masks: tuple[bool, ...]
    ) -> tuple[Any, ...]:
        state = self._real.state.get(parameter) or {}
        return (
            self._group_of[index],
            parameter.dtype,
            parameter.device,
            parameter.ndim,
            isinstance(parameter, torch.nn.Parameter),
            own_masks,
            tuple([(key, *_described(value, parameter.ndim)) for key, value in state.items()]),
        )

    def _is_uniform(self, one: ShadowClass) -> bool:
        """Whether the state of the class's members is still alike."""
        members = [self._parameters[i] for i in one.members]
        states = [self._real.state.get(p) or {} for p in members]
        first, ndim = states[0], members[0].ndim
        described = tuple([(key, *_described(value, ndim)) for key, value in first.items()])
        if [d[:4] for d in described] != [d[:4] for d in one.key[-1]]:
            return False
        try:
            return all(len(state) == len(first) for state in states) and all(
                _all_equal([state[key] for state in states])
                for key, value in first.items()
                if not isinstance(value, torch.Tensor) or is_scalar(value, ndim)
            )
        except (KeyError, RuntimeError, TypeError):
            return False  # Entries are missing, or of several kinds.

    def _formula(self, runs: tuple[ClassRun, ...]) -> Formula:
        key = tuple([(run.members, run.signature.names) for run in runs])
        formula = self._formulas.get(key)
        if formula is None:
            members: dict[tuple[str, ...], list[int]] = {}
            for run in runs:
                members.setdefault(run.signature.names, []).extend(run.members)
            ordered = ((names, tuple(sorted(found))) for names, found in members.items())
            formula = self._formulas[key] = tuple(sorted(ordered, key=lambda entry: entry[1]))
        return formula


def _are_same(known: list[object], now: list[object]) -> bool:
    return len(known) == len(now) and all(map(is_, known, now))


def _described(value: Any, ndim: int) -> tuple[Any, ...]:
    """Kind of a state entry, and its content where that is one number."""
    if not isinstance(value, torch.Tensor):
        return ("number", type(value), 0, repr(value))
    if is_scalar(value, ndim):
        return ("scalar", value.dtype, value.ndim, value.item())
    return ("tensor", value.dtype, value.ndim)


def _all_equal(column: list[Any]) -> bool:
    if isinstance(column[0], torch.Tensor):
        stacked = torch.stack(column)
        return bool((stacked == stacked[0]).all())
    return all(value == column[0] for value in column)
