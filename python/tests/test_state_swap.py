"""Swapping tensors for fakes leaves no trace, and knows what a recording bound anew."""

from __future__ import annotations

import functools
import sys
from collections import deque
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from fitstep.errors import CaptureError
from fitstep.state import Rebinding, discover
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))

from state_models import Case, bits, facts, record, same_training

MODELS = ["mlp", "conv", "gpt", "lstm", "normed"]


def by_path(rebindings: list[Rebinding]) -> dict[str, Rebinding]:
    return {rebinding.path: rebinding for rebinding in rebindings}


@pytest.mark.parametrize("throw", [None, "forward", "backward", "step"])
@pytest.mark.parametrize("warm", [0, 2])
@pytest.mark.parametrize("name", MODELS)
def test_training_goes_on_as_if_never_recorded(name: str, warm: int, throw: str | None) -> None:
    case, untouched = Case(name), Case(name)
    case.train(warm)
    untouched.train(warm)
    case.throw = throw
    roots = (case.model, case.optimizer, case.scheduler, case.ema, case.history)
    before = facts(*roots)
    if throw is None:
        record(case.step, case.x, case.y)
    else:
        with pytest.raises((RuntimeError, KeyboardInterrupt)):
            record(case.step, case.x, case.y)
    assert facts(*roots) == before
    case.throw = None
    assert same_training(case, untouched)


def test_the_swap_really_records_on_fakes() -> None:
    """Without this, the test above would pass with a swap that does nothing at all."""
    case = Case("mlp")

    def look(swap: Any) -> tuple[bool, int]:
        fakes = [type(p).__name__ for p in case.model.parameters()]
        return all(name in ("FakeTensor", "Parameter") for name in fakes), case.model.calls

    (_, calls), swap = record(case.step, case.x, case.y, look=look)
    assert calls == 1
    assert case.model.calls == 0
    weight = case.model.layers[0].weight
    fake = swap.fake(weight)
    assert fake is not weight
    assert isinstance(fake, nn.Parameter)
    assert swap.real(fake) is weight
    assert not swap.externals


def test_ties_views_and_aliases_are_kept() -> None:
    case = Case("gpt")
    weight = case.model.embed.weight
    alias = weight.detach()
    holder = [alias, alias[2:4]]

    def step(x: torch.Tensor) -> torch.Tensor:
        assert case.model.head.weight is case.model.embed.weight
        return case.model(x).sum() + holder[0].sum() + holder[1].sum()

    _, swap = record(step, case.x)
    storages = {swap.fake(t).untyped_storage()._cdata for t in (weight, *holder)}
    assert len(storages) == 1
    view = swap.real(swap.fake(weight)[1:3].detach())
    assert view is not None
    assert view.data_ptr() == weight[1:3].data_ptr()


def test_first_step_creates_optimizer_state() -> None:
    case = Case("mlp", "Adam")
    rebindings, swap = record(case.step, case.x, case.y)
    weight = case.model.layers[0].weight
    found = [r for r in rebindings if r.container is case.optimizer.state and r.key is weight]
    assert len(found) == 1
    assert found[0].kind == "new"
    assert found[0].role == "optimizer_state"
    assert sorted(path.rpartition("[")[2] for path, _ in found[0].tensors) == [
        "'exp_avg']",
        "'exp_avg_sq']",
        "'step']",
    ]
    results = {fake: torch.full(fake.shape, 3.0) for r in rebindings for _, fake in r.tensors}
    assert not case.optimizer.state
    swap.apply(rebindings, results)
    state = case.optimizer.state[weight]
    assert list(state) == ["step", "exp_avg", "exp_avg_sq"]
    assert type(state["exp_avg"]) is torch.Tensor
    assert state["exp_avg"].shape == weight.shape
    assert weight.grad is not None and weight.grad[0, 0] == 3.0
    assert len(case.history) == 1


def test_numbers_beside_new_state_are_bound_too() -> None:
    case = Case("mlp", "SGD")
    rebindings, swap = record(case.step, case.x, case.y)
    results = {fake: torch.zeros(fake.shape) for r in rebindings for _, fake in r.tensors}
    swap.apply(rebindings, results)
    plain = Case("mlp", "SGD")
    plain.train(1)
    assert [list(s) for s in case.optimizer.state.values()] == [
        list(s) for s in plain.optimizer.state.values()
    ]


def test_steady_step_binds_gradients_only() -> None:
    case = Case("mlp")
    case.train(2)
    rebindings, _ = record(case.step, case.x, case.y)
    assert {r.role for r in rebindings if r.container is not case.history} == {"grad"}
    assert all(r.kind == "rebound" for r in rebindings if r.role == "grad")


