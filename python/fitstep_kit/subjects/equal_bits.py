"""Trains a case with plain PyTorch and with fitstep and compares the runs bit for bit.

Compared are losses of every step, parameters, buffers, optimizer and scheduler state, and the
random generator: a compile or a step that draws one number too many is a difference.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import fitstep
from fitstep import _core
from fitstep_kit.measures.bits import Fingerprint, differences, fingerprint
from fitstep_kit.measures.plain import held_bytes, plain_peak_bytes
from fitstep_kit.subjects.cases import CASES, Step, Trainee, build

STEPS = 8


@dataclass
class Run:
    """What a training run left behind."""

    bits: Fingerprint
    losses: list[float]
    held_bytes: int = 0  # By the compiled steps, at most.


def drive(trainee: Trainee, functions: Sequence[Step], steps: int) -> Run:
    """Trains for `steps` steps from where the trainee is."""
    losses = [loss for index in range(steps) for loss in trainee.drive(index, functions)]
    # Of the values, not the tensors: a loss must not keep a plain run's memory alive.
    values = [loss.detach().clone() for loss in losses]
    generator = torch.get_rng_state()
    bits = fingerprint(losses=values, random=generator, **trainee.state)
    return Run(bits, [float(value) for value in values])


@functools.cache
def train_plain(case: str, steps: int = STEPS, tiny: bool = True) -> Run:
    """An untouched copy of the model, trained by untouched code."""
    trainee = build(CASES[case], tiny)
    return drive(trainee, [function.call for function in trainee.functions], steps)


@functools.cache
def plain_peak(case: str, tiny: bool = True) -> int:
    """The largest plain peak of the case's functions, each in a steady step."""
    trainee = build(CASES[case], tiny)
    plain = [function.call for function in trainee.functions]
    trainee.drive(0, plain)
    peaks = []
    for function in trainee.functions:
        set_training(trainee, function.training)
        for model in trainee.models:  # The step replaces them; held bytes must not count them.
            model.zero_grad()
        held = [*trainee.state.values(), list(function.example)]
        peaks.append(plain_peak_bytes(functools.partial(function.call, *function.example), *held))
    return max(peaks)


def compile_all(trainee: Trainee, budget: int | str, audits: str = "off") -> list[Any]:
    """Every function of the trainee in one arena of `budget`; on failure none stays compiled."""
    steps: list[Any] = []
    try:
        for function in trainee.functions:
            set_training(trainee, function.training)
            joined: dict[str, Any] = {} if steps else {"budget": budget}
            steps.append(
                fitstep.compile(function.call, example=function.example, audits=audits, **joined)
            )
    except BaseException:
        close_all(steps)
        raise
    finally:
        set_training(trainee, True)
    return steps


class Watched:
    """A compiled step that is watched from outside: what does it hold, really?

    Certified is what its plans take: arena, inputs, outputs, constants, small numbers that Python
    computes, and a little for the host. Whatever its calls request from ordinary memory beyond that
    comes on top.
    """

    def __init__(self, step: Any) -> None:
        self.step = step
        self.excess_bytes = 0

    def __call__(self, *batch: Tensor) -> Tensor:
        _core.reset_counted_peak()
        before = _core.counted_live_bytes()
        result: Tensor = self.step(*batch)
        requested = _core.counted_peak_bytes() - before
        # Both count too much: numbers of the call twice, or more of the batch than the step uses.
        beside = held_bytes(batch) + requested - external_bytes(self.step.report())
        excess = min(beside, requested - held_bytes(result))
        self.excess_bytes = max(self.excess_bytes, excess)
        return result

    def held_bytes(self) -> int:
        """The most that any call so far held."""
        report = self.step.report()
        return certified_bytes(report) + max(0, self.excess_bytes - int(report.small_tensor_bytes))


def external_bytes(report: Any) -> int:
    """Inputs, outputs, constants and small numbers, of the program that has most."""
    return max(int(variant.external_bytes) for variant in report.variants)


def certified_bytes(report: Any) -> int:
    """What the step needs according to its plans, everything included."""
    return max(int(variant.total_bytes) for variant in report.variants)


def close_all(steps: Sequence[Any]) -> None:
    """Everything back to ordinary memory."""
    for step in reversed(steps):
        step.close()


def train_fitstep(
    case: str, budget: int | str, steps: int = STEPS, tiny: bool = True, audits: str = "off"
) -> Run:
    """Another copy, trained through fitstep inside `budget`."""
    trainee = build(CASES[case], tiny)
    return _train_compiled(trainee, compile_all(trainee, budget, audits), steps)


def train_at_least(case: str) -> Run:
    """Likewise, in the least budget that fitstep finds a plan for."""
    trainee = build(CASES[case], tiny=True)
    return _train_compiled(trainee, compile_at_least(trainee)[0], STEPS)


def _train_compiled(trainee: Trainee, compiled: list[Any], steps: int) -> Run:
    try:
        watched = [Watched(step) for step in compiled]
        run = drive(trainee, watched, steps)
        run.held_bytes = max(step.held_bytes() for step in watched)
    finally:
        close_all(compiled)
    return run


def compile_at_least(trainee: Trainee) -> tuple[list[Any], int]:
    """Every function in one arena of the least budget that fitstep finds a plan for; its bytes."""
    budget = 1
    while True:
        try:
            return compile_all(trainee, budget), budget
        except fitstep.BudgetTooSmall as error:
            # Below the floor nothing was searched for: ask again at the floor.
            better = error.least_found_bytes or error.floor_bytes
            if better <= budget:  # Would ask for ever.
                raise
            budget = better


def least_budget(case: str, tiny: bool = True) -> int:
    """The least budget that fitstep finds a plan for, in bytes; for several functions, jointly."""
    steps, budget = compile_at_least(build(CASES[case], tiny))
    close_all(steps)
    return budget


def share_of_plain_peak(case: str, share: float, tiny: bool = True) -> int:
    """`share` of the measured plain peak, in bytes."""
    return int(plain_peak(case, tiny) * share)


def differing_bits(case: str, run: Run, steps: int = STEPS, tiny: bool = True) -> list[str]:
    """Names of what `run` has other than plain PyTorch after as many steps."""
    return differences(run.bits, train_plain(case, steps, tiny).bits)


def set_training(trainee: Trainee, training: bool) -> None:
    """Switches all of the trainee's models between training and evaluation."""
    for model in trainee.models:
        model.train(training)
