"""Plans that evict to a host tier: the bits of plain PyTorch, whatever goes through there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from failing_steps import assert_failed_steps_change_nothing
from fitstep_kit.measures.bits import Fingerprint, differences, fingerprint
from fitstep_kit.subjects.jobs import JOBS, STEPS, Job, compiled, mlp, offloaded_plan
from torch import Tensor

import fitstep


@pytest.mark.parametrize("kind", JOBS)
def test_everything_goes_through_the_host_tier_with_equal_bits(kind: str, tmp_path: Path) -> None:
    plan = offloaded_plan(JOBS[kind], tmp_path / "offloaded.plan")
    ours = JOBS[kind]()
    step = compiled(ours, "900%", plan=plan, host_budget="900%")
    found = ours.train(step)
    report = step.report()
    step.close()
    plain = JOBS[kind]()
    assert differences(found, plain.train(plain.step)) == []
    steady = report.variants[-1]
    assert steady.runs == STEPS - 1
    assert steady.evicted_bytes == steady.prefetched_bytes > 0
    assert 0 < steady.host_tier_bytes <= report.host_budget_bytes
    assert "evicted" in str(report)


def test_a_failed_step_changes_nothing_and_the_next_is_right(tmp_path: Path) -> None:
    plan = offloaded_plan(mlp, tmp_path / "offloaded.plan")
    ours = mlp()
    step = compiled(ours, "900%", plan=plan, host_budget="900%")
    assert_failed_steps_change_nothing(ours, step, 20)


def test_a_plan_that_evicts_needs_a_host_tier_of_its_size(tmp_path: Path) -> None:
    plan = offloaded_plan(mlp, tmp_path / "offloaded.plan")
    job = mlp()
    with pytest.raises(fitstep.PlanFileError, match="tier 1"):
        compiled(job, "900%", plan=plan)
    with pytest.raises(fitstep.PlanFileError, match="tier 1"):
        compiled(job, "900%", plan=plan, host_budget=1024)


@pytest.mark.parametrize("host_budget", [0, "x", "-1GiB", True, "2000%"])
def test_a_host_budget_that_cannot_be_meant_is_named(host_budget: Any) -> None:
    job = mlp()
    with pytest.raises(fitstep.BudgetError, match="host_budget="):
        compiled(job, "2MiB", host_budget=host_budget)


def test_steps_that_share_a_model_share_its_host_budget() -> None:
    job = mlp()
    step = compiled(job, "2MiB", host_budget="4MiB")
    again = compiled(job, "2MiB", host_budget="4096KiB")
    assert again.report().host_budget_bytes == 4 * 2**20
    assert compiled(job, "2MiB").report().host_budget_bytes == 4 * 2**20
    with pytest.raises(fitstep.BudgetError, match="host_budget="):
        compiled(job, "2MiB", host_budget="5MiB")
    step.close()


def least(make: Callable[[], Job], host_budget: str | None) -> int:
    """The least budget for which a plan is found."""
    job = make()
    found = fitstep.curve(job.step, (job.x, job.y), effort=1, host_budget=host_budget)
    return found.points[-1].budget_bytes


@pytest.mark.parametrize("kind", JOBS)
def test_least_budgets_with_a_host_tier_give_equal_bits(kind: str) -> None:
    budget = least(JOBS[kind], "500%")
    assert budget <= least(JOBS[kind], None)
    ours = JOBS[kind]()
    step = compiled(ours, budget, host_budget="500%")
    found = ours.train(step)
    report = step.report()
    step.close()
    plain = JOBS[kind]()
    assert differences(found, plain.train(plain.step)) == []
    assert report.violations == 0
    assert all(v.total_bytes <= budget for v in report.variants)
    assert all(v.prefetched_bytes > 0 < v.evicted_bytes for v in report.variants)


def test_the_offload_policy_recomputes_nothing() -> None:
    ours = mlp()
    step = compiled(ours, "60%", host_budget="500%", policy="offload")
    found = ours.train(step)
    steady = step.report().variants[-1]
    step.close()
    plain = mlp()
    assert differences(found, plain.train(plain.step)) == []
    assert steady.recomputed_ops == 0
    assert steady.evicted_bytes > 0


def test_a_larger_batch_later_needs_a_larger_host_tier() -> None:
    """Both variants copy to the one arena of the host tier, which has been replaced between. There
    is room for both beside the homes, which stay where the first one has them."""
    budget = 600_000  # Homes are 442 KiB.
    rows = [128, 256, 128, 256, 128]

    def train(job: Job, step: Callable[..., Tensor]) -> Fingerprint:
        torch.manual_seed(6)
        losses = [step(job.x[:n], job.y[:n]).detach().clone() for n in rows]
        return fingerprint(model=job.model, optimizer=job.optimizer, losses=losses)

    ours = mlp()
    half = (ours.x[:128], ours.y[:128])
    step = fitstep.compile(ours.step, half, budget, effort=1, host_budget="8MiB")
    held = step.report().variants[-1].host_tier_bytes
    found = train(ours, step)
    report = step.report()
    step.close()
    plain = mlp()
    assert differences(found, train(plain, plain.step)) == []
    assert 0 < held < report.variants[-1].host_tier_bytes
