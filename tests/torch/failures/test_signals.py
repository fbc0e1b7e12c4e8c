"""Signals whose handlers raise, at any moment of a step: it has happened, or it has not."""

import contextlib
import ctypes
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from signal_job import BUDGET, Job, interruptible, pending
from torch import Tensor

import fitstep

__all__ = ["interruptible"]  # For each test here, too.


class Preempted(Exception):
    """What the handler of another signal raises."""


@contextlib.contextmanager
def handled(number: int) -> Iterator[list[int]]:
    """Notes the calls of a handler that raises."""
    calls: list[int] = []

    def handler(number: int, _frame: object) -> None:
        calls.append(number)
        raise Preempted

    before = signal.signal(number, handler)
    yield calls
    assert signal.getsignal(number) is handler, "it has been put back"
    signal.signal(number, before)


def test_a_signal_whose_handler_raises_waits_for_the_end_of_the_step() -> None:
    """Anywhere in the step: at every 13th call or return of a function."""
    ours, plain = Job(), Job()
    schedule, of_plain = (
        torch.optim.lr_scheduler.StepLR(job.optimizer, 1, 0.99) for job in (ours, plain)
    )

    def train(job: Job, schedule: Any) -> Tensor:
        loss = job.step(job.x, job.y)
        schedule.step()
        return loss

    step = fitstep.compile(lambda: train(ours, schedule), example=(), budget=BUDGET)
    states = [
        lambda: (ours.weights(), ours.optimizer.state_dict(), schedule.last_epoch),
        lambda: (plain.weights(), plain.optimizer.state_dict(), of_plain.last_epoch),
    ]
    seen = done = 0

    def at_nth(_frame: object, _event: str, _argument: object) -> None:
        nonlocal seen
        seen += 1
        if seen == at:
            ctypes.pythonapi.PyErr_SetInterruptEx(signal.SIGTERM)  # As from outside.

    with handled(signal.SIGTERM) as calls:
        for at in range(1, 10_000, 13):
            seen = 0
            calls.clear()
            sys.setprofile(at_nth)
            try:  # The last event is the call that ends the profile.
                try:
                    step()
                finally:
                    sys.setprofile(None)
            except Preempted:
                pass
            found = states[0]()
            if not same(found, states[1]()):
                train(plain, of_plain)
                done += 1
            assert same(found, states[1]()), f"neither before nor behind the step: event {at}"
            assert calls == [signal.SIGTERM] * (seen >= at), f"event {at}"
            if seen < at:
                break
    step.close()
    assert done > 20, "it waits for the end"


def same(a: Any, b: Any) -> bool:
    """Nested states."""
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def test_a_step_that_fails_is_what_is_raised_whatever_a_handler_raises() -> None:
    job = Job()
    step = job.compiled()
    pending.append(-1)
    with handled(signal.SIGINT) as calls, pytest.raises(fitstep.StepFailed) as failed:
        step(job.x, job.y)
    step.close()
    assert calls == [signal.SIGINT]
    assert any("its handler raised Preempted" in note for note in failed.value.__notes__)


def test_a_step_finds_handlers_as_they_are_and_blocks_no_signal_in_compile() -> None:
    job = Job()
    found: list[Any] = []
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def train() -> Tensor:
        found.append((signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)))
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        return job.step(job.x, job.y)

    with handled(signal.SIGTERM):
        step = fitstep.compile(train, example=(), budget=BUDGET)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == blocked
        step()
        assert signal.pthread_sigmask(signal.SIG_SETMASK, blocked) == {*blocked, signal.SIGUSR1}
        expected = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    step.close()
    assert found == [expected]
