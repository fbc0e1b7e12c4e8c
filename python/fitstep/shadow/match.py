"""Where an optimizer's numbers stand in a captured program.

Every op that was recorded inside one call of an optimizer's step is attributed to the parameter
whose storages it touches. What is attributed to one parameter must be what the parameter's shadow
did, name by name and number by number; then each number of the shadow has its places:

    recorded     mul_(w, .99)  mul_(b, .99)  add_(w, gw, -.1)  add_(b, gb, -.1)
    shadow       mul_(p, .99)                add_(p, g, -.1)
    places of -.1:                           op 2              op 3
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ..errors import CaptureError, user_location
from .facts import Number, Numbers, facts_named, plain_name, same_number
from .optimizer import Formula, ShadowOptimizer, ShadowRun
from .tape import Signature

StorageKey = Hashable


@dataclass(frozen=True)
class TapeOp:
    """One recorded op, list ops split into ops on one tensor."""

    index: int  # Names the op to the caller; says nothing about order.
    name: str  # "aten::add_.Tensor"
    numbers: Numbers  # As listed by `OperatorFacts`; where that has None, anything.
    inputs: tuple[StorageKey, ...]  # In the order of the schema.
    outputs: tuple[StorageKey, ...]  # Of tensors that are returned.


class NumberPatch(NamedTuple):
    """Number `number` of op `op` becomes `value`."""

    op: int
    number: int
    value: Number


class LiteralPatch(NamedTuple):
    """The literal tensor in `storage` becomes `content`."""

    storage: StorageKey
    content: bytes


@dataclass
class Patches:
    """What differs between a program as it is and as the next run needs it."""

    numbers: list[NumberPatch] = field(default_factory=list)
    literals: list[LiteralPatch] = field(default_factory=list)


class Slots:
    """The places of one optimizer call's numbers in one program, and what stands there now."""

    def __init__(self, formula: Formula) -> None:
        self.formula = formula
        self._ops: dict[int, list[int]] = {}  # Per parameter, the ops in the order of its shadow.
        self._literals: dict[int, list[StorageKey | None]] = {}
        self._now: dict[int, Signature] = {}
        self._last: ShadowRun | None = None

    def place(
        self, parameter: int, ops: list[int], literals: list[StorageKey | None], now: Signature
    ) -> None:
        """`parameter` is updated by `ops`, which carry the numbers of `now`."""
        self._ops[parameter] = ops
        self._literals[parameter] = literals
        self._now[parameter] = now

    def update(self, run: ShadowRun) -> Patches:
        """What to write so that the program does what the shadow did, given that all earlier
        patches were written.

        REQUIRES: run.formula == self.formula
        """
        patches = Patches()
        if run is self._last:
            return patches
        literals: dict[StorageKey, bytes] = {}
        changes: dict[tuple[int, int], list[tuple[int, int, Number]]] = {}
        for one in run.classes:
            for member in one.members:
                pair = (id(self._now[member]), id(one.signature))
                if pair not in changes:
                    changes[pair] = _changed_numbers(self._now[member], one.signature)
                ops = self._ops[member]
                patches.numbers += [NumberPatch(ops[o], n, v) for o, n, v in changes[pair]]
                self._collect_literals(member, one.signature, literals)
        for one in run.classes:
            for member in one.members:
                self._now[member] = one.signature
        patches.literals = [LiteralPatch(s, content) for s, content in literals.items()]
        self._last = run
        return patches

    def _collect_literals(
        self, member: int, new: Signature, found: dict[StorageKey, bytes]
    ) -> None:
        old = self._now[member]
        for storage, before, after in zip(
            self._literals[member], old.literals, new.literals, strict=True
        ):
            if storage is None or before == after:
                continue
            if found.setdefault(storage, after) != after:
                raise CaptureError(
                    "parameters that shared one literal tensor need different ones now",
                    todo="give the optimizer's parameters equal step counts, or compile again",
                )


def _changed_numbers(old: Signature, new: Signature) -> list[tuple[int, int, Number]]:
    """(op, number, new value) in the order of the shadow."""
    changed = []
    for index, (before, after) in enumerate(zip(old.numbers, new.numbers, strict=True)):
        if before is after:
            continue
        for number, (a, b) in enumerate(zip(before, after, strict=True)):
            if b is not None and not same_number(a, b):
                changed.append((index, number, b))
    return changed


def match(
    optimizer: torch.optim.Optimizer,
    shadow: ShadowOptimizer,
    run: ShadowRun,
    tape_ops: Sequence[TapeOp],
    storages: Mapping[int, Iterable[StorageKey]],
    literals: Mapping[StorageKey, bytes] | None = None,
) -> Slots:
    """Places the numbers of `run` in the ops that were recorded inside one call of the optimizer.

    `storages` holds, per parameter in the order of the groups, the storages of the parameter, its
    gradient and its state, before and after the call (`storages_of` lists them). `literals` holds
    the content of every literal tensor.

    Raises CaptureError where the ops are not what the shadow did.
    """
    who = _Names(optimizer, shadow)
    counted = [op for op in tape_ops if not _is_silent(op.name)]
    per_parameter: dict[int, list[TapeOp]] = {}
    for op, owner in zip(counted, _owners(counted, storages, who), strict=True):
        per_parameter.setdefault(owner, []).append(op)
    signatures = run.signatures()
    slots = Slots(run.formula)
    for parameter in sorted(per_parameter.keys() | signatures.keys()):
        ops = per_parameter.get(parameter, [])
        if parameter not in signatures:
            raise who.refusal(f"it updates {who.of(parameter)}, which has no gradient")
        signature = signatures[parameter]
        _compare(ops, signature, parameter, who)
        found = _match_literals(ops, signature, literals or {}, set(storages[parameter]))
        if found is None:
            raise who.refusal(f"on {who.of(parameter)} it reads other literal tensors")
        slots.place(parameter, [op.index for op in ops], found, signature)
    return slots


