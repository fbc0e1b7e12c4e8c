"""Audits: a program that makes other bits than plain PyTorch is found before they are used.

What is wrong here is wrong on purpose: a part of fitstep is switched off, and the audit has to see
what comes of that. With nothing switched off no audit may see anything.
"""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fitstep.steps import calls
from fitstep.steps.audits import Truth
from fitstep_kit.subjects.cases import CASES
from fitstep_kit.subjects.equal_bits import train_fitstep, train_plain
from torch import Tensor, nn

import fitstep
from fitstep import _core

STEPS = 6


class Training:
    """A small model, its optimizer and the step."""

    def __init__(self, optimizer: str = "AdamW", *, drops: bool = False) -> None:
        torch.manual_seed(5)
        self.model = nn.Sequential(
            nn.Linear(12, 24), nn.GELU(), nn.BatchNorm1d(24), nn.Dropout(0.1 if drops else 0.0),
            nn.Linear(24, 5),
        )  # fmt: skip
        kinds: Any = getattr(torch.optim, optimizer)
        self.optimizer = kinds(self.model.parameters(), lr=0.01)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """One training step."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def bits(self) -> list[bytes]:
        """Of what it has learnt."""
        return [t.numpy().tobytes() for t in self.model.state_dict().values()]


def batches(count: int = STEPS) -> list[tuple[Tensor, Tensor]]:
    """Others in each step."""
    made = torch.Generator().manual_seed(1)
    return [
        (torch.randn(8, 12, generator=made), torch.randint(0, 5, (8,), generator=made))
        for _ in range(count)
    ]


def compiled(training: Training, audits: str = "auto") -> Any:
    """Its step."""
    return fitstep.compile(
        training.step, batches(1)[0], "100%", audits=audits, effort=1, progress=False
    )


@pytest.mark.parametrize("kind", ["auto", "all", "off"])
def test_audited_calls_have_the_bits_of_plain_pytorch(kind: str) -> None:
    plain, ours = Training(drops=True), Training(drops=True)
    step = compiled(ours, kind)
    torch.manual_seed(2)
    expected = [plain.step(*batch) for batch in batches()]
    torch.manual_seed(2)
    assert [step(*batch) for batch in batches()] == expected
    assert ours.bits() == plain.bits()
    report = step.report()
    assert report.audited_calls == {"auto": 3, "all": STEPS, "off": 0}[kind]
    assert ("audits" in str(report)) == (kind != "off")


@pytest.mark.parametrize(
    "case", ["lstm", "gpt", "resnet18", "dcgan", "micro_across", "clip", "autocast_gpt", "ema"]
)
def test_no_audit_of_a_whole_training_finds_anything(case: str) -> None:
    assert case in CASES
    plain, ours = train_plain(case), train_fitstep(case, "200%", audits="all")
    assert plain.losses == ours.losses
    assert plain.bits == ours.bits


def test_calls_are_audited_at_first_then_ever_more_rarely_and_behind_new_programs() -> None:
    training = Training()
    step = compiled(training)
    audited = []
    for i, (x, y) in enumerate(batches(32)):
        before = step.audits.audited_calls
        step(x[:4], y[:4]) if i == 14 else step(x, y)
        audited += [i + 1] * (step.audits.audited_calls - before)
    assert audited == [1, 2, 3, 16, 30]


def test_a_program_made_anew_for_a_number_is_audited_in_the_next_call() -> None:
    """Their count is the same: one takes the place of another."""
    training, scale = Training("SGD"), [1.5]

    def scaled(x: Tensor, y: Tensor) -> Tensor:
        return training.step(x * scale[0], y)

    step = fitstep.compile(scaled, batches(1)[0], audits="auto", progress=False)
    audited, counts = [], []
    for i, batch in enumerate(batches(7)):
        scale[0] = 1.5 if i < 4 else 2.5
        before = step.audits.audited_calls
        step(*batch)
        audited += [i + 1] * (step.audits.audited_calls - before)
        counts.append(len(step.variants))
    assert audited == [1, 2, 3, 6]
    assert counts[3] == counts[-1]
    assert step.report().audit_s > 0


class Forgetful:
    """A variant whose numbers do not change."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def set_numbers(self, _changed: Any) -> None:
        """Forgets them."""


