"""Regions, schedulers, and the host side of a run."""

from __future__ import annotations

import contextlib
import warnings

import pytest
import torch
from fitstep.errors import CaptureError
from fitstep.shadow import (
    HostSide,
    OptimizerCall,
    SchedulerCall,
    ShadowOptimizer,
    match,
    optimizer_regions,
    recorded_host_side,
    recorded_schedulers,
    storages_of,
)

from python.tests.shadow_tape import PlainTape

optim = torch.optim
lr_scheduler = torch.optim.lr_scheduler


def make_optimizer(kind=optim.SGD, **options):
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    parameter.grad = torch.ones(2, 3)
    return kind([parameter], lr=0.1, **options)


def log_regions(optimizers, body):
    log = []
    with optimizer_regions(
        optimizers, lambda o: log.append(("enter", o)), lambda o: log.append(("exit", o))
    ):
        body(log)
    return log


def test_a_region_is_the_optimizers_own_code():
    optimizer = make_optimizer()
    optimizer.register_step_pre_hook(lambda *_: log.append("user before"))
    optimizer.register_step_post_hook(lambda *_: log.append("user after"))
    log = []
    enter, leave = (lambda o: log.append("enter")), (lambda o: log.append("exit"))
    with optimizer_regions([optimizer, optimizer], enter, leave):
        optimizer.step()
    optimizer.step()
    assert log == ["user before", "enter", "exit", "user after", "user before", "user after"]


def test_a_schedulers_wrapper_does_not_hide_the_step():
    optimizer = make_optimizer()
    lr_scheduler.StepLR(optimizer, 1)
    log = log_regions([optimizer], lambda _: optimizer.step())
    assert log == [("enter", optimizer), ("exit", optimizer)]


def test_the_closure_is_outside():
    optimizer = make_optimizer()

    def body(log):
        optimizer.step(lambda: log.append("closure") or torch.zeros(()))

    log = log_regions([optimizer], body)
    assert [entry if isinstance(entry, str) else entry[0] for entry in log] == [
        "enter", "exit", "closure", "enter", "exit",
    ]  # fmt: skip


def test_a_step_through_super_is_one_region():
    class Louder(optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    make_optimizer()  # Makes torch wrap SGD.step, as any use of SGD does.
    optimizer = make_optimizer(Louder)
    log = log_regions([optimizer], lambda _: optimizer.step())
    assert log == [("enter", optimizer), ("exit", optimizer)]


def test_an_optimizer_in_the_backward_pass_has_its_region():
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = optim.SGD([parameter], lr=0.1)
    parameter.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    tape, inside, found = PlainTape(), [0], []

    def toggle(_):
        inside[0] += 1
        found.append(len(tape.ops))

    with optimizer_regions([optimizer], toggle, toggle), tape:
        (parameter * 2).sum().backward()
    assert inside == [2]
    assert [op.name for op in tape.ops[found[0] : found[1]]] == ["aten::add_.Tensor"]


def test_a_step_that_throws_and_is_swallowed_is_an_error():
    optimizer = make_optimizer()

    def failing_closure():
        raise ValueError

    def swallow():
        regions = optimizer_regions([optimizer], lambda o: None, lambda o: None)
        with regions, contextlib.suppress(ValueError):
            optimizer.step(failing_closure)

    with pytest.raises(CaptureError, match=r"SGD\.step raised"):
        swallow()
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def make_chained(optimizer):
    return lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(optimizer, 0.5, 2), lr_scheduler.ExponentialLR(optimizer, 0.9)]
    )


def make_sequential(optimizer):
    return lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.LinearLR(optimizer, 0.1, 1, 2), lr_scheduler.CosineAnnealingLR(optimizer, 5)],
        milestones=[2],
    )


INSIDE = {
    "step": lambda opt: lr_scheduler.StepLR(opt, 2, 0.5),
    "one-cycle": lambda opt: lr_scheduler.OneCycleLR(opt, 0.3, total_steps=40),
    "lambda": lambda opt: lr_scheduler.LambdaLR(opt, lambda epoch: 1 / (1 + epoch)),
    "warm-restarts": lambda opt: lr_scheduler.CosineAnnealingWarmRestarts(opt, 3),
    "chained": make_chained,
    "sequential": make_sequential,
}


def numbers_of(optimizer):
    return [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]


def inner_states(scheduler):
    own = {k: v for k, v in vars(scheduler).items() if k not in ("optimizer", "_schedulers")}
    return [repr(sorted(own.items())), *map(inner_states, getattr(scheduler, "_schedulers", []))]


