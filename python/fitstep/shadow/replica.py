"""A replica: an optimizer's own Python code on one parameter with one element.

The replica has the optimizer's class and attributes, the parameter's group with all its numbers,
and the parameter's state: numbers and tensors with one element are copied, larger tensors are
zeros with one element. Nothing it does reaches the optimizer.
"""

from __future__ import annotations

import contextlib
import copy
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.optim import optimizer as optimizer_module

from .tape import ObservationError, Observed, ShadowTape, Signature

_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
_OWN = (*_HOOKS, "state", "param_groups", "step", "defaults")
NUMBERS = (bool, int, float, str, type(None))


def is_scalar(tensor: torch.Tensor, ndim: int) -> bool:
    """Whether a state tensor of a parameter with `ndim` dimensions is one number (a step count),
    not data of the parameter's shape."""
    return tensor.ndim == 0 or (tensor.numel() == 1 and tensor.ndim != ndim)


def step_code(optimizer: torch.optim.Optimizer) -> Callable[[torch.optim.Optimizer], Any]:
    """`step` of the optimizer's class without the wrapper that runs the hooks."""
    step: Any = type(optimizer).step
    code: Callable[[torch.optim.Optimizer], Any]
    code = step.__wrapped__ if getattr(step, "hooked", False) else step
    return code


@contextlib.contextmanager
def without_global_hooks() -> Iterator[None]:
    """Takes away what is hooked into all optimizers: a `super().step()` would run it."""
    hooks: tuple[dict[Any, Any], ...] = (
        optimizer_module._global_optimizer_pre_hooks,
        optimizer_module._global_optimizer_post_hooks,
    )
    saved = [dict(one) for one in hooks]
    for one in hooks:
        one.clear()
    try:
        yield
    finally:
        for one, entries in zip(hooks, saved, strict=True):
            one.update(entries)


