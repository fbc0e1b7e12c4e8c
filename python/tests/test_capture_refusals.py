"""What a recording cannot follow is refused in words, and nothing is changed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fitstep.errors import CaptureError
from torch import nn

import fitstep


def refused(step: Callable[..., Any], example: tuple[Any, ...]) -> str:
    with pytest.raises(CaptureError) as raised:
        fitstep.compile(step, example=example, budget="300%")
    assert raised.value.todo
    return str(raised.value)


def test_what_changes_memory_is_refused_where_it_is_called() -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach().clone().resize_(3)

    before = [p.clone() for p in model.parameters()]
    message = refused(step, (torch.randn(6, 8), torch.randint(0, 5, (6,))))
    assert "changes which memory" in message
    assert f"{__file__}:" in message
    assert "instead of set_() or resize_()" in message
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())


class Counting(nn.Module):
    """Counts its calls, and keeps what it computed last."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 5)
        self.calls = 0
        self.last: torch.Tensor | None = None
        self.counts, self.keeps = False, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits; others at the first call than later, if it keeps them."""
        logits = self.inner(x)
        if self.counts:
            self.calls += 1
        if self.keeps:
            logits = logits if self.last is None else logits * 2
            self.last = logits.detach()
        return logits


def trainer() -> tuple[Counting, Callable[..., torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    model = Counting()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, step, (torch.randn(6, 8), torch.randint(0, 5, (6,)))


def test_anomaly_mode_is_named() -> None:
    _, step, example = trainer()
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly():
        assert "detect_anomaly" in refused(step, example)


def test_autocast_around_a_step_is_refused_where_it_keeps_casts_of_old_weights() -> None:
    _, step, example = trainer()
    with torch.autocast("cpu", torch.bfloat16):
        step(*example)
        before = step(*example)
        assert "in the step, around the forward pass" in refused(step, example)
        with pytest.raises(CaptureError, match="cache_enabled=False"):
            fitstep.fits(step, example, "90%")
        after = step(*example)
    with torch.autocast("cpu", torch.bfloat16):
        fresh = step(*example)
    assert torch.equal(before, after)  # Of the same casts, although the weights have changed.
    assert not torch.equal(after, fresh)
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        compiled = fitstep.compile(step, example=example, budget="300%")
        compiled(*example)
        compiled.check()
        compiled.close()


def test_calls_in_autocast_that_keeps_casts_have_plain_bits_and_are_not_checked_there() -> None:
    losses = []
    for is_compiled in (False, True):
        _, step, example = trainer()
        if is_compiled:
            step = compiled = fitstep.compile(step, example=example, budget="300%")
        with torch.autocast("cpu", torch.bfloat16):
            losses.append([step(*example).item() for _ in range(4)])
            if is_compiled:
                with pytest.raises(CaptureError, match="autocast is on around the step"):
                    compiled.check()
    assert losses[0] == losses[1]


def _nll_of_normal(z: torch.Tensor) -> torch.Tensor:
    return -torch.distributions.Normal(z, 1.0).log_prob(torch.zeros(4, 8)).mean()


def _gaussian_nll(z: torch.Tensor) -> torch.Tensor:
    return F.gaussian_nll_loss(z, torch.zeros(4, 8), z.exp())


def _ctc(z: torch.Tensor) -> torch.Tensor:
    targets = torch.ones(1, 2, dtype=torch.long)
    lengths = torch.tensor([4]), torch.tensor([2])
    return F.ctc_loss(z[:, None].log_softmax(-1), targets, *lengths)


def _packed(z: torch.Tensor) -> torch.Tensor:
    packed = nn.utils.rnn.pack_padded_sequence(z[None], torch.tensor([4]), batch_first=True)
    return packed.data.sum()


def test_what_stops_a_recording_at_its_begin_is_what_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With torch 2.12 a function to patch was missing, and putting back hid which one."""
    model = nn.Linear(8, 5)

    def step(x: torch.Tensor) -> torch.Tensor:
        model.zero_grad()
        loss = model(x).sum()
        loss.backward()
        return loss.detach()

    def put(_: Any) -> None:
        raise AttributeError("no such function")

    with monkeypatch.context() as patched, pytest.raises(AttributeError) as raised:
        patched.setattr("fitstep.follow.patches.Patches.put", put)
        fitstep.compile(step, example=(torch.randn(6, 8),), budget="300%")
    assert str(raised.value) == "no such function"
    compiled = fitstep.compile(step, example=(torch.randn(6, 8),), budget="300%")
    assert compiled(torch.ones(6, 8)).item() == step(torch.ones(6, 8)).item()