class Careless(Forgetful):
    """A variant that changes an element of a home behind the run."""

    home: Tensor

    def set_numbers(self, changed: Any) -> None:
        """As always."""
        self._real.set_numbers(changed)

    def run(self, *args: Any) -> Any:
        """One element is another one afterwards."""
        failure = self._real.run(*args)
        self.home.detach().view(-1).view(torch.uint8)[5] += 1
        return failure


def test_numbers_that_do_not_reach_the_program_are_found() -> None:
    """AdamW's first steps have other numbers: the second is the first that shows it."""
    training, plain = Training(), Training()
    step = compiled(training)
    for one in step.variants:
        one.planned.variant = Forgetful(one.planned.variant)
    data = batches()
    done = 0
    with pytest.raises(fitstep.AuditError, match="other bits than plain PyTorch") as caught:
        for batch in data:
            step(*batch)
            done += 1
    assert 1 <= done <= 2
    assert "train with plain PyTorch" in str(caught.value)
    for batch in data[: done + 1]:
        plain.step(*batch)
    assert training.bits() == plain.bits(), "all is as plain PyTorch has left it"


def test_a_byte_of_a_weight_that_is_another_one_is_found_and_named() -> None:
    training, plain = Training("SGD"), Training("SGD")
    step = compiled(training)
    weight = training.model[0].weight
    for one in step.variants:
        one.planned.variant = Careless(one.planned.variant)
        one.planned.variant.home = weight
    with pytest.raises(fitstep.AuditError, match=r"model\[0\]\.weight"):
        step(*batches()[0])
    plain.step(*batches()[0])
    assert training.bits() == plain.bits()


def test_a_fault_is_told_where_the_step_raises_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's code may catch its own error, and later steps would have other numbers."""
    training, plain = Training("SGD"), Training("SGD")
    raises = False

    def train_step(x: Tensor, y: Tensor) -> Tensor:
        loss = training.step(x, y)
        if raises:
            raise ValueError("of the user")
        return loss

    step = fitstep.compile(train_step, batches(1)[0], audits="auto", effort=1, progress=False)
    execute = calls.Call._execute

    def careless(*args: Any) -> None:
        execute(*args)
        training.model[0].weight.detach().view(-1).view(torch.uint8)[5] += 1

    monkeypatch.setattr(calls.Call, "_execute", careless)
    raises = True
    with pytest.raises(fitstep.AuditError, match=r"model\[0\]\.weight") as found:
        step(*batches()[0])
    assert isinstance(found.value.__context__, ValueError)
    plain.step(*batches()[0])
    assert training.bits() == plain.bits()


class Counting(Training):
    """Counts its labels, and goes on where one is out of range; the kernel has added some then."""

    def __init__(self, kind: str) -> None:
        super().__init__("AdamW")
        self.kind = kind
        self.counts = torch.zeros(6)
        self.kept: list[Tensor] = []

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """One training step."""
        counts = torch.zeros(6) if self.kind == "made here" else self.counts
        if self.kind == "written before":
            counts.mul_(0.5)
        weights = counts + 1.0 if self.kind == "read before" else torch.ones(6)
        try:
            counts.index_add_(0, y, torch.ones(len(y)))
        except IndexError:
            self.kept.append(weights)
        self.kept.append(counts.clone() if self.kind == "made here" else weights)
        return super().step(x, y.clamp(max=4)) * weights.sum()


@pytest.mark.parametrize("bad", [0, 1])
@pytest.mark.parametrize("kind", ["read before", "written before", "made here"])
def test_half_of_a_write_is_no_fault_of_the_program(kind: str, bad: int) -> None:
    """Also where the call makes the optimizer's state."""
    plain, ours = Counting(kind), Counting(kind)
    step = compiled(ours)
    for i, (x, y) in enumerate(batches(3)):
        labels = torch.cat([y[:2], torch.tensor([77]), y[3:]]) if i == bad else y
        assert torch.equal(step(x, labels), plain.step(x, labels))
        assert ours.bits() == plain.bits()
        assert torch.equal(ours.counts, plain.counts)
        assert all(torch.equal(a, b) for a, b in zip(ours.kept, plain.kept, strict=True))
    assert step.report().audited_calls == 2