def test_rebound_buffer_attribute_and_tuple() -> None:
    case = Case("normed")
    rebindings = by_path(record(case.step, case.x, case.y)[0])
    mean = next(r for path, r in rebindings.items() if path.endswith("model.mean"))
    assert (mean.kind, mean.role, mean.container) == ("rebound", "buffer", case.model._buffers)
    assert mean.before is case.model.mean
    run = next(r for path, r in rebindings.items() if path.endswith("model.run"))
    assert run.container is case.model.__dict__
    assert run.before is case.model.run


def test_every_kind_of_container_is_swapped_and_put_back() -> None:
    class Slotted:
        __slots__ = ("tensor",)

    class Static:
        tensor = torch.ones(2)

    slotted = Slotted()
    slotted.tensor = torch.ones(2)
    held: dict[str, Any] = {
        "list": [torch.ones(2)],
        "tuple": (torch.ones(2), (torch.ones(2),)),
        "deque": deque([torch.ones(2)]),
        "set": {torch.ones(2)},
        "nested": {"a": [{"b": torch.ones(2)}]},
        "slots": slotted,
        "class": Static,
        "partial": functools.partial(torch.add, torch.ones(2), other=torch.ones(2)),
    }
    held["key"] = {torch.ones(2): "value"}

    one = torch.ones(2)

    def step(extra: torch.Tensor, default: torch.Tensor = one) -> None:
        parts = [held["list"][0], held["tuple"][0], held["tuple"][1][0], held["deque"][0]]
        parts += [*held["set"], held["nested"]["a"][0]["b"], held["slots"].tensor]
        parts += [held["class"].tensor, held["partial"](), *held["key"], default]
        for part in parts:
            part.add_(extra)

    before = facts(*held.values(), slotted.tensor, Static.tensor, step.__defaults__)
    _, swap = record(step, torch.ones(2))
    assert facts(*held.values(), slotted.tensor, Static.tensor, step.__defaults__) == before
    assert not swap.externals  # All were found beforehand.
    assert len({id(real) for real, _, _ in swap.pairs}) == 12


def test_hooks_run_on_fakes_and_reach_dicts_by_parameter() -> None:
    model = nn.Linear(3, 3)
    optimizers = {p: torch.optim.SGD([p], 0.1, momentum=0.9) for p in model.parameters()}
    seen: list[str] = []

    def update(p: torch.Tensor) -> None:
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
        p.register_hook(lambda grad: seen.append(type(grad).__name__) or grad * 2)
    model.register_forward_hook(lambda m, a, out: out * 2)

    def step(x: torch.Tensor) -> None:
        model(x).sum().backward()

    rebindings, _ = record(step, torch.ones(2, 3))
    assert seen == []  # Undone like everything else.
    states = [r for r in rebindings if r.role == "optimizer_state"]
    assert len(states) == 2
    assert all(not optimizer.state for optimizer in optimizers.values())
    step(torch.ones(2, 3))
    assert seen == ["Tensor", "Tensor"]


def test_item_works_on_optimizer_state_and_real_state_is_left_alone() -> None:
    case = Case("mlp", "Adam")
    case.train(3)
    count = case.optimizer.state[case.model.layers[0].weight]["step"]

    def look(swap: Any) -> float:
        return float(swap.fake(count).constant)

    constant, _ = record(case.step, case.x, case.y, look=look)
    assert constant == 4.0
    assert count.item() == 3.0
    with pytest.raises(Exception, match=r"item|_local_scalar_dense"):
        record(case.step, case.x, case.y, constants=False)


