"""Gradients behind a step. Those that no optimizer of it uses are there; reading others raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from api_models import Job, compiled, same
from torch import Tensor, nn

import fitstep


def grads(job: Job) -> list[Tensor | None]:
    found = [parameter.grad for parameter in job.model.parameters()]
    return [None if grad is None else grad.detach().clone() for grad in found]


def same_grads(a: list[Tensor | None], b: list[Tensor | None]) -> bool:
    return all(
        x is y is None or (x is not None and y is not None and torch.equal(x, y))
        for x, y in zip(a, b, strict=True)
    )


def flagged(job: Job) -> Callable[..., Any]:
    def step(x: Tensor, y: Tensor, last: bool) -> Tensor:
        loss = nn.functional.cross_entropy(job.model(x), y)
        loss.backward()
        if last:
            job.optimizer.step()
            job.optimizer.zero_grad()
        return loss

    return step


@pytest.mark.parametrize("is_last_in_example", [False, True])
def test_gradients_accumulate_behind_a_flag(is_last_in_example: bool) -> None:
    job, plain = Job(), Job()
    with compiled(flagged(job), (job.x, job.y, is_last_in_example)) as step:
        for i in range(6):
            torch.manual_seed(i)
            step(job.x, job.y, i % 3 == 2)
            torch.manual_seed(i)
            flagged(plain)(plain.x, plain.y, i % 3 == 2)
            assert same_grads(grads(job), grads(plain))
        assert same(job.state(), plain.state())


def backward_only(job: Job, *, clears: bool) -> Callable[..., Any]:
    def step(x: Tensor, y: Tensor) -> Tensor:
        if clears:
            job.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(job.model(x), y)
        loss.backward()
        return loss

    return step


@pytest.mark.parametrize("keep_grads", [False, True])
@pytest.mark.parametrize("clears", [False, True])
def test_an_optimizer_that_is_stepped_outside_trains(clears: bool, keep_grads: bool) -> None:
    job, plain = Job(), Job()
    options: dict[str, Any] = {"optimizer": job.optimizer, "keep_grads": keep_grads}
    with compiled(backward_only(job, clears=clears), (job.x, job.y), **options) as step:
        for i in range(4):
            for one, function in ((job, step), (plain, backward_only(plain, clears=clears))):
                torch.manual_seed(i)
                function(one.x, one.y)
                one.optimizer.step()
                if not clears:
                    one.optimizer.zero_grad()
        assert same(job.state(), plain.state())


def test_a_flag_that_asks_for_gradients_only_keeps_them() -> None:
    def make(job: Job) -> Callable[..., Any]:
        inner = backward_only(job, clears=True)

        def step(x: Tensor, y: Tensor, mode: str) -> Tensor:
            loss: Tensor = inner(x, y)
            if mode == "train":
                job.optimizer.step()
            return loss

        return step

    job, plain = Job(), Job()
    with compiled(make(job), (job.x, job.y, "train")) as step:
        for one, function in ((job, step), (plain, make(plain))):
            torch.manual_seed(1)
            function(one.x, one.y, "train")
            function(one.x, one.y, "gradients")
            one.optimizer.step()
        assert same(job.state(), plain.state())


def test_who_reads_a_gradient_that_the_step_used_gets_an_error() -> None:
    job = Job()
    readers: list[Callable[[], object]] = [
        lambda: [p.grad for p in job.model.parameters() if p.grad is not None],
        lambda: nn.utils.clip_grad_norm_(job.model.parameters(), 1.0),
        job.optimizer.step,
        lambda: nn.Module.zero_grad(job.model, set_to_none=False) or grads(job),
    ]
    with compiled(job.step, (job.x, job.y)) as step:
        step(job.x, job.y)
        for read in readers:
            with pytest.raises(fitstep.FitstepError, match="pass keep_grads=True"):
                read()
        assert fitstep.fits(job.step, (job.x, job.y), "100%", effort=1)  # Its preview may look.
        step(job.x, job.y)
        with pytest.raises(fitstep.FitstepError, match=r"at \S+test_gradients_kept.py:\d+ in"):
            grads(job)


def test_who_clears_a_gradient_that_the_step_used_reads_none() -> None:
    job, plain = Job(), Job()
    clears: list[Callable[[Job], object]] = [
        lambda of: of.optimizer.zero_grad(),
        lambda of: of.model.zero_grad(),
        lambda of: [setattr(p, "grad", None) for p in of.model.parameters()],
    ]
    with compiled(job.step, (job.x, job.y)) as step:
        for clear in clears:
            for one, function in ((job, step), (plain, plain.step)):
                torch.manual_seed(0)
                function(one.x, one.y)
                clear(one)
                assert grads(one) == [None] * len(grads(one))
    for one in (job, plain):  # Without a step PyTorch makes gradients as before.
        torch.manual_seed(1)
        nn.functional.cross_entropy(one.model(one.x), one.y).backward()
    assert same_grads(grads(job), grads(plain))
    assert same(job.state(), plain.state())


def test_state_of_an_optimizer_that_finds_gradients_or_none_has_one_home() -> None:
    """A function that meets gradients of an earlier one makes state in two programs; only one of
    them ever runs."""
    job = Job()
    with compiled(backward_only(job, clears=False), (job.x, job.y)) as gather:

        def update(x: Tensor, y: Tensor) -> Tensor:
            loss = backward_only(job, clears=False)(x, y)
            job.optimizer.step()
            job.optimizer.zero_grad()
            return loss

        with compiled(update, (job.x, job.y)) as step:
            assert {"first step", "steady step"} <= {v.label.split(" [")[0] for v in step.variants}
            homes = step._session.homes
            assert not [name for name in homes if name.endswith(" (2)")]
            gather(job.x, job.y)
            step(job.x, job.y)
            state = job.optimizer.state.values()
            tensors = [t for one in state for t in one.values() if t.numel() > 1]
            assert all(step._session.arena.home_of(t) is not None for t in tensors)
            parameters = sum(p.numel() for p in job.model.parameters())
            kept = sum(home.size_bytes for home in homes.values()) // 4
            assert kept == parameters * 2 + sum(t.numel() for t in tensors)
