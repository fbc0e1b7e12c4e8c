"""A compiled step as an object: calling it, failing, closing, files, reports."""

from __future__ import annotations

import copy
import ctypes
import gc
import inspect
import json
import os
import pickle
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from api_models import Job, compiled, same
from torch import Tensor, nn

import fitstep


def train(job: Job, step: Any, count: int) -> list[Tensor]:
    return [step(job.x, job.y).detach().clone() for _ in range(count)]


def resident_kib(address: int) -> int:
    """Of the mapping that the address lies in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            begin, end = (int(part, 16) for part in first.split("-"))
            inside = begin <= address < end
        elif inside and first == "Rss:":
            return int(line.split()[1])
    raise AssertionError(f"no mapping at {address:x}")


def test_a_dropped_step_gives_everything_back() -> None:
    job = Job()
    step = fitstep.compile(job.step, example=(job.x, job.y), budget="2MiB", effort=1)
    losses = train(job, step, 2)
    home = next(job.model.parameters()).data_ptr()
    assert resident_kib(home) > 1024
    del step
    gc.collect()
    assert resident_kib(home) <= 64, "parameters and state, to whole pages"
    losses += train(job, job.step, 2)
    ours = job.state()
    plain = Job()
    assert same(losses, train(plain, plain.step, 4))
    assert same(ours, plain.state())


def test_a_step_looks_like_the_function_that_it_was_made_from() -> None:
    job = Job()
    step = fitstep.compile(job.step, example=(job.x, job.y))
    assert step.__name__ == "step"
    assert inspect.signature(step) == inspect.signature(job.step)
    assert copy.copy(step) is step
    with pytest.warns(UserWarning, match="bound to the copied object"):
        copied = copy.deepcopy({"step": step, "job": job})
    assert copied["step"].__self__ is copied["job"], "as a method"
    with pytest.raises(pickle.PicklingError, match="state_dict"):
        pickle.dumps(step)
    step.close()


def test_a_closed_step_says_so_and_so_do_those_that_share_its_model() -> None:
    job = Job()

    def validate(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            return nn.functional.cross_entropy(job.model(x), y)

    first = fitstep.compile(job.step, example=(job.x, job.y), budget="2MiB", effort=1)
    second = fitstep.compile(validate, example=(job.x, job.y), effort=1)
    first.close()
    first.close()
    for step in (first, second):
        with pytest.raises(fitstep.FitstepError, match="closed"):
            step(job.x, job.y)
    second.close()
    with compiled(job.step, (job.x, job.y)) as again:
        train(job, again, 1)


def test_ctrl_c_during_a_step_acts_after_it() -> None:
    job = Job()
    seen = []

    def interrupt(*_: Any) -> None:
        seen.append(job.state())
        raise KeyboardInterrupt

    with compiled(job.step, (job.x, job.y)) as step:
        before = signal.signal(signal.SIGINT, interrupt)
        try:
            programs = step._programs
            original = programs.note

            def note(*args: Any) -> None:
                os.kill(os.getpid(), signal.SIGINT)
                original(*args)

            programs.note = note  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                step(job.x, job.y)
            programs.note = original  # type: ignore[method-assign]
            train(job, step, 2)
        finally:
            signal.signal(signal.SIGINT, before)
    ours = job.state()
    assert len(seen) == 1
    plain = Job()
    train(plain, plain.step, 1)
    assert same(seen[0], plain.state()), "the step was whole when the signal acted"
    train(plain, plain.step, 2)
    assert same(ours, plain.state())


def test_two_threads_do_not_run_one_arena() -> None:
    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        found: list[str] = []

        def call() -> None:
            try:
                step(job.x, job.y)
            except fitstep.FitstepError as error:
                found.append(str(error))

        with step._session.access.alone():
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        assert "another thread" in found[0]
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert len(found) == 1
        ours = job.state()
    plain = Job()
    train(plain, plain.step, 1)
    assert same(ours, plain.state())


def test_a_failed_step_restores_generator_scheduler_and_numbers() -> None:
    """A target out of range stops the loss's kernel, after dropout has drawn."""
    job = Job()
    schedule = torch.optim.lr_scheduler.StepLR(job.optimizer, step_size=1, gamma=0.5)

    def scheduled(x: Tensor, y: Tensor) -> Tensor:
        loss = job.step(x, y)
        schedule.step()
        return loss

    with compiled(scheduled, (job.x, job.y)) as step:
        step(job.x, job.y)
        before, rate = job.state(), schedule.get_last_lr()
        with pytest.raises(fitstep.StepFailed, match="99") as raised:
            step(job.x, job.y + 99)
        assert raised.value.unusable == ()
        assert same(job.state(), before)
        assert schedule.get_last_lr() == rate
        step(job.x, job.y)
        ours = job.state()
    plain = Job()
    schedule = torch.optim.lr_scheduler.StepLR(plain.optimizer, step_size=1, gamma=0.5)
    for _ in range(2):
        plain.step(plain.x, plain.y)
        schedule.step()
    assert same(ours, plain.state())