class Assigns(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "data":
            self.weight.data = self.weight.data * 0.9
        elif self.how == "replace":
            self.weight = nn.Parameter(self.weight.detach() * 0.9)
        elif self.how == "resize":
            self.weight.untyped_storage().resize_(64)
        else:
            self.weight.data.clamp_(0, 1)
        return self.weight * x


@pytest.mark.parametrize(
    ("how", "message"),
    [("data", "another storage"), ("replace", "replaced"), ("resize", "resized")],
)
def test_what_passes_the_dispatcher_is_an_error(how: str, message: str) -> None:
    model = Assigns(how)
    before = facts(model)
    with pytest.raises(CaptureError, match=rf"(?s)model\.weight.*{message}|{message}.*model\.weig"):
        record(lambda x: model(x), torch.ones(4))
    assert facts(model) == before


def test_in_place_through_data_is_fine() -> None:
    model = Assigns("clamp")
    assert record(lambda x: model(x), torch.ones(4))[0] == []


def test_a_parameter_on_a_hidden_path_is_an_error() -> None:
    model = nn.Linear(3, 3)
    hidden = MappingProxyType({"weight": model.weight})

    def step(x: torch.Tensor) -> torch.Tensor:
        return model(x).sum() + hidden["weight"].sum()

    with pytest.raises(CaptureError, match=r"model\.weight is also reached") as caught:
        record(step, torch.ones(2, 3))
    assert caught.value.where is not None  # The innermost frame of user code: here, the mode's.
    assert caught.value.where.endswith(" in lift")
    assert model.weight.grad is None


def test_a_plain_tensor_on_a_hidden_path_is_an_external() -> None:
    hidden = MappingProxyType({"first": torch.arange(6.0)[2:], "second": torch.arange(6.0)})

    def step(x: torch.Tensor) -> torch.Tensor:
        first = hidden["first"]
        return first.sum() + first.detach().sum() + x.sum()

    _, swap = record(step, torch.ones(1))
    assert [real.tolist() for real, _ in swap.externals] == [[2.0, 3.0, 4.0, 5.0]]


def test_flags_left_changed_are_reported() -> None:
    model = nn.Linear(3, 3)

    def step(x: torch.Tensor) -> torch.Tensor:
        model.weight.requires_grad_(False)
        model.weight.seen = x * 2
        return model(x)

    rebindings, swap = record(step, torch.ones(2, 3))
    assert model.weight.requires_grad and not hasattr(model.weight, "seen")
    kinds = {r.path.rpartition(".")[2]: r for r in rebindings}
    assert kinds["requires_grad"].value is False
    swap.apply(rebindings, {kinds["seen"].after: torch.full((2, 3), 2.0)})
    assert not model.weight.requires_grad
    assert model.weight.seen[0, 0] == 2.0


def test_entries_that_trade_places() -> None:
    ring = deque([torch.zeros(1), torch.ones(1)])

    def step(x: torch.Tensor) -> None:
        ring.append(ring.popleft())
        ring[0].add_(x)

    first, second = ring
    rebindings, swap = record(step, torch.ones(1))
    assert list(map(id, ring)) == [id(first), id(second)]
    swap.apply(rebindings, {})
    assert list(map(id, ring)) == [id(second), id(first)]


def test_caches_do_not_keep_fakes() -> None:
    @functools.lru_cache
    def mask(size: int) -> torch.Tensor:
        return torch.ones(size)

    record(lambda x: x * mask(3), torch.ones(3))
    assert bits(mask(3)) == bits(torch.ones(3))


def test_generators_within_reach_are_put_back() -> None:
    generator = torch.Generator().manual_seed(3)
    state = generator.get_state()

    def step(x: torch.Tensor) -> torch.Tensor:
        generator.manual_seed(9)
        return x + torch.rand(2, generator=generator)

    drawn, _ = record(step, torch.ones(2), look=lambda swap: swap.drawn())
    assert drawn == ["closure.generator"]
    assert torch.equal(generator.get_state(), state)


def test_discover_names_what_a_user_would_write() -> None:
    case = Case("mlp")
    case.train(1)
    model, optimizer, scheduler = case.model, case.optimizer, case.scheduler

    def step() -> Any:
        return model, optimizer, scheduler

    reach = discover(step)
    paths = {place.path for place in reach.tensors}
    assert "closure.model.layers[0].weight" in paths
    assert "closure.optimizer.state[closure.model.layers[0].weight]['exp_avg']" in paths
    assert "closure.optimizer.param_groups[0]['params'][1]" in paths
    assert "closure.model.layers[0].weight.grad" in paths
    assert [path for path, _ in reach.modules] == ["closure.model"]
    assert [path for path, _ in reach.optimizers] == ["closure.optimizer"]
    assert [path for path, _ in reach.schedulers] == ["closure.scheduler"]
    assert discover(lambda: None, model=model).name(model.layers[0].weight) == (
        "model.layers[0].weight"
    )


def test_discover_reports_obstacles() -> None:
    model = nn.DataParallel(nn.Linear(2, 2))
    scaler = torch.amp.GradScaler("cpu")

    def step() -> Any:
        return model, scaler

    reasons = {obstacle.path: obstacle.reason for obstacle in discover(step).obstacles}
    assert "DataParallel" in reasons["closure.model"]
    assert "GradScaler" in reasons["closure.scaler"]


def test_discover_never_runs_properties() -> None:
    class Touchy:
        @property
        def value(self) -> Any:
            raise AssertionError("a property was run")

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"__getattr__({name})")

    touchy = Touchy()
    discover(lambda: touchy)
