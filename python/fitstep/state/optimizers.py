"""Guards of optimizers: groups, and the tensors that hold their state.

Numbers in groups are not guarded: learning rates and the like are host parameters, which the shadow
optimizer reads before each run. Their types are, as `lr` as a tensor is another program.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch

from fitstep.errors import GuardError
from fitstep.state.lift import geometry_of
from fitstep.state.nodes import Reach


@dataclass(frozen=True, slots=True, eq=False)
class Replacement:
    """A state tensor that another one of the same geometry has taken the place of."""

    path: str
    container: dict[Any, Any]  # Where the new tensor is: `container[key]`.
    key: Any
    old: torch.Tensor  # The tensor that the compiled step knows.
    new: torch.Tensor


class OptimizerGuards:
    """What one optimizer must still look like."""

    def __init__(self, path: str, optimizer: torch.optim.Optimizer, reach: Reach) -> None:
        self.path = path
        self._optimizer = optimizer
        self._reach = reach
        self.rebuild()

    def rebuild(self) -> list[tuple[str, torch.Tensor]]:
        """Takes the present groups and state as the expected ones.

        Returns the state tensors, 0-dim ones included, with their paths.
        """
        self._state = self._optimizer.state
        self._groups = self._optimizer.param_groups
        self._params = self._all_params()
        self._types = self._all_types()
        self._keys = list(self._state)
        self._entries = [dict(self._state[key]) for key in self._keys]
        self._flat = self._all_values()
        return [
            (f"{self._entry_path(parameter)}[{key!r}]", value)
            for parameter, entry in zip(self._keys, self._entries, strict=True)
            for key, value in entry.items()
            if isinstance(value, torch.Tensor)
        ]

    def check(self) -> list[Replacement]:
        """Raises GuardError, or returns the state tensors that were replaced alike."""
        params = self._all_params()
        if len(params) != len(self._params) or not all(map(operator.is_, params, self._params)):
            raise GuardError(
                *(f"{self.path}.param_groups", len(self._params), len(params)),
                problem=f"{self.path} has other parameters than when the step was compiled",
                todo="compile the step again after adding or replacing parameters",
            )
        types = self._all_types()
        if types != self._types:
            raise self._types_error(types)
        if self._optimizer.state is self._state:
            flat = self._all_values()
            if len(flat) == len(self._flat) and (
                all(map(operator.is_, flat, self._flat)) or all(map(_alike, flat, self._flat))
            ):
                return []
        replaced = self._compare_state()
        if not replaced:
            self.rebuild()  # The same tensors in other dicts: take those from now on.
        return replaced

    def _all_params(self) -> list[torch.Tensor]:
        return [p for group in self._optimizer.param_groups for p in group["params"]]

    def _all_types(self) -> list[dict[str, type]]:
        return [{k: _type(v) for k, v in group.items()} for group in self._optimizer.param_groups]

    def _types_error(self, now: list[dict[str, type]]) -> GuardError:
        """Of the first entry that differs."""
        none: dict[str, type] = {}
        i, key, old, new = next(
            (i, key, was.get(key), is_now.get(key))
            for i, (was, is_now) in enumerate(zip_longest(self._types, now, fillvalue=none))
            for key in {**was, **is_now}
            if was.get(key) is not is_now.get(key)
        )
        path = f"{self.path}.param_groups[{i}][{key!r}]"
        return GuardError(
            *(path, old, new),
            problem=f"{path} was {_kind(old)} when the step was compiled and is {_kind(new)} now",
            todo="keep a number a number and a tensor a tensor, or compile the step again",
        )

    def _all_values(self) -> list[object]:
        # Through values(), as state is a defaultdict that grows by being asked for a key.
        return [value for entry in self._optimizer.state.values() for value in entry.values()]

    def _compare_state(self) -> list[Replacement]:
        state = self._optimizer.state
        found: list[Replacement] = []
        for parameter, entry in zip(self._keys, self._entries, strict=True):
            path = self._entry_path(parameter)
            now = state.get(parameter)
            if now is None or list(now) != list(entry):
                raise self._error(path, list(entry), None if now is None else list(now))
            for key, old in entry.items():
                if not isinstance(old, torch.Tensor) or now[key] is old:
                    continue  # Python numbers in state belong to the shadow optimizer.
                new = now[key]
                if not isinstance(new, torch.Tensor) or _form(new) != _form(old):
                    raise self._error(f"{path}[{key!r}]", _form(old), new)
                found.append(Replacement(f"{path}[{key!r}]", now, key, old, new))
        if len(state) != len(self._keys):
            raise self._error(f"{self.path}.state", len(self._keys), len(state))
        return found

    def _entry_path(self, parameter: Any) -> str:
        return f"{self.path}.state[{self._reach.names.get(id(parameter), '?')}]"

    def _error(self, path: str, old: object, new: object) -> GuardError:
        return GuardError(
            *(path, old, new),
            problem=f"{path} has another form than when the step was compiled",
            todo="load optimizer state before compiling, or compile the step again",
        )


def _alike(now: object, was: object) -> bool:
    return now is was or (not isinstance(was, torch.Tensor) and not isinstance(now, torch.Tensor))


def _type(value: object) -> type:
    """Its type; whole numbers are numbers like others (weight_decay=0)."""
    return float if type(value) is int else type(value)


def _kind(found: type | None) -> str:
    return "not there" if found is None else f"of type {found.__name__}"


def _form(tensor: torch.Tensor) -> tuple[object, ...]:
    return (*geometry_of(tensor)[1:], tensor.device)