@pytest.mark.parametrize("name", INSIDE)
def test_recorded_schedulers_log_the_outermost_step_and_are_put_back(name):
    optimizer = make_optimizer(momentum=0.9)
    scheduler = INSIDE[name](optimizer)
    optimizer.step()
    before = (numbers_of(optimizer), inner_states(scheduler))
    log = []
    with recorded_schedulers([], log.append):
        for _ in range(2):
            scheduler.step()
        assert numbers_of(optimizer) != before[0]  # They are really stepped.
    assert log == [scheduler] * 2
    assert (numbers_of(optimizer), inner_states(scheduler)) == before
    assert not hasattr(type(scheduler).step, "__wrapped__")


def test_schedulers_are_put_back_when_the_body_throws():
    optimizer = make_optimizer()
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    with pytest.raises(ZeroDivisionError), recorded_schedulers([scheduler], lambda s: None):
        scheduler.step()
        raise ZeroDivisionError
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert "step" not in vars(lr_scheduler.ExponentialLR)


def test_a_scheduler_with_an_argument_is_refused():
    optimizer = make_optimizer()
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer)
    with (
        pytest.raises(CaptureError, match=r"ReduceLROnPlateau\.step is called with an argument"),
        recorded_schedulers([plateau], lambda s: None),
    ):
        plateau.step(torch.ones(()))


def test_a_scheduler_of_a_tensor_learning_rate_is_refused():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = optim.SGD([parameter], lr=torch.tensor(0.1))
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    with (
        pytest.raises(CaptureError, match="learning rate that is a tensor"),
        recorded_schedulers([], lambda s: None),
    ):
        scheduler.step()


class Program:
    """A step function with two optimizer steps and a scheduler step between and after them,
    recorded call by call, and the host side that drives it."""

    def __init__(self, kind, schedule, **options):
        self.optimizer = make_optimizer(kind, **options)
        self.scheduler = INSIDE[schedule](self.optimizer)
        self.tape = PlainTape()
        self.calls = []

    def train_step(self):
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.optimizer.step()
            self.scheduler.step()

    def record(self):
        """Really runs the step function; the ops of each optimizer call with their storages."""
        found, tape = {}, PlainTape()

        def enter(optimizer, number):
            found[number] = (len(tape.ops), storages_of(optimizer, tape.storage_of))

        def leave(optimizer, number):
            first, before = found[number]
            after = storages_of(optimizer, tape.storage_of)
            found[number] = (tape.ops[first:], {k: before[k] | after[k] for k in before})

        with recorded_host_side([self.optimizer], [self.scheduler], enter, leave) as calls, tape:
            self.train_step()
        self.calls = calls
        return tape, found


@pytest.mark.parametrize("schedule", INSIDE)
@pytest.mark.parametrize(
    ("kind", "options"), [(optim.AdamW, {}), (optim.SGD, {"momentum": 0.9}), (optim.NAdam, {})]
)
def test_host_side_gives_the_numbers_of_every_call(kind, options, schedule):
    program = Program(kind, schedule, **options)
    optimizer, scheduler = program.optimizer, program.scheduler
    shadows = {optimizer: ShadowOptimizer(optimizer)}
    steps = [OptimizerCall(optimizer, (True,)), SchedulerCall(scheduler)] * 2
    host = HostSide(steps, shadows)
    for _ in range(5):
        runs = host.run()
        host.undo()
        tape, found = program.record()  # Runs for real; puts the scheduler back.
        assert program.calls == steps
        for number, (ops, storages) in found.items():
            match(optimizer, shadows[optimizer], runs[number], ops, storages, tape.literals)
        for _ in range(2):
            scheduler.step()  # As the run would have left it.


def test_undo_puts_schedulers_back_and_commit_keeps_them():
    optimizer = make_optimizer()
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    calls = [OptimizerCall(optimizer, (True,)), SchedulerCall(scheduler)]
    host = HostSide(calls, {optimizer: ShadowOptimizer(optimizer)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # The scheduler must not think that no step was made.
        runs = host.run()
    assert runs[0].classes[0].signature.numbers == ((-0.1,),)
    assert optimizer.param_groups[0]["lr"] == 0.05
    host.undo()
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert scheduler.last_epoch == 0
    host.run()
    host.commit()
    assert optimizer.param_groups[0]["lr"] == 0.05
    assert host.run()[0].classes[0].signature.numbers == ((-0.05,),)


def test_a_closures_gradients_are_those_of_the_call():
    optimizer = make_optimizer()
    optimizer.param_groups[0]["params"][0].grad = None
    parameter = optimizer.param_groups[0]["params"][0]

    def closure():
        parameter.grad = torch.ones(2, 3)
        return torch.zeros(())

    seen = []
    with recorded_host_side(
        [optimizer], [], lambda o, n: seen.append(n), lambda o, n: seen.append(n)
    ) as calls:
        optimizer.step(closure)
        optimizer.step()
    assert calls == [OptimizerCall(optimizer, (True,))] * 2
    assert seen == [0, 0, 0, 0, 1, 1]
