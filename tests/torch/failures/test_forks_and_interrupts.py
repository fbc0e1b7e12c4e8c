"""What a process outside can do to a running step: fork it, and press Ctrl-C."""

import contextlib
import copy
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from signal_job import BUDGET, Job, interruptible, pending
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import fitstep
from fitstep import _core

__all__ = ["interruptible"]  # For each test here.


# What autograd says in a forked process, where the parent has its threads (CUDA builds of torch).
REFUSES_FORKS = "autograd's threading in combination with fork"


def equal(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(map(torch.equal, a, b))


def in_child(body: Callable[[], str]) -> str:
    """What `body` returns in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # Worker threads do not survive a fork; DataLoader does the same.
        try:
            text = body()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with status {status}, after {text!r}"
    return text


def test_a_forked_process_is_told_that_parameters_are_not_here() -> None:
    job = Job()
    step = job.compiled()
    step(job.x, job.y)
    expected = job.weights()

    assert "the parent process has compiled" in in_child(lambda: str(job.model[0].weight.sum()))
    assert "the parent process has compiled" in in_child(lambda: str(job.model(job.x)))
    assert "forked" in in_child(lambda: str(step(job.x, job.y)))
    assert in_child(lambda: str(step.close())) == "None"
    # The parent goes on as if nothing had been.
    assert equal(expected, job.weights())
    step(job.x, job.y)
    step.close()
    assert not equal(expected, job.weights())


def test_what_was_copied_before_the_fork_and_what_was_closed_are_there() -> None:
    job = Job()
    step = job.compiled()
    step(job.x, job.y)
    copies = job.weights()
    assert in_child(lambda: str(float(copies[0].sum()))) == str(float(copies[0].sum()))
    step.close()
    assert in_child(lambda: str(float(job.model[0].weight.sum()))) == str(float(copies[0].sum()))


def test_a_forked_process_compiles_its_own() -> None:
    job = Job()
    step = job.compiled()
    step(job.x, job.y)

    def train() -> str:
        own = Job()
        return str(own.compiled()(own.x, own.y).item())

    other = Job()
    plain = str(other.step(other.x, other.y).item())
    if REFUSES_FORKS in in_child(lambda: str(other.step(other.x, other.y))):
        said = in_child(train)  # This torch has started autograd's threads in the parent.
        assert REFUSES_FORKS in said, "the same answer as plain PyTorch's"
    else:
        assert in_child(train) == plain


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def open_files() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # That of the folder itself is gone.
            yield os.readlink(f"/proc/self/fd/{number}")


def test_a_forked_process_may_use_the_addresses_that_the_arena_has_here() -> None:
    """The system gives them to tensors of the child: these are freed, and nobody unmaps them."""
    job = Job()
    step = fitstep.compile(job.step, example=(job.x, job.y), budget="256MiB")
    step(job.x, job.y)
    mebibyte = 1 << 20

    def use() -> str:
        before = resident_bytes()
        for _ in range(200):
            torch.ones(mebibyte, dtype=torch.uint8)
        kept = resident_bytes() - before
        full = [torch.full((4 * mebibyte,), i, dtype=torch.uint8) for i in range(100)]
        step.close()
        job.model = None
        gc.collect()
        is_there = all(bool((tensor == i).all()) for i, tensor in enumerate(full))
        return f"{kept < 20 * mebibyte} {is_there}"

    assert in_child(use) == "True True"
    assert job.weights()
    step.close()


def test_a_forked_process_does_not_keep_the_file_of_a_disk_tier(tmp_path: Path) -> None:
    job = Job()
    step = fitstep.compile(
        job.step, example=(job.x, job.y), budget=BUDGET, policy="offload",
        disk_budget="8MiB", disk_dir=tmp_path,
    )  # fmt: skip
    step(job.x, job.y)
    step._session.arena.core.reserve_disk(4096)

    def files() -> str:
        return str(sum(str(tmp_path) in target for target in open_files()))

    assert files() == "1"
    assert in_child(files) == "0"
    step.close()


class Batches(Dataset[Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((32,), float(index))


def test_batches_come_from_forked_workers() -> None:
    job, plain = Job(), Job()
    step = job.compiled()
    loader = DataLoader(Batches(), batch_size=4, num_workers=2, multiprocessing_context="fork")
    y = job.y[:4]
    losses = [float(step(x, y)) for x in loader]
    assert losses == [plain.step(x, y).item() for x in loader]
    assert equal(job.weights(), plain.weights())


def test_the_first_interrupt_waits_for_the_end_of_the_step() -> None:
    job, plain = Job(), Job()
    step = job.compiled()
    step(job.x, job.y)
    pending[:] = [1]
    with pytest.raises(KeyboardInterrupt):
        step(job.x, job.y)
    for _ in range(2):
        plain.step(plain.x, plain.y)
    assert equal(job.weights(), plain.weights())
    step(job.x, job.y)
    plain.step(plain.x, plain.y)
    assert equal(job.weights(), plain.weights())


@pytest.mark.parametrize("calls", [[2], [3]])
def test_the_second_interrupt_stops_the_step_before_it_changes_anything(calls: list[int]) -> None:
    job, plain = Job(), Job()
    step = job.compiled()
    step(job.x, job.y)
    plain.step(plain.x, plain.y)
    pending[:] = calls
    with pytest.raises(fitstep.StepFailed, match="second interrupt") as failed:
        step(job.x, job.y)
    assert not failed.value.unusable
    assert "nothing was changed" in str(failed.value)
    assert equal(job.weights(), plain.weights())
    step(job.x, job.y)
    plain.step(plain.x, plain.y)
    assert equal(job.weights(), plain.weights())


def test_a_step_that_was_stopped_among_its_updates_goes_on_from_a_checkpoint() -> None:
    job, plain = Job(), Job()
    step = job.compiled()
    step(job.x, job.y)
    plain.step(plain.x, plain.y)
    saved = copy.deepcopy((job.model.state_dict(), job.optimizer.state_dict()))
    pending[:] = [0, 2]  # Nothing needs the second call, so the plan has it late.
    with pytest.raises(fitstep.StepFailed, match="load a checkpoint") as failed:
        step(job.x, job.y)
    assert "self.model[0].weight" in failed.value.unusable
    job.model.load_state_dict(saved[0])
    job.optimizer.load_state_dict(saved[1])
    assert equal(job.weights(), plain.weights())
    step(job.x, job.y)
    plain.step(plain.x, plain.y)
    assert equal(job.weights(), plain.weights())


def test_an_interrupt_does_not_hide_that_the_step_has_failed() -> None:
    job = Job()
    step = job.compiled()
    step(job.x, job.y)
    pending[:] = [-1]
    with pytest.raises(fitstep.StepFailed, match="on purpose") as failed:
        step(job.x, job.y)
    assert failed.value.__notes__ == ["Ctrl-C was pressed while the step ran."]
    step(job.x, job.y)


def test_an_interrupt_while_a_call_compiles_another_variant_acts_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job, plain = Job(), Job()
    step = job.compiled()
    planned: list[int] = []
    capture = fitstep.follow.maker.Maker.take_up

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return capture(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(fitstep.follow.maker.Maker, "take_up", interrupted)
        patched.setattr(fitstep.memory.planning.Planning, "plan", lambda *_: planned.append(1))
        with pytest.raises(KeyboardInterrupt):
            step(job.x[:8], job.y[:8])
    assert not planned
    for rows in (8, 16):
        step(job.x[:rows], job.y[:rows])
        plain.step(plain.x[:rows], plain.y[:rows])
    assert equal(job.weights(), plain.weights())


def test_an_interrupt_among_a_compile_s_moves_leaves_all_steps_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here it joins the arena of another step, with a second model that has to move in."""
    job, plain = Job(), Job()
    more = {one: torch.nn.Linear(8, 8) for one in (job, plain)}
    more[plain].load_state_dict(more[job].state_dict())
    optimizers = {one: torch.optim.SGD(more[one].parameters(), lr=0.1) for one in more}
    step = job.compiled()

    def both(one: Job) -> Tensor:
        loss: Tensor = more[one](one.model(one.x)).square().sum()
        optimizers[one].zero_grad()
        loss.backward()
        optimizers[one].step()
        return loss

    moved: list[Any] = []
    move_in = _core.Homes.move_in

    def interrupted(homes: Any, tensor: Tensor, place: Any, aliases: int) -> None:
        move_in(homes, tensor, place, aliases)
        moved.append(place)
        if len(moved) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(_core.Homes, "move_in", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fitstep.compile(lambda: both(job), example=())
    assert len(moved) > 1
    for _ in range(3):
        step(job.x, job.y)
        plain.step(plain.x, plain.y)
        both(job)
        both(plain)
    assert equal(job.weights(), plain.weights())
    assert equal(list(more[job].parameters()), list(more[plain].parameters()))


def test_an_ignored_interrupt_is_ignored() -> None:
    job = Job()
    step = job.compiled()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pending[:] = [2]
        step(job.x, job.y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not pending and sys.exc_info() == (None, None, None)
