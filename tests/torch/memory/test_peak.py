"""The peak is the one that was promised, and the plain peak is PyTorch's own.

The long form, with resident memory, is benchmarks/promises/peak_promise.py.
"""

import gc
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch
from fitstep.state import discover
from fitstep_kit.measures.touched import touched
from fitstep_kit.subjects.cases import CASES, build
from fitstep_kit.subjects.equal_bits import (
    Watched,
    close_all,
    compile_all,
    plain_peak,
    share_of_plain_peak,
)
from garbage import no_tensor_in_cycles
from torch import nn

import fitstep

# Variants are mixed: a short batch every fourth step, validation after every second. Kernels in
# bfloat16 request scratch from their worker threads.
MIXED = ("short_batch", "validation", "micro_across", "dcgan", "autocast_gpt")


@pytest.mark.parametrize("case", ["mlp", "resnet50_channels_last", "gpt", "lstm", "unet"])
def test_the_estimated_plain_peak_is_what_the_allocator_counts(case: str) -> None:
    measured = plain_peak(case)
    trainee = build(CASES[case], tiny=True)
    steps = compile_all(trainee, "200%")
    trainee.drive(0, steps)
    estimated = steps[0].report().plain_peak_bytes
    close_all(steps)
    assert abs(estimated - measured) <= 0.02 * measured, (estimated, measured)


def test_a_step_leaves_no_block_of_pythons_memory() -> None:
    """Of tuples that are cut to their size Python keeps up to 2,000 of each length: with one a
    step, resident memory grows for as many steps."""
    trainee = build(CASES["mlp"], tiny=True)
    steps = compile_all(trainee, "200%")
    for index in range(200):
        trainee.drive(index, steps)
    gc.collect()
    before = sys.getallocatedblocks()
    for index in range(200, 400):
        trainee.drive(index, steps)
    gc.collect()  # PyTorch's own Python, which runs in every step, leaves cycles.
    blocks = sys.getallocatedblocks() - before
    close_all(steps)
    assert blocks < 100


def test_what_a_walk_finds_goes_with_it() -> None:
    """Or gradients that it has found would stay in memory until the next collection."""
    trainee = build(CASES["mlp"], tiny=True)
    discover(trainee.functions[0])
    with no_tensor_in_cycles():
        reach = discover(trainee.functions[0])
        assert reach.tensors
        del reach


@pytest.mark.parametrize("is_left_by_an_error", [False, True])
def test_a_step_that_nobody_holds_gives_its_memory_back_at_once(is_left_by_an_error: bool) -> None:
    """And not when Python next looks for cycles."""
    model = nn.Linear(64, 64)

    def train(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        if len(x) == 3:
            raise KeyError(loss.item())
        return loss

    gc.disable()
    try:
        step = fitstep.compile(train, (torch.ones(8, 64),), budget="1MiB")
        step(torch.ones(8, 64)).item()
        step(torch.ones(8, 64))
        if is_left_by_an_error:
            with pytest.raises(KeyError):
                step(torch.ones(3, 64))
        session = weakref.ref(step._session)
        del step
        assert session() is None
    finally:
        gc.enable()
    assert model(torch.ones(8, 64)).isfinite().all()


@pytest.mark.parametrize("case", MIXED)
def test_held_bytes_never_exceed_the_budget_with_variants_mixed(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a shape that was met after compile is measured: no profile is kept from before."""
    monkeypatch.setenv("FITSTEP_CACHE", str(tmp_path))
    budget = share_of_plain_peak(case, 0.9)
    trainee = build(CASES[case], tiny=True)
    steps = compile_all(trainee, budget)
    watched = [Watched(step) for step in steps]
    held = []
    for index in range(24):
        trainee.drive(index, watched)
        held.append(max(step.held_bytes() for step in watched))
    report = steps[0].report()
    close_all(steps)
    assert held[-1] <= budget
    assert max(step.excess_bytes for step in watched) <= report.small_tensor_bytes, "their share"
    assert held[-1] == held[-16], "a late step holds what an early one held"
    assert report.violations == 0


@pytest.mark.parametrize("case", ["mlp", "gpt", "resnet18", "unet", "lstm"])
@pytest.mark.parametrize("share", [1.0, 0.8])
def test_steps_write_all_that_their_plans_say_and_not_a_byte_above(case: str, share: float) -> None:
    """Kernels of convolutions and LSTMs need not fill what they ask for."""
    trainee = build(CASES[case], tiny=True)
    steps = compile_all(trainee, share_of_plain_peak(case, share))
    for index in range(2):
        trainee.drive(index, steps)
    found = touched(steps[0], lambda: trainee.drive(2, steps))
    close_all(steps)
    assert found.end_bytes <= found.height_bytes
    if case in ("mlp", "gpt"):
        assert found.end_bytes == found.height_bytes
    assert found.end_bytes > 0.9 * found.height_bytes


def test_the_thread_count_may_change_after_operators_were_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a thread whose first request is one of a measurement, which borrows its memory."""
    monkeypatch.setenv("FITSTEP_CACHE", str(tmp_path))
    trainee = build(CASES["mlp"], tiny=True)
    threads = torch.get_num_threads()
    seen: list[int] = []

    def train() -> None:
        steps = compile_all(trainee, "200%")
        for count in (threads, threads + 1, threads):
            torch.set_num_threads(count)
            trainee.drive(len(seen), steps)
            seen.append(count)
        close_all(steps)

    worker = threading.Thread(target=train)
    worker.start()
    worker.join()
    torch.set_num_threads(threads)
    assert len(seen) == 3


def test_numbers_that_run_at_once_count_in_the_peak() -> None:
    """Positions, distances and masks are small whole numbers, which Python's calls compute."""
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train_step(x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(200)
        distances = (positions[:, None] - positions[None, :]).abs().clamp(max=63)
        order = (distances * distances + 1).sum(0) % 64
        optimizer.zero_grad()
        loss = model(x)[:, order].square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.randn(32, 64)
    with pytest.raises(fitstep.BudgetTooSmall) as too_small:
        fitstep.compile(train_step, example=(x,), budget=1)
    budget = too_small.value.least_found_bytes
    step = fitstep.compile(train_step, example=(x,), budget=budget)
    watched = Watched(step)
    for _ in range(3):
        watched(x)
    assert watched.excess_bytes <= 4096  # Of 960 KB: sizes, 0-dim numbers.
    assert watched.held_bytes() <= budget
    close_all([step])