def storages_of(optimizer: torch.optim.Optimizer, storage_of: Any) -> dict[int, set[StorageKey]]:
    """The storages of each parameter, its gradient and its state as they are now.
    `storage_of(tensor)` names the storage of a tensor."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    found: dict[int, set[StorageKey]] = {}
    for index, parameter in enumerate(parameters):
        state = (optimizer.state.get(parameter) or {}).values()
        tensors = [parameter, parameter.grad, *state]
        found[index] = {storage_of(t) for t in tensors if isinstance(t, torch.Tensor)}
    return found


class _Names:
    """Says which optimizer and which parameter an error is about."""

    def __init__(self, optimizer: torch.optim.Optimizer, shadow: ShadowOptimizer) -> None:
        self._name = type(optimizer).__name__
        self._shadow = shadow
        self.tensors = [  # A learning rate, say.
            f"param_groups[{i}][{key!r}]"
            for i, group in enumerate(optimizer.param_groups)
            for key, value in group.items()
            if isinstance(value, torch.Tensor)
        ]

    def of(self, parameter: int) -> str:
        return f"parameter {parameter} (of group {self._shadow.group_of(parameter)})"

    def refusal(self, reason: str) -> CaptureError:
        return CaptureError(
            f"{self._name} cannot be part of a compiled step: {reason}",
            where=user_location(),
            todo="use an optimizer whose step does the same to every parameter whatever its shape "
            "and values, or call its step() outside the compiled function",
        )

    def ownerless(self, op: TapeOp) -> CaptureError:
        if not self.tensors:
            return self.refusal(f"its {op.name} belongs to no parameter")
        place = self.tensors[0]
        return CaptureError(
            f"{self._name} cannot be part of a compiled step: its {op.name} computes with "
            f"{place}, a tensor that belongs to no parameter",
            where=user_location(),
            todo=f"make {place} a Python number: it may change from step to step all the same",
        )


def _is_silent(name: str) -> bool:
    try:
        return facts_named(plain_name(name)).is_silent
    except KeyError:
        return False  # Not an operator of torch's own; the comparison will show it.


def _owners(
    ops: Sequence[TapeOp], storages: Mapping[int, Iterable[StorageKey]], who: _Names
) -> list[int]:
    """The parameter of each op.

    1. A storage that only one parameter claims belongs to it; one that several claim (two
       parameters in one allocation) to nobody.
    2. An op belongs to the parameter whose storages it touches.
    3. What ops make belongs to the parameter of the op that made it, or else of those that use it.
    """
    owner_of: dict[StorageKey, int] = {}
    shared: set[StorageKey] = set()
    for parameter, own in storages.items():
        for storage in own:
            if owner_of.setdefault(storage, parameter) != parameter:
                shared.add(storage)
    for storage in shared:
        del owner_of[storage]
    made = {storage for op in ops for storage in op.outputs} - owner_of.keys() - shared
    is_settled = False
    while not is_settled:
        before = len(owner_of)
        for op in (*ops, *reversed(ops)):
            owner = _owner(op, owner_of, who)
            if owner is not None:
                owner_of |= {s: owner for s in (*op.inputs, *op.outputs) if s in made}
        is_settled = len(owner_of) == before
    owners = []
    for op in ops:
        owner = _owner(op, owner_of, who)
        if owner is None:
            raise who.ownerless(op)
        owners.append(owner)
    return owners


def _owner(op: TapeOp, owner_of: Mapping[StorageKey, int], who: _Names) -> int | None:
    owners = {owner_of[s] for s in (*op.inputs, *op.outputs) if s in owner_of}
    if len(owners) > 1:
        first, second = sorted(owners)[:2]
        raise who.refusal(f"its {op.name} mixes {who.of(first)} with {who.of(second)}")
    return owners.pop() if owners else None


def _compare(ops: list[TapeOp], signature: Signature, parameter: int, who: _Names) -> None:
    for index, op in enumerate(ops):
        difference = signature.difference(index, plain_name(op.name), op.numbers)
        if difference is not None:
            raise who.refusal(f"on {who.of(parameter)} {difference}")
    if len(ops) < len(signature.names):
        missing = signature.names[len(ops)]
        raise who.refusal(f"on {who.of(parameter)} it ends before {missing} of its shadow")


def _match_literals(
    ops: list[TapeOp],
    signature: Signature,
    literals: Mapping[StorageKey, bytes],
    own: set[StorageKey],
) -> list[StorageKey | None] | None:
    """The storage of each literal of the shadow, None for one that no op reads; nothing if the ops
    read other literals. Among the parameter's `own` storages, state that an earlier call in the
    same step function made from a literal is none any more."""
    found: list[StorageKey | None] = [None] * len(signature.literals)
    for op, uses in zip(ops, signature.literal_uses, strict=True):
        storages = list(dict.fromkeys(s for s in op.inputs if s in literals))
        if len(storages) > len(uses):
            storages = [storage for storage in storages if storage not in own]
        if len(storages) != len(uses):
            return None
        for storage, number in zip(storages, uses, strict=True):
            if found[number] not in (None, storage):
                return None
            if literals[storage] != signature.literals[number]:
                return None
            found[number] = storage
    return found
