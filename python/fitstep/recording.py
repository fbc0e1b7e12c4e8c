"""The nouns of capture: a recording, and what it binds, awaits and returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from .state import Rebinding

PERSISTENT = {
    "parameter": "parameter",
    "buffer": "buffer",
    "optimizer_state": "optimizer_state",
    "group": "optimizer_state",
    "grad": "gradient",
}


@dataclass
class Bound:
    """A tensor that exists before the recording: the fake, and the real one if there is one yet."""

    name: str
    role: str
    fake: torch.Tensor
    real: torch.Tensor | None
    storage: int = -1  # Number on the tape.

    @property
    def is_home(self) -> bool:
        return self.role in PERSISTENT


@dataclass
class Result:
    """How to make one leaf of what the step function returns."""

    index: int = -1  # Among the program's outputs; -1 for a constant.
    constant: Any = None
    as_number: bool = False  # `.item()` of the output.


@dataclass
class Awaited:
    """A tensor of optimizer state that the first step makes."""

    optimizer: torch.optim.Optimizer
    parameter: torch.Tensor
    key: str
    name: str  # Of its home.
    fake: torch.Tensor


@dataclass
class Recording:
    """One run of the step function on fakes, before lowering."""

    recorder: Any
    bound: list[Bound]
    inputs: list[tuple[int, int, int]]  # (argument leaf, storage on the tape, offset in bytes)
    spec: Any = None
    results: list[Result] = field(default_factory=list)
    rebindings: list[Rebinding] = field(default_factory=list)  # To be bound after each run.
    fresh: list[tuple[str, str, torch.Tensor]] = field(default_factory=list)  # New homes.
    cleared: list[torch.Tensor] = field(default_factory=list)  # Owners of gradients set to None.
    with_grads: frozenset[int] = frozenset()  # Ids of the tensors that start with a gradient.
    literals: list[bytes] = field(default_factory=list)  # Those made outside optimizers.
    arguments: list[Any] = field(default_factory=list)  # Leaves.
    given: list[tuple[torch.Tensor, int]] = field(default_factory=list)  # Fakes given to the user.
    awaited: list[Awaited] = field(default_factory=list)
    states: dict[int, Any] = field(default_factory=dict)  # Optimizers, by id of a rebinding.
    grads: list[torch.Tensor] = field(default_factory=list)  # Real owners of gradients left behind.
    calls: list[Any] = field(default_factory=list)  # Of optimizers and schedulers, in order.
    owned: list[dict[int, set[int]]] = field(default_factory=list)  # Per optimizer call.
    written: set[int] = field(default_factory=set)  # Storages on the tape that ops write.
    call_count: int = 0
    grad_owners: dict[str, torch.Tensor] = field(default_factory=dict)  # Of fresh gradients.
    start: frozenset[str] = frozenset()  # Names of what is at home when the step starts.
    label: str = "step"
