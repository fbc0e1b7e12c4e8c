"""Tells during capture when an optimizer's step is running.

Works through the optimizers' own step hooks, so it sees every way of calling `step`: directly,
through a scheduler's wrapper, from a gradient hook during the backward pass, from a subclass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..errors import CaptureError, user_location

Optimizer = torch.optim.Optimizer
Callback = Callable[[Optimizer], None]


@contextlib.contextmanager
def optimizer_regions(
    optimizers: Sequence[Optimizer],
    on_enter: Callback,
    on_exit: Callback,
    on_pause: Callback | None = None,
    on_resume: Callback | None = None,
) -> Iterator[None]:
    """Calls `on_enter(optimizer)` just before an optimizer's own code runs and `on_exit(optimizer)`
    just after. A closure given to `step` is not part of it: around the closure's calls `on_pause`
    and `on_resume` are called, which are `on_exit` and `on_enter` unless given.

    What the user hooked into the step is outside. A step that a subclass calls through `super()`
    is part of the outer one.

    Raises CaptureError if a step threw and the body went on.
    """
    regions = _Regions(on_enter, on_exit, on_pause or on_exit, on_resume or on_enter)
    handles = []
    try:
        for optimizer in dict.fromkeys(optimizers):
            handles.append(optimizer.register_step_pre_hook(regions.enter))
            handle = optimizer.register_step_post_hook(regions.leave)
            hooks: Any = optimizer._optimizer_step_post_hooks
            hooks.move_to_end(handle.id, last=False)
            handles.append(handle)
        yield
    finally:
        for handle in handles:
            handle.remove()
    regions.finish()


class _Regions:
    def __init__(
        self, on_enter: Callback, on_exit: Callback, on_pause: Callback, on_resume: Callback
    ) -> None:
        self._on_enter = on_enter
        self._on_exit = on_exit
        self._on_pause = on_pause
        self._on_resume = on_resume
        self._running: list[Optimizer] = []

    def enter(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        self._running.append(optimizer)
        if optimizer in self._running[:-1]:
            return args, kwargs
        self._on_enter(optimizer)
        # The hooks get the optimizer among the arguments of `step`.
        args = tuple(self._outside(optimizer, value) for value in args)
        return args, {key: self._outside(optimizer, value) for key, value in kwargs.items()}

    def leave(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if optimizer not in self._running:
            return
        self._running.pop()
        if optimizer not in self._running:
            self._on_exit(optimizer)

    def finish(self) -> None:
        if self._running:
            name = type(self._running[-1]).__name__
            raise CaptureError(
                f"{name}.step raised an exception inside the step function, which went on",
                where=user_location(),
                todo="let the exception leave the step function",
            )

    def _outside(self, optimizer: Optimizer, value: Any) -> Any:
        """A closure that pauses the region while it runs."""
        if isinstance(value, Optimizer) or not callable(value):
            return value

        def closure(*args: Any, **kwargs: Any) -> Any:
            self._on_pause(optimizer)
            try:
                return value(*args, **kwargs)
            finally:
                self._on_resume(optimizer)

        return closure
