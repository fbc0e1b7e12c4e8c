"""fitstep.fits: what compile would say, without training and without a trace."""

from __future__ import annotations

import gc
import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from api_models import Job, same
from fitstep.memory.session import Session
from fitstep.steps.making import making
from torch import Tensor, nn

import fitstep
from fitstep import _core


class Deep:
    """A chain whose activations need most, so that less than the plain peak is enough."""

    def __init__(self) -> None:
        torch.manual_seed(5)
        layers = [part for _ in range(6) for part in (nn.Linear(32, 32), nn.GELU())]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda i: 0.9**i)
        self.calls = 0
        self.x = torch.randn(256, 32)

    def step(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean() + torch.rand(()) * 0
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss


def test_fits_says_what_compile_does_above_and_below_the_least_budget() -> None:
    job = Deep()
    found = fitstep.fits(job.step, job.x, 0.5, effort=1)
    assert found and found.fits
    assert found.floor_bytes <= (found.least_found_bytes or 0) <= found.budget_bytes
    assert found.predicted_s is not None and found.predicted_s > 0
    least = found.least_found_bytes or 0
    at_least = fitstep.fits(job.step, job.x, least, effort=1)
    assert at_least
    below = fitstep.fits(job.step, job.x, found.floor_bytes - 1, effort=1)
    assert not below
    assert (below.predicted_s, below.recomputed_ops) == (None, None)
    assert (below.floor_bytes, below.least_found_bytes) == (found.floor_bytes, least)
    with pytest.raises(fitstep.BudgetTooSmall) as refused:
        fitstep.compile(job.step, job.x, budget=found.floor_bytes - 1, effort=1)
    assert refused.value.floor_bytes == below.floor_bytes
    assert refused.value.least_found_bytes == least
    assert refused.value.culprits == below.culprits
    fitstep.compile(job.step, job.x, budget=least, effort=1).close()


def test_the_text_names_the_budgets_and_the_ops_that_need_most() -> None:
    job = Deep()
    text = str(fitstep.fits(job.step, job.x, 4096, effort=1))
    assert "does not fit in 4.00 KiB" in text
    assert "smallest budget with a plan" in text
    assert "test_fits.py" in text
    assert "nothing was changed" in text
    assert "fits in" in str(fitstep.fits(job.step, job.x, 0.5, effort=1))


def hollow_tensors() -> set[int]:
    """Ids of tensors that stand for those of a preview."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if type(one) is Tensor and _core.has_storage(one)]
    return {id(tensor) for tensor in tensors if _core.is_hollow(tensor)}


def test_fits_changes_nothing_and_holds_nothing() -> None:
    of_other_tests = hollow_tensors()  # Kept by what these have raised.
    job = Deep()
    params = [p.detach().clone() for p in job.model.parameters()]
    rng, rates = torch.get_rng_state(), job.scheduler.get_last_lr()
    addresses = [p.data_ptr() for p in job.model.parameters()]
    for budget in (0.5, 4096):
        fitstep.fits(job.step, job.x, budget, effort=1)
    assert all(map(torch.equal, params, job.model.parameters()))
    assert addresses == [p.data_ptr() for p in job.model.parameters()]
    assert not job.optimizer.state
    assert all(p.grad is None for p in job.model.parameters())
    assert torch.equal(torch.get_rng_state(), rng)
    assert job.calls == 0
    assert job.scheduler.get_last_lr() == rates and job.scheduler.last_epoch == 0
    assert hollow_tensors() <= of_other_tests


def test_times_are_of_all_programs_that_a_steady_step_runs() -> None:
    job = Deep()
    seen: list[float] = []

    def step(x: Tensor) -> None:
        job.optimizer.zero_grad()
        loss = job.model(x).square().mean()
        loss.backward()
        seen.append(loss.item())
        job.optimizer.step()

    whole = fitstep.fits(job.step, job.x, 0.6, effort=1)  # Asks for no value.
    found = fitstep.fits(step, job.x, 0.6, effort=1)
    curve = fitstep.curve(step, job.x, effort=1)
    compiled = fitstep.compile(step, job.x, budget=0.6, effort=1)
    for _ in range(3):
        compiled(job.x)
    parts = [one for one in compiled.report().variants if one.label.startswith("steady step")]
    assert len(parts) > 1
    predicted_s = sum(one.predicted_s for one in parts)
    assert found.predicted_s == pytest.approx(predicted_s, rel=1e-6)
    assert found.recomputed_ops == sum(one.recomputed_ops for one in parts) > 0
    assert max(one.predicted_s for one in parts) < found.predicted_s
    assert curve.bound_s <= curve.points[0].predicted_s <= predicted_s
    state_bytes = 2 * sum(p.nbytes for p in job.model.parameters())  # Of AdamW, in all programs.
    assert curve.plain_peak_bytes == found.plain_peak_bytes
    assert found.plain_peak_bytes >= whole.plain_peak_bytes - 4096 > state_bytes
    assert curve.points[-1].recomputed_ops > 0
    twice = job.x.repeat(2, 1)
    larger = fitstep.fits(step, twice, "4MiB", effort=1).plain_peak_bytes
    compiled.close()
    compiled = fitstep.compile(step, job.x, budget="4MiB", effort=1)
    compiled(twice)  # Its programs come one by one.
    assert compiled.report().plain_peak_bytes == larger


def test_operators_measured_in_little_room_repeat_their_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FITSTEP_CACHE", str(tmp_path))
    model = nn.Sequential(
        *(part for i in (3, 16, 16) for part in (nn.Conv2d(i, 16, 3, padding=1), nn.ReLU())),
        *(nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    x = torch.randn(64, 3, 32, 32)
    # With so little room, a result of ReLU and its argument have no place side by side.
    assert not fitstep.fits(step, x, 0.4)
    assert fitstep.compile(step, x, budget=0.75).unrepeatable == []


def test_training_after_fits_has_plain_pytorchs_bits() -> None:
    job, plain = Job(), Job()
    torch.manual_seed(4)
    for _ in range(2):
        plain.step(plain.x, plain.y)
    torch.manual_seed(4)
    fitstep.fits(job.step, (job.x, job.y), "2MiB", effort=1)
    step = fitstep.compile(job.step, (job.x, job.y), budget="2MiB", effort=1)
    for _ in range(2):
        assert fitstep.fits(job.step, (job.x, job.y), "2MiB", effort=1)  # Beside an open arena.
        step(job.x, job.y)
    step.close()
    assert same(job.state(), plain.state())


def test_a_compiled_or_decorated_step_stands_for_its_function() -> None:
    job = Job()
    step = fitstep.compile(job.step, budget="2MiB", effort=1)
    assert fitstep.fits(step, (job.x, job.y), "2MiB", effort=1)
    assert "first call" in repr(step)
    assert fitstep.curve(step, (job.x, job.y), effort=1).points


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"budget": "lots"}, fitstep.BudgetError),
        ({"budget": {0: "1GiB"}}, fitstep.BudgetError),
        ({"budget": "1GiB", "policy": "best"}, fitstep.SettingError),
        ({"budget": "1GiB", "disk_dir": "/nowhere"}, fitstep.SettingError),
        ({"budget": "1GiB", "seconds": 3}, TypeError),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    job = Job()
    with pytest.raises(error):
        fitstep.fits(job.step, (job.x, job.y), **options)


def test_an_operator_larger_than_the_free_memory_is_never_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Deep()  # Its linear layers read 36 KiB, and its activations 32 KiB.
    monkeypatch.setattr(_core, "free_memory_bytes", lambda: 20_000)
    monkeypatch.setattr(Session, "lower", lambda *_: pytest.fail("operators were measured"))
    refused = fitstep.fits(job.step, job.x, 30_000, effort=1)
    assert not refused
    assert refused.budget_bytes == 30_000 < refused.floor_bytes
    with pytest.raises(fitstep.BudgetTooSmall, match="nothing was changed") as found:
        fitstep.compile(job.step, job.x, 30_000, effort=1)
    assert found.value.floor_bytes == refused.floor_bytes
    for ask in (fitstep.fits, fitstep.compile):
        with pytest.raises(fitstep.FitstepError, match="memory that are free"):
            ask(job.step, job.x, "1MiB", effort=1)


@pytest.mark.parametrize("what", ["a file", "a size that data decide"])
def test_a_question_about_a_step_that_a_preview_cannot_end_is_refused(
    what: str, tmp_path: Path
) -> None:
    job = Deep()

    def step(x: Tensor) -> Tensor:
        if what == "a file":
            (tmp_path / "log.txt").write_text("x")
        loss = job.step(x)
        return loss + x[x > 0].sum() if what != "a file" else loss

    match = f"preview ends here(.|\n)*{Path(__file__).name}"
    with pytest.raises(fitstep.CaptureError, match=match):
        fitstep.fits(step, job.x, "100%", effort=1)
    assert not [*tmp_path.iterdir()] and job.calls == 0
    fitstep.compile(step, job.x, "100%", effort=1).close()


def test_an_argument_that_there_is_not_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="'efort'"):
        fitstep.fits(Deep().step, Deep().x, "1MiB", efort=1)


def test_the_defaults_of_questions_are_those_of_compile() -> None:
    ours, theirs = (inspect.signature(one).parameters for one in (making, fitstep.compile))
    assert {*theirs} - {*ours} == {"example"}
    named = [name for name, one in ours.items() if one.kind is one.KEYWORD_ONLY]
    assert len(named) > 10
    for name in named:
        assert ours[name].default == theirs[name].default, name


def test_a_step_that_raises_leaves_no_hollow_tensor() -> None:
    job, left = Job(), []

    def step(x: Tensor) -> None:
        left.append(job.model(x))
        raise ValueError("no labels")

    with pytest.raises(ValueError, match="no labels"):
        fitstep.fits(step, job.x, "2MiB", effort=1)
    assert not any(_core.is_hollow(tensor) for tensor in left)


def test_more_than_the_plain_peak_and_other_memory_count() -> None:
    job = Deep()
    alone = fitstep.fits(job.step, job.x, 1 << 30, effort=1)
    assert alone and alone.recomputed_ops == 0
    beside = fitstep.fits(job.step, job.x, 4096, host_budget="1GiB", effort=1)
    assert beside.floor_bytes < alone.floor_bytes
    kept = fitstep.fits(job.step, job.x, 1 << 30, keep_grads=True, effort=1)
    assert kept.floor_bytes >= alone.floor_bytes