def test_check_compares_and_changes_nothing() -> None:
    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        train(job, step, 1)
        before = job.state()
        result = step.check(steps=2)
        assert result.steps == 2
        assert result.tensors >= 12  # 4 parameters, each with 2 moments.
        assert same(job.state(), before)
        train(job, step, 1)
        ours = job.state()
    plain = Job()
    train(plain, plain.step, 2)
    assert same(ours, plain.state())


def test_a_report_has_predicted_beside_measured() -> None:
    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        train(job, step, 3)
        report = step.report()
    steady = report.variants[1]
    assert [v.runs for v in report.variants] == [1, 2]
    assert steady.measured_s is not None and steady.measured_s > 0 < steady.predicted_s
    assert (steady.kept_ops, steady.recomputed_ops) == (steady.ops, 0), "there is room enough"
    assert "kept" in str(report)
    assert "recomputed" in str(report)
    assert json.loads(report.to_json())["variants"][1]["runs"] == 2


def test_a_report_counts_what_is_run_more_often_than_there_are_ops() -> None:
    scale = nn.Parameter(torch.tensor(0.9))
    optimizer = torch.optim.SGD([scale], lr=0.1)
    x = torch.randn(64, 1024)

    def deep(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        for _ in range(40):
            x = torch.tanh(x * scale)
        loss = x.sum()
        loss.backward()
        optimizer.step()
        return loss

    with pytest.raises(fitstep.BudgetTooSmall) as refused:
        fitstep.compile(deep, example=(x,), budget=1)
    with compiled(deep, (x,), budget=refused.value.least_found_bytes) as step:
        step(x)
        only = step.report().variants[0]
    assert only.recomputed_ops > only.ops
    assert 0 < only.kept_ops < only.ops


def test_a_saved_plan_runs_again(tmp_path: Path) -> None:
    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        train(job, step, 2)
        step.program.save(tmp_path / "step.program")
        step.plan.save(tmp_path / "step.plan")
    job = Job()
    with compiled(job.step, (job.x, job.y), plan=tmp_path / "step.plan") as step:
        train(job, step, 3)
        ours = job.state()
        assert str(step.plan) == (tmp_path / "step.plan").read_text()
    plain = Job()
    train(plain, plain.step, 3)
    assert same(ours, plain.state())


def test_a_curve_goes_down_to_the_least_and_changes_nothing() -> None:
    job = Job()
    before = job.state()
    found = fitstep.curve(job.step, (job.x, job.y), effort=1)
    assert same(job.state(), before)
    budgets = [point.budget_bytes for point in found.points]
    assert budgets == sorted(budgets, reverse=True)
    assert found.floor_bytes <= budgets[-1]
    times = [point.predicted_s for point in found.points]
    assert times == sorted(times), "less memory is never faster"
    assert "plain peak" in str(found)


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def mapped_bytes() -> int:
    """What malloc() holds in maps of their own: all that is larger than 32 MiB is there."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo
    return int(libc.mallinfo2().hblkhd)


def test_memory_from_which_tensors_have_moved_home_is_given_back() -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(3000, width, bias=False) for width in (6000, 6100)]  # 69 MiB each.
    optimizer = torch.optim.SGD([p for one in layers for p in one.parameters()], lr=0.1)

    def train(x: Tensor, used: int) -> Tensor:
        optimizer.zero_grad()
        loss = (layers[used](x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    before = mapped_bytes()
    with compiled(train, (torch.randn(2, 3000), 0), budget="500MiB") as step:
        step(torch.randn(2, 3000), 0)
        assert before - mapped_bytes() > 60 * 2**20
        step(torch.randn(2, 3000), 1)  # A program that is made in a call.
        assert before - mapped_bytes() > 125 * 2**20
