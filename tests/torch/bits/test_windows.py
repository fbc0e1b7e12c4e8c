"""Windows of tensors at places that change from call to call: one program, the same bits."""

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fitstep.steps import calls
from torch import Tensor, nn

import fitstep

CALLS = 10


class Step:
    """A random program over windows of shared tensors; where they lie is drawn in each call."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.model = nn.Linear(6, 6)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.5)
        self.kept = [torch.randn(9, 6), torch.randn(120)]
        self.plan = [(draw.randrange(8), draw.randrange(3), draw.randrange(3)) for _ in range(9)]
        self.places = random.Random(seed + 1)

    def window(self, of: Tensor) -> Tensor:
        """Three rows of six."""
        if of.dim() == 1:
            at = self.places.randrange(of.numel() - 20)
            return of[at : at + 18].view(3, 6)
        at = self.places.randrange(of.shape[0] - 2)
        return of[at : at + 3]

    def __call__(self, x: Tensor) -> Tensor:
        sources = [*self.kept, x]
        out = self.model(x.clone())
        total = out.square().mean()
        for way, a, b in self.plan:
            left, right = self.window(sources[a]), self.window(sources[b])
            if way == 0:
                total = total + self.model(left.clone() * right).mean()
            elif way == 1:
                left.copy_(right.tanh())
            elif way == 2:
                left.mul_(0.5).add_(out.detach()[:3])
            elif way == 3:
                total = total + (torch.stack([left, right]) * self.window(out)).mean()
            elif way == 4:
                sources.append(torch.cat([left, right, left]))
                self.window(sources[-1]).mul_(2.0)
            elif way == 5:
                torch.add(left.clone(), right.clone(), out=left)
            elif way == 6:
                total = total + F.linear(self.window(out), right.clone()).square().mean()
            else:
                left[self.places.randrange(3)].zero_()
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()
        return total.detach()


@pytest.mark.parametrize("seed", range(12))
def test_windows_at_drawn_places_have_the_same_bits(seed: int) -> None:
    found = []
    for is_compiled in (False, True):
        one = Step(seed)
        step: Any = one
        if is_compiled:
            step = fitstep.compile(one.__call__, (torch.ones(7, 6),), progress=False, audits="off")
        torch.manual_seed(1000 + seed)
        batches = [torch.randn(7, 6) for _ in range(CALLS)]
        results = [step(x).clone() for x in batches]
        state = [*one.model.state_dict().values(), *one.kept, *batches]
        found.append(results + [t.clone() for t in state])
        if is_compiled:
            assert len(step.variants) <= 6  # Not one for each place.
            step.close()
    for plain, ours in zip(*found, strict=True):
        assert torch.equal(plain, ours)


def programs_of(step: Any, args: tuple[Any, ...], calls: int) -> int:
    compiled = fitstep.compile(step, args, progress=False, audits="off")
    for _ in range(calls):
        compiled(*args)
    count = len(compiled.variants)
    compiled.close()
    return count


def test_a_ring_of_many_places_is_one_program() -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ring, at = torch.zeros(40, 2), [0]

    def step(x: Tensor) -> Tensor:
        out = model(x)
        ring[at[0] : at[0] + 2] = out.detach()
        at[0] = (at[0] + 2) % 40
        optimizer.zero_grad()
        loss = (out - ring.mean(0)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    assert programs_of(step, (torch.randn(2, 3),), 25) == 1
    assert ring.abs().sum(1).count_nonzero() == 40


def test_windows_of_a_large_data_set_are_measured_without_it() -> None:
    data = torch.arange(8_000_000, dtype=torch.float32).view(-1, 4)
    weight = torch.ones(4, requires_grad=True)
    places = [(i * 211_000, 1_999_990 - i * 97_000) for i in range(9)]
    rest = iter([*places, *places])

    def step() -> Tensor:
        a, b = next(rest)
        loss = (data[a : a + 3] * weight).sum() + (data[b : b + 3] * weight).square().sum()
        weight.grad = None
        loss.backward()
        return loss

    compiled = fitstep.compile(step, (), progress=False, audits="off")
    for a, b in places:
        expected = data[a : a + 3].sum() + data[b : b + 3].square().sum()
        assert torch.allclose(compiled(), expected)
    assert len(compiled.variants) <= 2
    compiled.close()


def test_a_program_that_could_not_be_made_anew_never_runs_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = torch.arange(60.0).view(20, 3)
    weight = torch.ones(3, requires_grad=True)

    def step(a: int, b: int) -> Tensor:
        weight.grad = None
        loss = (data[a : a + 2] * weight).sum() - (data[b : b + 2] * weight).square().sum()
        loss.backward()
        return loss

    compiled = fitstep.compile(step, (0, 4), progress=False, audits="off")
    compiled(0, 4)

    def refuse(*_: Any) -> None:
        raise fitstep.CaptureError("no")

    with monkeypatch.context() as patched:
        patched.setattr(calls, "lower", refuse)
        with pytest.raises(fitstep.CaptureError):
            compiled(3, 5)
    for a, b in ((9, 2), (3, 5), (0, 4)):
        expected = data[a : a + 2].sum() - data[b : b + 2].square().sum()
        assert torch.equal(compiled(a, b), expected)
    compiled.close()
