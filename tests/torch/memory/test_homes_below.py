"""Parameters and optimizer state at home on the host tier: plain PyTorch's bits, and its reach."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fitstep_kit.measures.bits import differences
from fitstep_kit.subjects.home_jobs import BUDGET, Job, adamw, below, momentum
from torch import Tensor, nn

import fitstep


@pytest.mark.parametrize("make_optimizer", [adamw, momentum])
@pytest.mark.parametrize("policy", ["auto", "offload"])
def test_weights_and_state_that_do_not_fit_train_with_equal_bits(
    make_optimizer: Callable[..., torch.optim.Optimizer], policy: str
) -> None:
    budget = BUDGET if make_optimizer is adamw else "2MiB"
    ours = Job(make_optimizer)
    with pytest.raises(fitstep.BudgetTooSmall):
        ours.compiled(budget, host_budget=None, policy="auto")
    step = ours.compiled(budget, policy=policy)
    found = ours.train(step)
    report = step.report()
    assert below(step)
    step.close()
    plain = Job(make_optimizer)
    assert differences(found, plain.train(plain.step)) == []
    assert report.violations == 0
    assert all(v.total_bytes <= report.budget_bytes for v in report.variants)
    steady = report.variants[-1]
    assert steady.bound_s <= steady.predicted_s
    assert 0 < steady.host_tier_bytes <= report.host_budget_bytes


def test_between_steps_all_is_where_python_looks(tmp_path: Path) -> None:
    """Reads, writes in place, state_dict, load_state_dict, a second compiled function, close."""
    ours, plain = Job(adamw), Job(adamw)
    step = ours.compiled("1.75MiB")
    evaluate = fitstep.compile(ours.evaluate, (ours.x,))
    inside = list(ours.model.parameters())
    assert below(step) & {name for name in step._session.homes if name.endswith("weight")}
    found, expected = ours.train(step, 2), plain.train(plain.step, 2)
    assert differences(found, expected) == []
    assert torch.equal(evaluate(ours.x), plain.evaluate(plain.x))
    for job in (ours, plain):
        with torch.no_grad():
            for p in job.model.parameters():
                p.mul_(0.5)
        for state in job.optimizer.state.values():
            state["exp_avg"].zero_()
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


def test_a_saved_plan_has_its_homes_where_they_were(tmp_path: Path) -> None:
    ours = Job(adamw)
    step = ours.compiled()
    ours.train(step, 2)
    there = below(step)
    step.plan.save(tmp_path / "below.plan")
    step.close()
    again = Job(adamw)
    step = again.compiled(plan=tmp_path / "below.plan")
    assert below(step) == there
    plain = Job(adamw)
    assert differences(again.train(step), plain.train(plain.step)) == []
    step.close()


def test_a_failed_step_changes_nothing_at_home() -> None:
    class Stops(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Embedding(64, 256), nn.Linear(256, 256), nn.GELU())
            self.more = nn.Sequential(*[nn.Linear(256, 256) for _ in range(5)])

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.more(self.inner(x))
            return found

    def job() -> Job:
        made = Job(adamw)
        torch.manual_seed(5)
        made.model = Stops()  # type: ignore[assignment]
        made.optimizer = adamw(made.model.parameters())
        made.x = torch.arange(8)
        return made

    ours, plain = job(), job()
    step = ours.compiled("3MiB")
    assert below(step)
    ours.train(step, 2)
    for _ in range(5):
        with pytest.raises(fitstep.StepFailed) as raised:
            step(ours.x + 99)
        assert raised.value.unusable == ()
    found = ours.train(step, 2)
    step.close()
    plain.train(plain.step, 2)
    assert differences(found, plain.train(plain.step, 2)) == []


def test_without_need_homes_stay_in_the_arena() -> None:
    ours = Job(adamw)
    step = ours.compiled("200%")
    assert below(step) == set()
    step.close()
