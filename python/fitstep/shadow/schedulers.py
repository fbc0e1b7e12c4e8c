"""Learning rate schedulers that the step function steps itself.

They are Python on the host: during capture their calls are logged, and before each run they are
made again, in the same order between the same optimizer calls.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from ..errors import CaptureError, user_location


@contextlib.contextmanager
def recorded_schedulers(
    schedulers: Iterable[LRScheduler], on_step: Callable[[LRScheduler], None]
) -> Iterator[None]:
    """Calls `on_step(scheduler)` for every `step` of a learning rate scheduler, whatever its class;
    steps that a scheduler makes inside its own are part of it. The steps really happen, so that
    what the body does next sees the new learning rate; afterwards the schedulers and the groups of
    their optimizers are as they were. `schedulers` are saved beforehand, others when they step.

    Raises CaptureError for a step that cannot be made again on the host: one that gets a number or
    a tensor, or that writes into a learning rate which is a tensor.
    """
    saved = SchedulerState(schedulers)
    depth = 0

    def logged(own_step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(own_step)
        def step(self: LRScheduler, *args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            if depth == 0 and not getattr(self, "_is_initial", False):
                _check_replayable(self, (*args, *kwargs.values()))
                saved.add(self)
                on_step(self)
            depth += 1
            try:
                return own_step(self, *args, **kwargs)
            finally:
                depth -= 1

        return step

    patched = [(cls, cls.__dict__["step"]) for cls in _classes() if "step" in cls.__dict__]
    for cls, own_step in patched:
        cls.step = logged(own_step)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for cls, own_step in patched:
            cls.step = own_step  # type: ignore[method-assign]
        saved.restore()


class SchedulerState:
    """Schedulers and the numbers of their optimizers' groups, to be put back."""

    def __init__(self, schedulers: Iterable[LRScheduler] = ()) -> None:
        self._schedulers: dict[int, tuple[LRScheduler, dict[str, Any], dict[str, Any]]] = {}
        self._groups: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        for scheduler in schedulers:
            self.add(scheduler)

    def add(self, scheduler: LRScheduler) -> None:
        """Saves a scheduler, those inside it, and their optimizers' groups, unless saved before."""
        if id(scheduler) in self._schedulers:
            return
        attributes = dict(vars(scheduler))
        contents = {k: v.copy() for k, v in attributes.items() if isinstance(v, (list, dict))}
        self._schedulers[id(scheduler)] = (scheduler, attributes, contents)
        for value in contents.values():
            for inner in value.values() if isinstance(value, dict) else value:
                if isinstance(inner, LRScheduler):
                    self.add(inner)
        optimizer = getattr(scheduler, "optimizer", None)
        for group in optimizer.param_groups if optimizer is not None else ():
            numbers = {key: value for key, value in group.items() if key != "params"}
            self._groups.setdefault(id(group), (group, numbers))

    def restore(self) -> None:
        """Puts everything back. Dicts and lists stay the same objects; tensors are left alone."""
        for scheduler, attributes, contents in self._schedulers.values():
            own = vars(scheduler)
            own.clear()
            own.update(attributes)
            for key, content in contents.items():
                if isinstance(content, dict):
                    own[key].clear()
                    own[key].update(content)
                else:
                    own[key][:] = content
        for group, numbers in self._groups.values():
            for key in group.keys() - numbers.keys() - {"params"}:
                del group[key]
            group.update(numbers)


def _classes() -> list[type[LRScheduler]]:
    found: dict[type[LRScheduler], None] = {}
    waiting: list[type[LRScheduler]] = [LRScheduler]
    while waiting:
        cls = waiting.pop()
        if cls not in found:
            found[cls] = None
            waiting += cls.__subclasses__()
    return list(found)


def _check_replayable(scheduler: LRScheduler, arguments: Iterable[Any]) -> None:
    name = type(scheduler).__name__
    if any(argument is not None for argument in arguments):
        raise CaptureError(
            f"{name}.step is called with an argument inside the step function; its value would be "
            "the same in every run",
            where=user_location(),
            todo="call it without an argument, or after the compiled step",
        )
    optimizer = getattr(scheduler, "optimizer", None)
    for group in optimizer.param_groups if optimizer is not None else ():
        if any(isinstance(v, torch.Tensor) for k, v in group.items() if k != "params"):
            raise CaptureError(
                f"{name}.step inside the step function changes a learning rate that is a tensor",
                where=user_location(),
                todo="make the learning rate a Python float, or step the scheduler outside",
            )
