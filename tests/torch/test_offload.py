"""Plans that evict to a host tier: the bits of plain PyTorch, whatever goes through there."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fitstep_kit.measures.bits import Fingerprint, differences, fingerprint
from offloaded_plan import offloaded, with_peak
from torch import Tensor, nn

import fitstep

STEPS = 4


class Job:
    """A model, an optimizer and a batch; two jobs of a kind have equal bits."""

    def __init__(self, make: Callable[[], nn.Module], x: Tensor, classes: int) -> None:
        torch.manual_seed(5)
        self.model = make()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.x = x
        self.y = torch.randint(0, classes, (len(x),))

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, step: Callable[..., Tensor], steps: int = STEPS) -> Fingerprint:
        torch.manual_seed(6)
        losses = [step(self.x, self.y).detach().clone() for _ in range(steps)]
        return fingerprint(
            model=self.model,
            optimizer=self.optimizer,
            losses=losses,
            random=torch.get_rng_state(),
        )


def mlp() -> Job:
    def make() -> nn.Module:
        layers: list[nn.Module] = []
        for _ in range(6):
            layers += [nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1)]
        return nn.Sequential(*layers)

    return Job(make, torch.linspace(-1, 1, 256 * 64).reshape(256, 64), 64)


class Gpt(nn.Module):
    """Two causal layers over 32 tokens, of 64 words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(64, 48)
        layer = nn.TransformerEncoderLayer(48, 4, 96, 0.1, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(48, 64)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(32))

    def forward(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self.layers(self.words(tokens), mask=self.mask, is_causal=True)
        predicted: Tensor = self.out(hidden.mean(1))
        return predicted


def gpt() -> Job:
    return Job(Gpt, torch.arange(16 * 32).reshape(16, 32) * 7 % 64, 64)


def conv() -> Job:
    def make() -> nn.Module:
        layers: list[nn.Module] = []
        for channels, wider in ((3, 8), (8, 8), (8, 16), (16, 16)):
            layers += [nn.Conv2d(channels, wider, 3, padding=1), nn.BatchNorm2d(wider), nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))

    return Job(make, torch.linspace(-1, 1, 8 * 3 * 24 * 24).reshape(8, 3, 24, 24), 10)


JOBS = {"mlp": mlp, "gpt": gpt, "conv": conv}


def offloaded_plan(
    make: Callable[[], Job],
    path: Path,
    tiers: tuple[int, ...] = (1,),
    codes: tuple[str, ...] = ("none",),
    **below: Any,
) -> Path:
    """A verified plan for such a job that evicts whatever has a gap to these tiers, by turns, in
    these codes, by turns. `below`: the options of compile that give it the tiers."""
    below = below or {"host_budget": "900%"}
    job = make()
    step = fitstep.compile(job.step, (job.x, job.y), "900%", policy="none", effort=1)
    job.train(step, 2)
    text = offloaded(str(step.plan), tiers=tiers, codes=codes)
    step.close()
    path.write_text(text)
    with pytest.raises(fitstep.PlanFileError, match="peak") as refused:
        compiled(make(), "900%", plan=path, **below)
    peak = re.search(r"the plan's (\d+)", str(refused.value))
    assert peak is not None, refused.value
    path.write_text(with_peak(text, int(peak[1])))
    return path


def compiled(job: Job, budget: int | str, **options: Any) -> fitstep.Step:
    return fitstep.compile(job.step, (job.x, job.y), budget, effort=1, **options)


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


def assert_failed_steps_change_nothing(ours: Job, step: fitstep.Step, failures: int) -> None:
    """Trains an mlp(), with steps between whose targets are out of range: the loss's kernel stops
    while copies are on their way."""
    ours.train(step, 2)
    for _ in range(failures):
        with pytest.raises(fitstep.StepFailed, match="out of bounds") as raised:
            step(ours.x, ours.y + 99)
        assert raised.value.unusable == ()
    found = ours.train(step, 2)
    step.close()
    plain = mlp()
    plain.train(plain.step, 2)
    assert differences(found, plain.train(plain.step, 2)) == []


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
