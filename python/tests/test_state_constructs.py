"""Constructs of real training loops, and failures at awkward moments."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fitstep.errors import CaptureError
from fitstep.state import Snapshot, discover, make_guards
from fitstep.state.forms import ListForm
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).parent))

from state_models import Mlp, bits, facts, record

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda ps: torch.optim.SGD(ps, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda ps: torch.optim.Adam(ps, amsgrad=True),
    "fused": lambda ps: torch.optim.AdamW(ps, fused=True),
    "foreach": lambda ps: torch.optim.AdamW(ps, foreach=True),
    "tensor_lr": lambda ps: torch.optim.Adam(ps, lr=torch.tensor(0.01)),
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
    "adamax": torch.optim.Adamax,
    "asgd": torch.optim.ASGD,
}


def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., torch.Tensor]:
    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("warm", [0, 1])
def test_every_optimizer_is_put_back_and_its_new_state_is_bound(name: str, warm: int) -> None:
    torch.manual_seed(0)
    model = Mlp()
    twin = copy.deepcopy(model)
    optimizer, other = (OPTIMIZERS[name](m.parameters()) for m in (model, twin))
    step, twin_step = loop(model, optimizer), loop(twin, other)
    x = torch.randn(5, 8)
    if name == "asgd" and not warm:
        pytest.skip("reads back 0-dim tensors that it makes, which the recorder has to follow")
    for _ in range(warm):
        step(x)
        twin_step(x)
    is_first = not optimizer.state  # Adagrad makes its state at once.
    before = facts(model, optimizer)
    rebindings, swap = record(step, x)
    assert facts(model, optimizer) == before
    # What binding the results of a first run gives: the same state as the first step of the twin.
    # A result takes the twin's value; an entry that the recording bound is found by its path.
    twin_step(x)
    if is_first:
        results = {f: _twin_of(p, twin, other) for r in rebindings for p, f in r.tensors}
        swap.apply(rebindings, results)
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            assert _entries(optimizer.state[p]) == _entries(other.state[q])


def _twin_of(path: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """The tensor at "closure.optimizer.state[closure.model.layers[0].weight]['step']"."""
    names = {"closure.model." + _bracketed(n): p for n, p in model.named_parameters()}
    if path.endswith(".grad"):
        grad = names[path.removesuffix(".grad")].grad
        assert grad is not None
        return grad
    inner = path.removeprefix("closure.optimizer.state[")
    name, _, key = inner.partition("]['")
    value = optimizer.state[names[name]][key.removesuffix("']")]
    assert isinstance(value, torch.Tensor)
    return value.clone()


def _bracketed(name: str) -> str:
    layers, index, rest = name.split(".")
    return f"{layers}[{index}].{rest}"


def _entries(state: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(k, bits(v) if isinstance(v, torch.Tensor) else v) for k, v in state.items()]


def test_averaged_model_reads_its_counter() -> None:
    model = Mlp()
    average = AveragedModel(model)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).sum()
        average.update_parameters(model)
        return loss

    before = facts(model, average)
    _, swap = record(step, torch.ones(2, 8))
    assert facts(model, average) == before
    assert not swap.externals
    average.update_parameters(model)
    record(step, torch.ones(2, 8))
    assert average.n_averaged == 1


def test_checkpoint_in_the_model() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = checkpoint(model, x, use_reentrant=False).sum()
        loss.backward()
        return loss.detach()

    before = facts(model)
    rebindings, _ = record(step, torch.ones(2, 4), look=lambda swap: swap.final())
    assert facts(model) == before
    assert {r.role for r in rebindings} == {"grad"}


def test_generator_and_discriminator_toggle_requires_grad() -> None:
    net, critic = nn.Linear(3, 3), nn.Linear(3, 1)

    def step(x: torch.Tensor) -> torch.Tensor:
        for p in critic.parameters():
            p.requires_grad_(False)
        critic(net(x)).sum().backward()
        for p in critic.parameters():
            p.requires_grad_(True)
        return critic(net(x).detach()).sum()

    rebindings, _ = record(step, torch.ones(2, 3))
    assert {r.path.rpartition(".")[0] for r in rebindings} == {
        "closure.net.weight",
        "closure.net.bias",
    }


def test_autocast_around_the_call() -> None:
    model = Mlp()
    with torch.autocast("cpu", torch.bfloat16):
        first = model(torch.ones(2, 8))
        record(lambda x: model(x), torch.ones(2, 8))
        assert bits(model(torch.ones(2, 8)).float()) == bits(first.float())


def test_a_flag_that_the_first_call_sets() -> None:
    class Settles(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kind: str | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.kind is None:
                self.kind = "regression"
            return x * 2

    model = Settles()

    def step(x: torch.Tensor) -> torch.Tensor:
        return model(x)

    snapshot = Snapshot.take(discover(step))
    guards = make_guards(snapshot, {Settles.forward.__code__, step.__code__})
    changes, _ = record(step, torch.ones(1), look=lambda swap: snapshot.changes())
    assert [c.path for c in changes] == ["closure.model.kind"]
    assert model.kind is None
    snapshot.apply(changes)
    assert model.kind == "regression"
    with pytest.raises(Exception, match=r"closure\.model\.kind was None"):
        guards.check()
    guards.expect(changes)
    guards.check()


def test_a_tensor_that_cannot_be_swapped() -> None:
    model = Mlp()
    model.adjacency = torch.eye(3).to_sparse_csr().to_sparse_bsr((1, 1))
    before = [id(p) for p in model.parameters()]
    with pytest.raises(CaptureError, match=r"stand-in for closure\.model\.adjacency"):
        record(lambda x: model(x), torch.ones(2, 8))
    assert [id(p) for p in model.parameters()] == before
    assert model.adjacency.layout == torch.sparse_bsr


def test_interrupt_while_putting_back(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [torch.ones(2)]
    original, restore = held[0], ListForm.restore
    pressed: list[int] = []

    def interrupted(self: Any, container: Any, saved: Any) -> None:
        restore(self, container, saved)
        if container is held and saved[0][1] is original and not pressed:
            pressed.append(1)
            held[0] = torch.zeros(1)
            raise KeyboardInterrupt

    monkeypatch.setattr(ListForm, "restore", interrupted)
    with pytest.raises(KeyboardInterrupt):
        record(lambda x: x + held[0], torch.ones(2))
    assert held[0] is original


def test_two_recordings_are_alike() -> None:
    """The second finds nothing of the first: no gradient, no state, no constant."""
    model = Mlp()
    step = loop(model, torch.optim.Adam(model.parameters()))
    x = torch.randn(5, 8)
    first, second = ([r.path for r in record(step, x)[0]] for _ in range(2))
    assert first == second
    assert len(first) == 8  # Four parameters: a gradient and an entry of state for each.


def test_data_beside_the_model_is_not_walked_through() -> None:
    rows = [{"text": str(i), "label": i} for i in range(20_000)]
    rows.append(torch.ones(1))  # type: ignore[arg-type]
    reach = discover(lambda: rows)
    assert len(reach.nodes) < 10
    assert [place.path for place in reach.tensors] == ["closure.rows[20000]"]
