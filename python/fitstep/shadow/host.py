"""What happens on the host before and after each run of a program: optimizers' numbers and
scheduler steps, in the order of the capture.

    step function        host side, before the run          after the run
    opt.step()           numbers of call 0 from the shadow  optimizers' Python numbers advance
    scheduler.step()     scheduler.step()
    opt.step()           numbers of call 1, with the new learning rate
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.optim.lr_scheduler import LRScheduler

from .optimizer import Mask, ShadowOptimizer, ShadowRun, grad_mask
from .regions import optimizer_regions
from .schedulers import SchedulerState, recorded_schedulers

Optimizer = torch.optim.Optimizer


@dataclass(frozen=True)
class OptimizerCall:
    """One call of an optimizer's step. Calls are numbered from 0 in the order of the capture."""

    optimizer: Optimizer
    mask: Mask


@dataclass(frozen=True)
class SchedulerCall:
    """One call of a scheduler's step."""

    scheduler: LRScheduler


HostCall = OptimizerCall | SchedulerCall


@contextlib.contextmanager
def recorded_host_side(
    optimizers: Sequence[Optimizer],
    schedulers: Iterable[LRScheduler],
    on_enter: Callable[[Optimizer, int], None],
    on_exit: Callable[[Optimizer, int], None],
) -> Iterator[list[HostCall]]:
    """Records what the body calls, in order. `on_enter` and `on_exit` get the optimizer and the
    number of its call, around the optimizer's own code; also around a closure that `step` calls,
    with the same number."""
    calls: list[HostCall] = []
    numbers: list[int] = []  # Of optimizer calls, their places in `calls`.
    running: dict[Optimizer, int] = {}

    def enter(optimizer: Optimizer) -> None:
        running[optimizer] = len(numbers)
        numbers.append(len(calls))
        calls.append(OptimizerCall(optimizer, grad_mask(optimizer)))
        on_enter(optimizer, running[optimizer])

    def resume(optimizer: Optimizer) -> None:
        # The closure has made the gradients.
        calls[numbers[running[optimizer]]] = OptimizerCall(optimizer, grad_mask(optimizer))
        on_enter(optimizer, running[optimizer])

    def leave(optimizer: Optimizer) -> None:
        on_exit(optimizer, running[optimizer])

    def log(scheduler: LRScheduler) -> None:
        calls.append(SchedulerCall(scheduler))

    with (
        optimizer_regions(optimizers, enter, leave, leave, resume),
        recorded_schedulers(schedulers, log),
    ):
        yield calls


class HostSide:
    """The host side of one program: `run`, then the program, then `commit`; or `undo` if the
    program did not run."""

    def __init__(
        self, calls: Sequence[HostCall], shadows: Mapping[Optimizer, ShadowOptimizer]
    ) -> None:
        self._calls = tuple(calls)
        self._shadows = shadows
        self._masks: dict[Optimizer, list[Mask]] = {}
        for call in calls:
            if isinstance(call, OptimizerCall):
                self._masks.setdefault(call.optimizer, []).append(call.mask)
        self._schedulers = [c.scheduler for c in calls if isinstance(c, SchedulerCall)]
        self._saved = SchedulerState()

    @property
    def optimizers(self) -> list[Optimizer]:
        """The optimizer of each optimizer call."""
        return [call.optimizer for call in self._calls if isinstance(call, OptimizerCall)]

    def is_like(self, other: HostSide) -> bool:
        """Whether running one is as good as running the other."""
        return self._calls == other._calls

    def run(self) -> list[ShadowRun]:
        """The shadow's run of each optimizer call. Schedulers take their steps for real."""
        self._saved = SchedulerState(self._schedulers)
        for optimizer, masks in self._masks.items():
            self._shadows[optimizer].begin(masks)
        runs = []
        try:
            for call in self._calls:
                if isinstance(call, SchedulerCall):
                    call.scheduler.step()
                    continue
                runs.append(self._shadows[call.optimizer].step())
                # As the scheduler's wrapper of `step` notes; without it the scheduler warns.
                if hasattr(call.optimizer.step, "_wrapped_by_lr_sched"):
                    call.optimizer._opt_called = True  # type: ignore[attr-defined]
        except BaseException:
            self.undo()
            raise
        return runs

    def commit(self) -> None:
        """The program ran: numbers that optimizers keep themselves advance."""
        for optimizer in self._masks:
            self._shadows[optimizer].advance()

    def undo(self) -> None:
        """The program did not run: schedulers and learning rates are as before `run`."""
        self._saved.restore()