def test_without_audits_the_same_fault_goes_on_silently() -> None:
    """Or the tests above would show nothing."""
    training, plain = Training(), Training()
    step = compiled(training, "off")
    for one in step.variants:
        one.planned.variant = Forgetful(one.planned.variant)
    for batch in batches():
        step(*batch)
        plain.step(*batch)
    assert training.bits() != plain.bits()


def test_draws_are_made_once() -> None:
    """The truth has drawn; the program draws the same again, from the same state."""
    training = Training(drops=True)
    step = compiled(training, "all")
    torch.manual_seed(7)
    step(*batches()[0])
    state = torch.get_rng_state()
    plain = Training(drops=True)
    torch.manual_seed(7)
    plain.step(*batches()[0])
    assert torch.equal(state, torch.get_rng_state())


def test_a_program_that_fails_in_an_audit_leaves_everything_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    training = Training("SGD", drops=True)
    step = compiled(training)
    before, state = training.bits(), torch.get_rng_state()
    monkeypatch.setattr(
        calls, "step_failed", lambda *_: fitstep.StepFailed("stopped", unusable=[], todo="")
    )

    class Failing(Forgetful):
        def run(self, *args: Any) -> Any:
            self._real.run(*args)
            return "stopped", []

    for one in step.variants:
        one.planned.variant = Failing(one.planned.variant)
    with pytest.raises(fitstep.StepFailed):
        step(*batches()[0])
    assert training.bits() == before
    assert torch.equal(torch.get_rng_state(), state)


def test_a_call_whose_plain_memory_is_not_free_is_not_audited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = compiled(Training())
    monkeypatch.setattr(_core, "free_memory_bytes", lambda: 1000)
    step(*batches()[0])
    report = step.report()
    assert report.audited_calls == 0
    assert "1000 B" in report.audit_left_out
    assert "left out" in str(report)


def test_the_truth_comes_back_byte_for_byte() -> None:
    target = torch.zeros(8)
    start = _core.PartCopy(target)
    start.add(target[2:])
    target.copy_(torch.arange(8.0))
    truth = Truth([target], [start], [])
    truth.to_start()
    assert not target[2:].any()
    truth.to_end()
    assert torch.equal(target, torch.arange(8.0))


def test_the_environment_says_what_none_means(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, kind in (("off", "off"), ("all", "all"), (None, "auto")):
        if value is None:
            monkeypatch.delenv("FITSTEP_AUDITS")
        else:
            monkeypatch.setenv("FITSTEP_AUDITS", value)
        assert fitstep.compile(Training().step, batches(1)[0], progress=False).audits.wanted == kind
    monkeypatch.setenv("FITSTEP_AUDITS", "never")
    with pytest.raises(fitstep.SettingError):
        fitstep.compile(Training().step, batches(1)[0], progress=False)


def test_what_cannot_be_planned_in_an_audit_has_not_happened() -> None:
    """Plain PyTorch has been further by then."""
    training = Training()
    x, y = batches(1)[0]
    step = fitstep.compile(training.step, (x, y), "2MiB", audits="all", progress=False)
    step(x, y)
    before = training.bits()
    with pytest.raises(fitstep.BudgetTooSmall):
        step(x.repeat(4000, 1), y.repeat(4000))
    assert training.bits() == before
    plain = Training()
    for _ in range(2):
        plain.step(x, y)
    step(x, y)
    assert training.bits() == plain.bits()


def test_another_word_for_audits_is_refused() -> None:
    with pytest.raises(fitstep.SettingError, match='"auto", "all", "off"'):
        fitstep.compile(Training().step, batches(1)[0], audits="never")


def test_bytes_that_nobody_filled_are_not_compared() -> None:
    torch.manual_seed(0)
    model = nn.Linear(12, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        padded = x.new_empty(64, 12)
        padded[: len(x)] = x
        out = model(padded)
        loss = F.cross_entropy(out[: len(x)], y)
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        return loss.detach(), out.detach()

    junk = [torch.full((64, 12), float("nan")) for _ in range(20)]
    del junk
    x, y = batches(1)[0]
    made = fitstep.compile(step, (x, y), "100%", audits="all", effort=1, progress=False)
    for _ in range(3):
        assert made(x, y)[0].isfinite()
    assert made.report().audited_calls == 3
    made.close()
