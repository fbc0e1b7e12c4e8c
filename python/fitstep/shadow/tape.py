"""Records the ops of a shadow's step, and puts what matters of them into a Signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .facts import Numbers, facts_of, same_number, tensors_in


@dataclass(frozen=True)
class Signature:
    """One parameter's share of an optimizer step: its ops in order, the numbers they carry, and the
    bytes of literal tensors (made from Python numbers by `torch.tensor`) that they read."""

    names: tuple[str, ...]
    numbers: tuple[Numbers, ...]  # One entry per op.
    literals: tuple[bytes, ...]  # In order of creation.
    literal_uses: tuple[tuple[int, ...], ...]  # Per op, the literals among its arguments, in order.

    def difference(self, index: int, name: str, numbers: Numbers) -> str | None:
        """How op `index` differs from a recorded (name, numbers); None if it does not. Numbers that
        are None here may be anything there."""
        if index >= len(self.names):
            return f"op {index + 1} is {name}{_text(numbers)}, and its shadow has no such op"
        own = self.numbers[index]
        if name == self.names[index] and len(numbers) == len(own):
            compared = [(a, b) for a, b in zip(own, numbers, strict=True) if a is not None]
            if all(same_number(a, b) for a, b in compared):
                return None
        return (
            f"op {index + 1} is {name}{_text(numbers)}, and its shadow's is "
            f"{self.names[index]}{_text(self.numbers[index])}"
        )


def _text(numbers: Numbers) -> str:
    return "(" + ", ".join("_" if n is None else repr(n) for n in numbers) + ")"


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The content of a small tensor, element by element."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


class ObservationError(Exception):
    """A shadow was about to do what it must not; the message is a reason for the user."""


@dataclass(frozen=True)
class Observed:
    """What a tape watches: tensors that stand for data, and storages of the real optimizer."""

    data: list[torch.Tensor]
    real_storages: frozenset[int]


class ShadowTape(TorchDispatchMode):
    """Records one step of a shadow.

    Where `observed` is given, an op that would read a number out of anything computed from data
    (a shadow has none), or would touch a storage of the real optimizer, raises ObservationError
    instead of running.
    """

    def __init__(self, observed: Observed | None = None) -> None:
        super().__init__()
        # Calls are held until `signature`, so that no storage is freed and taken for another.
        self._calls: list[tuple[Any, Any, Any]] = []
        self._literals: list[tuple[int, torch.Tensor]] = []
        self._observed = observed
        self._data = {storage_key(tensor) for tensor in observed.data} if observed else set()
        self._kept: list[Any] = []
        self.draws_random_numbers = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # Being hidden from torch.compile would double the cost of every op.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._observed is not None:
            self._check_before(func, args, kwargs or {})
        result = func(*args, **kwargs) if kwargs else func(*args)
        self._calls.append((func, args, kwargs or {}))
        if func is torch.ops.aten.lift_fresh.default:
            # The optimizer may write into it later, as Adam does into its first step count.
            self._literals.append((storage_key(result), result.clone()))
            self._kept.append(result)
        if self._observed is not None:
            self._follow(func, args, kwargs or {}, result)
        return result

    def signature(self) -> Signature:
        """What has been recorded. To be called when the mode is off."""
        number_of = {storage: i for i, (storage, _) in enumerate(self._literals)}
        names, numbers, uses = [], [], []
        for func, args, kwargs in self._calls:
            facts = facts_of(func)
            if facts.is_silent:
                continue
            names.append(facts.name)
            numbers.append(facts.numbers(args, kwargs))
            used: tuple[int, ...] = ()
            if number_of:
                storages = map(storage_key, tensors_in((*args, *kwargs.values())))
                used = tuple(dict.fromkeys(number_of[s] for s in storages if s in number_of))
            uses.append(used)
        literals = tuple([bytes_of(content) for _, content in self._literals])
        return Signature(tuple(names), tuple(numbers), literals, tuple(uses))

    def _check_before(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        assert self._observed is not None
        storages = {storage_key(tensor) for tensor in tensors_in((*args, *kwargs.values()))}
        if storages & self._observed.real_storages:
            raise ObservationError("it reaches its parameters by another way than its groups")
        if facts_of(func).reads_number and storages & self._data:
            raise ObservationError(
                "it reads a number out of parameters, gradients or state of their size"
            )

    def _follow(self, func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        self._kept.append(result)
        self.draws_random_numbers |= torch.Tag.nondeterministic_seeded in func.tags
        facts = facts_of(func)
        read = {storage_key(tensor) for tensor in tensors_in((*args, *kwargs.values()))}
        if read & self._data and not facts.is_silent:
            made = [*tensors_in((result,)), *facts.written(args, kwargs)]
            self._data |= {storage_key(tensor) for tensor in made}


def storage_key(tensor: torch.Tensor) -> int:
    """Names the tensor's storage as long as it lives."""
    return int(tensor.untyped_storage()._cdata)