class Replica:
    """One replica of `optimizer` for `parameter`, which is in group `group_index`."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, parameter: torch.Tensor, group_index: int
    ) -> None:
        self._real = optimizer
        self._real_parameter = parameter
        self._group_index = group_index
        self._step = step_code(optimizer)
        one = torch.zeros((1,) * parameter.ndim, dtype=parameter.dtype, device=parameter.device)
        if isinstance(parameter, torch.nn.Parameter):
            one = torch.nn.Parameter(one, requires_grad=parameter.requires_grad)
        else:
            one.requires_grad_(parameter.requires_grad)
        self._parameter = one
        self._gradient = torch.zeros_like(one)
        self.optimizer: Any = type(optimizer).__new__(type(optimizer))
        self._attributes_before: dict[str, Any] = {}
        self._group_seen: dict[str, Any] = {}
        # What the last step was made from, if that is all that decides it, and what it did.
        self._repeatable: tuple[tuple[str, ...], Signature] | None = None

    def begin(self) -> None:
        """Takes over the state, the attributes and the group of the real optimizer."""
        attributes = {
            key: own_copy(value) for key, value in self._real.__dict__.items() if key not in _OWN
        }
        self._attributes_before = dict(attributes)
        self._group_seen = {}
        own = self.optimizer.__dict__
        own.clear()
        own.update(attributes)
        own["defaults"] = self._real.defaults
        own["param_groups"] = [{"params": [self._parameter]}]
        own["state"] = defaultdict(dict)
        for hooks in _HOOKS:
            own[hooks] = OrderedDict()
        state = self._real.state.get(self._real_parameter)
        if state:
            own["state"][self._parameter] = {k: self._reduced(v) for k, v in state.items()}

    def _reduced(self, value: Any) -> Any:
        """What stands for one entry of the real state."""
        if isinstance(value, torch.Tensor) and not is_scalar(value, self._real_parameter.ndim):
            return torch.zeros((1,) * value.ndim, dtype=value.dtype, device=value.device)
        return own_copy(value)

    def step(self) -> Signature:
        """One step with a gradient, with the numbers that the real group holds now."""
        self._refresh_group()
        sources = self._sources()
        if self._repeatable is not None and sources == self._repeatable[0]:
            return self._repeatable[1]
        signature = self._run(ShadowTape()).signature()
        is_repeatable = sources is not None and sources == self._sources()
        self._repeatable = (sources, signature) if sources and is_repeatable else None
        return signature

    @property
    def is_repeatable(self) -> bool:
        """Whether the last step will be done again as it was, and leave no number behind, as long
        as the real optimizer holds the same objects."""
        group = self.optimizer.param_groups[0]
        return self._repeatable is not None and all(
            is_frozen(value) for key, value in group.items() if key not in ("params", "param_names")
        )

    def _sources(self) -> tuple[str, ...] | None:
        """All that an optimizer of PyTorch computes its numbers from, if it is cheap to compare:
        none where the state holds numbers (they differ from step to step), and for other people's
        optimizers (their code may look elsewhere)."""
        if not type(self._real).__module__.startswith("torch.optim."):
            return None
        state = self.state().items()
        ndim = self._parameter.ndim
        if any(not isinstance(v, torch.Tensor) or is_scalar(v, ndim) for _, v in state):
            return None
        group = self.optimizer.param_groups[0]
        if any(isinstance(value, torch.Tensor) for value in group.values()):
            return None
        attributes = self.optimizer.__dict__.items()
        return (
            # As text, which tells 0.0 from -0.0 and 1 from True.
            *(f"{key} {value!r}" for key, value in group.items() if key != "params"),
            *(f"{key} {value!r}" for key, value in attributes if isinstance(value, NUMBERS)),
            *(f"{key} {value.dtype} {value.ndim}" for key, value in state),
        )

    def observed_step(self, real_storages: frozenset[int]) -> bool:
        """`step`, watched: ObservationError if it does what no shadow may. Whether random numbers
        were drawn."""
        data = [self._parameter, self._gradient]
        if self._parameter.ndim > 0:  # Else state of its shape cannot be told from a step count.
            state = [v for v in self.state().values() if isinstance(v, torch.Tensor)]
            data += [v for v in state if not is_scalar(v, self._parameter.ndim)]
        self._refresh_group()
        drawn = self._run(ShadowTape(Observed(data, real_storages))).draws_random_numbers
        for key, value in self.state().items():
            if not isinstance(value, (torch.Tensor, *NUMBERS)):
                kind = type(value).__name__
                raise ObservationError(f"its state entry {key!r} is of type {kind}")
        return drawn

    def _run(self, tape: ShadowTape) -> ShadowTape:
        self._parameter.grad = self._gradient
        with without_global_hooks(), tape:
            self._step(self.optimizer)
        return tape

    def _refresh_group(self) -> None:
        """Takes over what has changed in the real group since the last look; what the replica
        itself has changed in between stays."""
        group = self.optimizer.param_groups[0]
        for key, value in self._real.param_groups[self._group_index].items():
            if key == "params":
                continue
            if key == "param_names":
                group[key] = value[:1]
                continue
            if not isinstance(value, NUMBERS) or self._group_seen.get(key, _NEVER) is not value:
                self._group_seen[key] = value
                group[key] = own_copy(value)

    def state(self) -> Mapping[str, Any]:
        """The replica's state of its parameter."""
        return self.optimizer.state.get(self._parameter, {})  # type: ignore[no-any-return]

    def changed_attributes(self) -> dict[str, Any]:
        """Numbers among the optimizer's attributes that the steps have set."""
        return _changed_numbers(self._attributes_before, self.optimizer.__dict__, _OWN)

    def changed_group(self) -> dict[str, Any]:
        """Numbers in the group that the steps have set."""
        return _changed_numbers(self._group_seen, self.optimizer.param_groups[0], ("params",))

    def state_numbers(self) -> dict[str, Any]:
        """The entries of the state that are Python numbers."""
        return {k: v for k, v in self.state().items() if isinstance(v, NUMBERS)}


_NEVER = object()


def is_frozen(value: object) -> bool:
    """Whether it is a number or a tuple of such: the same object has the same value."""
    return isinstance(value, NUMBERS) or (isinstance(value, tuple) and all(map(is_frozen, value)))


def own_copy(value: Any) -> Any:
    """A copy that the replica may change: numbers, tensors and containers of them are copied, any
    other object is shared."""
    if isinstance(value, NUMBERS):
        return value
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (list, tuple, set):
        return type(value)([own_copy(entry) for entry in value])
    if type(value) in (dict, OrderedDict):
        return type(value)((key, own_copy(entry)) for key, entry in value.items())
    if isinstance(value, (list, dict, set)):
        return copy.copy(value)
    return value


def _changed_numbers(
    before: Mapping[str, Any], after: Mapping[str, Any], skipped: tuple[str, ...]
) -> dict[str, Any]:
    return {
        key: value
        for key, value in after.items()
        if key not in skipped and isinstance(value, NUMBERS) and _differs(before, key, value)
    }


def _differs(before: Mapping[str, Any], key: str, value: Any) -> bool:
    old = before.get(key, _NEVER)
    return old is not value and (type(old) is not type(value) or old != value)
