"""Parameters and optimizer state at home on the disk tier: plain PyTorch's bits, and its reach."""

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fitstep_kit.measures.bits import differences
from fitstep_kit.measures.open_files import open_files
from fitstep_kit.subjects.home_jobs import BUDGET, Job, adamw, below, momentum, on_disk

import fitstep


@pytest.mark.parametrize(("make_optimizer", "budget"), [(adamw, BUDGET), (momentum, "2MiB")])
@pytest.mark.parametrize("policy", ["auto", "offload"])
def test_weights_and_state_that_do_not_fit_train_with_equal_bits(
    make_optimizer: Callable[..., torch.optim.Optimizer], budget: str, policy: str, tmp_path: Path
) -> None:
    ours = Job(make_optimizer)
    with pytest.raises(fitstep.BudgetTooSmall):
        ours.compiled(budget, host_budget=None)
    step = on_disk(ours, tmp_path, budget, policy=policy)
    found = ours.train(step)
    report = step.report()
    assert below(step)
    assert list(tmp_path.iterdir()) == [], "files have no names"
    step.close()
    plain = Job(make_optimizer)
    assert differences(found, plain.train(plain.step)) == []
    assert report.violations == 0
    assert all(v.total_bytes <= report.budget_bytes for v in report.variants)
    steady = report.variants[-1]
    assert steady.bound_s <= steady.predicted_s
    assert 0 < report.disk_homes_bytes <= steady.disk_tier_bytes <= report.disk_budget_bytes
    assert steady.evicted_bytes == steady.prefetched_bytes == 0
    assert 0 < steady.disk_written_bytes <= report.disk_written_bytes
    assert "homes" in str(report)


def test_between_steps_all_is_where_python_looks(tmp_path: Path) -> None:
    """Reads, writes in place, a new learning rate, state_dict, torch.save, load_state_dict, a
    second compiled function, close."""
    ours, plain = Job(adamw), Job(adamw)
    step = on_disk(ours, tmp_path, "2.25MiB")
    evaluate = fitstep.compile(ours.evaluate, (ours.x,))
    inside = list(ours.model.parameters())
    assert below(step)
    found, expected = ours.train(step, 2), plain.train(plain.step, 2)
    assert differences(found, expected) == []
    assert torch.equal(evaluate(ours.x), plain.evaluate(plain.x))
    assert torch.equal(ours.evaluate(ours.x), plain.evaluate(plain.x))
    for job in (ours, plain):
        with torch.no_grad():
            for p in job.model.parameters():
                p.mul_(0.5)
        for state in job.optimizer.state.values():
            state["exp_avg"].zero_()
        job.optimizer.param_groups[0]["lr"] = 0.003
    assert differences(ours.train(step, 2), plain.train(plain.step, 2)) == []
    torch.save((ours.model.state_dict(), ours.optimizer.state_dict()), tmp_path / "saved.pt")
    ours.train(step, 1)
    model, optimizer = torch.load(tmp_path / "saved.pt")
    ours.model.load_state_dict(model)
    ours.optimizer.load_state_dict(optimizer)
    assert differences(ours.train(step, 2), plain.train(plain.step, 2)) == []
    step.close()
    assert all(torch.equal(p, q) for p, q in zip(inside, plain.model.parameters(), strict=True))
    assert differences(ours.train(ours.step, 1), plain.train(plain.step, 1)) == []


def test_reading_what_is_at_home_takes_no_bytes_of_the_arena(tmp_path: Path) -> None:
    job = Job(adamw)
    step = on_disk(job, tmp_path)
    job.train(step, 2)
    before = step.report()
    for value in (job.model.state_dict(), job.optimizer.state_dict()):
        torch.save(value, tmp_path / "saved.pt")
    job.evaluate(job.x)
    after = step.report()
    assert after.unforeseen_requests == before.unforeseen_requests
    assert after.disk_written_bytes == before.disk_written_bytes
    step.close()


def test_a_saved_plan_has_its_homes_where_they_were(tmp_path: Path) -> None:
    ours = Job(adamw)
    step = on_disk(ours, tmp_path)
    ours.train(step, 2)
    there = below(step)
    step.plan.save(tmp_path / "below.plan")
    step.close()
    again = Job(adamw)
    step = on_disk(again, tmp_path, plan=tmp_path / "below.plan")
    assert below(step) == there
    plain = Job(adamw)
    assert differences(again.train(step), plain.train(plain.step)) == []
    step.close()


def test_closed_tensors_are_ordinary_and_the_file_goes_with_the_last(tmp_path: Path) -> None:
    job = Job(adamw)
    step = on_disk(job, tmp_path)
    job.train(step, 2)
    assert below(step)
    step.close()
    del step
    expected = [p.detach().clone() for p in job.model.parameters()]
    child = os.fork()
    if child == 0:  # What a child writes is its own.
        torch.set_num_threads(1)  # Worker threads do not survive a fork.
        with torch.no_grad():
            for p in job.model.parameters():
                p.add_(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert all(torch.equal(p, q) for p, q in zip(job.model.parameters(), expected, strict=True))
    del job, expected
    gc.collect()
    assert open_files(tmp_path) == []


def test_without_need_homes_stay_in_the_arena(tmp_path: Path) -> None:
    job = Job(adamw)
    step = on_disk(job, tmp_path, "200%")
    assert below(step) == set()
    assert step.report().disk_homes_bytes == 0
    step.close()


def test_a_disk_budget_without_room_for_homes_changes_nothing(tmp_path: Path) -> None:
    job = Job(adamw)
    with pytest.raises(fitstep.BudgetTooSmall):
        on_disk(job, tmp_path, disk_budget="1MiB")
    plain = Job(adamw)
    assert differences(job.train(job.step), plain.train(plain.step)) == []
