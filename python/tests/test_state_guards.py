"""Numbers that a recording read are guarded; what it did not read may change."""

from __future__ import annotations

import copy
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import pytest
import torch
from fitstep.errors import GuardError
from fitstep.state import MISSING, Guards, Snapshot, VariantFacts, discover, make_guards
from fitstep.state.rng import GeneratorStates
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))

from state_models import Case, ConvNet, Mlp, record

SCALE = 2.0
UNUSED = 1.0


def trace(function: Callable[..., Any], *args: Any) -> set[CodeType]:
    """The code that ran, as the compiled tracer reports it."""
    ran: set[CodeType] = set()

    def hook(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            ran.add(frame.f_code)

    sys.setprofile(hook)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return ran


def guards_of(step: Callable[..., Any], *args: Any, **options: Any) -> Guards:
    """Guards as capture makes them: snapshot, recording with the trace, guards."""
    snapshot = Snapshot.take(discover(step))
    return make_guards(snapshot, trace(lambda: record(step, *args)), **options)


def raises(guards: Guards) -> str:
    with pytest.raises(GuardError) as caught:
        guards.check()
    return str(caught.value)


class Annealed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.weight_of_loss = 0.5
        self.unread = 3
        self.seen = 0
        self.options = {"temperature": 1.0, "modes": ["sum", 1]}
        self.pair = (1.0, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) * self.weight_of_loss * SCALE / self.options["temperature"]
        y = y + self.pair[0]
        self.seen = 1
        return getattr(y, self.options["modes"][0])()


@pytest.fixture
def annealed() -> tuple[Annealed, Guards]:
    model = Annealed()
    return model, guards_of(lambda x: model(x), torch.ones(2, 3))


def test_unchanged_state_passes(annealed: tuple[Annealed, Guards]) -> None:
    assert annealed[1].check() == []


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("closure.model.weight_of_loss", lambda m: setattr(m, "weight_of_loss", 0.4)),
        ("closure.model.weight_of_loss", lambda m: delattr(m, "weight_of_loss")),
        ("closure.model.pair", lambda m: setattr(m, "pair", (1.0, 2.5))),
        ("closure.model.pair", lambda m: setattr(m, "pair", (1, 2))),
        ("temperature", lambda m: m.options.update(temperature=0.9)),
        ("modes'][1]", lambda m: m.options["modes"].__setitem__(1, 2)),
        ("modes']", lambda m: m.options["modes"].append(2)),
        ("closure.model.options", lambda m: setattr(m, "options", dict(m.options))),
    ],
)
def test_numbers_that_were_read_are_guarded(
    annealed: tuple[Annealed, Guards], path: str, change: Callable[[Annealed], None]
) -> None:
    change(annealed[0])
    assert path in raises(annealed[1])


def test_globals_are_guarded(
    annealed: tuple[Annealed, Guards], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "UNUSED", 5.0)
    annealed[1].check()
    monkeypatch.setitem(globals(), "SCALE", 2.5)
    message = raises(annealed[1])
    assert "SCALE was 2.0 when the step was compiled and is 2.5 now" in message
    assert "pass it to the step as an argument" in message


def test_a_global_named_like_an_attribute_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """`weight_of_loss = step(x)` in the training loop, beside `self.weight_of_loss`."""
    monkeypatch.setitem(globals(), "weight_of_loss", torch.ones(()))
    model = Annealed()
    guards = guards_of(lambda x: model(x), torch.ones(2, 3))
    monkeypatch.setitem(globals(), "weight_of_loss", torch.zeros(()))
    assert guards.check() == []


def test_numbers_that_were_not_read_may_change(annealed: tuple[Annealed, Guards]) -> None:
    annealed[0].unread = 4
    annealed[0].seen = 17  # Written by forward, never read.
    annealed[0].eval()  # Selects a variant, is no error.
    annealed[0].weight_of_loss = float("0.5")  # Another object, the same number.
    assert annealed[1].check() == []


def test_a_counter_named_like_a_method_is_not_read() -> None:
    """`optimizer.step()` does not read the number `trainer.step`."""
    case = Case("mlp")
    trainer = SimpleNamespace(step=0, case=case)
    guards = guards_of(lambda x, y: trainer.case.step(x, y), case.x, case.y)
    case.model.calls = 0
    guards.check()
    assert not [path for path in guards.paths if path.endswith("trainer.step")]


def test_closure_numbers_and_defaults() -> None:
    alpha = 0.1

    def step(x: torch.Tensor, beta: float = 0.2) -> torch.Tensor:
        return x * alpha * beta

    def anneal() -> None:
        nonlocal alpha
        alpha = alpha / 2

    guards = guards_of(step, torch.ones(1))
    step.__defaults__ = (0.3,)
    assert "default.beta was 0.2" in raises(guards)
    step.__defaults__ = (0.2,)
    guards.check()
    anneal()
    assert "closure.alpha was 0.1 when the step was compiled and is 0.05 now" in raises(guards)


def test_exempt_numbers() -> None:
    model = Annealed()
    exempt = ["closure.model.weight_of_loss"]
    guards = guards_of(lambda x: model(x), torch.ones(2, 3), exempt=exempt)
    model.weight_of_loss = 0.1
    guards.check()


def test_a_list_known_under_two_names() -> None:
    """The walk finds `weights` first as an attribute that nobody reads."""
    weights = [1.0, 2.0]

    class Holder:
        def __init__(self) -> None:
            self.aaa = weights

    holder = Holder()

    def step(x: torch.Tensor) -> torch.Tensor:
        assert holder is not None
        return x * weights[1]

    guards = guards_of(step, torch.ones(1))
    weights[1] = 3.0
    assert "was 2.0" in raises(guards)


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (
            "replaced",
            lambda m: m.layers[0].register_parameter("weight", nn.Parameter(torch.ones(16, 8))),
        ),
        ("replaced", lambda m: m.layers.__setitem__(1, nn.GELU())),
        ("entries", lambda m: m.layers.append(nn.GELU())),
        ("another storage", lambda m: setattr(m.layers[0].weight, "data", torch.ones(16, 8))),
        ("hook", lambda m: m.layers[1].register_forward_hook(lambda *a: None)),
        ("hook", lambda m: m.layers[0].weight.register_hook(lambda g: g)),
        ("replaced", lambda m: m.load_state_dict(Mlp().state_dict(), assign=True)),
    ],
)
def test_replaced_state_is_an_error(message: str, change: Callable[[Any], Any]) -> None:
    case = Case("mlp")
    case.train(1)
    guards = guards_of(case.step, case.x, case.y, exempt=lambda path: path.endswith("calls"))
    guards.accept()
    guards.check()
    change(case.model)
    assert message in raises(guards)


def test_loading_values_in_place_passes() -> None:
    case = Case("conv")
    guards = guards_of(case.step, case.x, case.y)
    case.model.load_state_dict(ConvNet().state_dict())
    case.scheduler.step()
    case.optimizer.param_groups[0]["lr"] = 0.5
    assert guards.check() == []


def test_replaced_gradient() -> None:
    case = Case("mlp")
    case.train(1)
    guards = guards_of(case.step, case.x, case.y, exempt=lambda path: path.endswith("calls"))
    weight = case.model.layers[0].weight
    grad = weight.grad
    weight.grad = torch.zeros_like(weight)
    assert "layers[0].weight.grad was replaced" in raises(guards)
    weight.grad = None
    guards.check()
    weight.grad = grad
    guards.check()


def test_loaded_optimizer_state_is_reported_for_copying() -> None:
    case = Case("mlp")
    case.train(2)
    guards = guards_of(case.step, case.x, case.y, exempt=lambda path: path.endswith("calls"))
    weight = case.model.layers[0].weight
    old = case.optimizer.state[weight]["exp_avg"]
    case.optimizer.load_state_dict(case.optimizer.state_dict())
    assert guards.check() == []  # Other dicts, the same tensors.
    case.optimizer.load_state_dict(copy.deepcopy(case.optimizer.state_dict()))
    case.optimizer.state[weight]["exp_avg"].fill_(3.0)
    found = guards.check()
    assert len(found) == 12
    mine = next(f for f in found if f.old is old)
    assert mine.path.endswith("state[closure.model.layers[0].weight]['exp_avg']")
    for replacement in found:
        replacement.old.copy_(replacement.new)
        replacement.container[replacement.key] = replacement.old
    guards.accept()
    assert guards.check() == []
    assert case.optimizer.state[weight]["exp_avg"] is old
    assert old[0, 0] == 3.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda o, p: o.state.clear(), ".state["),
        (lambda o, p: o.state[p[0]].update(exp_avg=torch.zeros(1)), "['exp_avg'] has another form"),
        (lambda o, p: o.add_param_group({"params": [nn.Parameter(p[0])]}), "has other parameters"),
        (lambda o, p: o.param_groups.append({"params": [p.pop()]}), "[1]['params'] was not there"),
        (lambda o, p: o.param_groups[0].update(lr=p[0]), "[0]['lr'] was of type float when the"),
        (lambda o, p: o.param_groups[0].update(note=1), "[0]['note'] was not there when the step"),
    ],
)
def test_other_changes_of_an_optimizer_are_errors(change: Callable[..., Any], said: str) -> None:
    case = Case("mlp")
    case.train(2)
    guards = guards_of(case.step, case.x, case.y)
    change(case.optimizer, case.optimizer.param_groups[0]["params"])
    assert said in raises(guards)


def test_state_made_by_the_first_step_is_accepted() -> None:
    case = Case("mlp")
    guards = guards_of(case.step, case.x, case.y, exempt=lambda path: path.endswith("calls"))
    case.train(1)
    raises(guards)
    guards.accept()
    guards.check()
    state = case.optimizer.state[case.model.layers[0].weight]
    state["exp_avg"].data = torch.zeros(16, 8)
    assert "exp_avg" in raises(guards)


def test_snapshot_tells_what_a_recording_changed() -> None:
    case = Case("mlp")
    snapshot = Snapshot.take(discover(case.step))
    changes, _ = record(case.step, case.x, case.y, look=lambda swap: snapshot.changes())
    found = {c.path.removeprefix("closure."): c for c in changes}
    calls = found["model.calls"]
    assert (calls.old, calls.new, calls.owned_by) == (0, 1, "module")
    shape = found["model.last_shape"]
    assert (shape.old, shape.new) == (MISSING, (5, 8))
    epoch = next(c for path, c in found.items() if path.endswith("scheduler.last_epoch"))
    assert (epoch.new, epoch.owned_by) == (1, "scheduler")
    assert snapshot.changes() == []
    case.model.calls = 9
    case.model.fresh = 1
    snapshot.restore()
    assert case.model.calls == 0
    assert not hasattr(case.model, "fresh")


def test_snapshot_tells_drawn_generators() -> None:

    snapshot = Snapshot.take(discover(lambda: None))
    random.random()
    assert snapshot.drawn() == ["random"]
    snapshot.restore()
    assert snapshot.drawn() == []


def test_generators_whose_states_are_tensors() -> None:
    """As those of other devices are."""

    class Elsewhere:
        def __init__(self) -> None:
            self.state = torch.arange(3)

        def get_state(self) -> torch.Tensor:
            return self.state.clone()

        def set_state(self, state: torch.Tensor) -> None:
            self.state = state.clone()

    generator = Elsewhere()
    reach: Any = SimpleNamespace(generators=[("closure.generator", generator)])
    states = GeneratorStates(reach)
    assert states.moved() == []
    generator.state += 1
    assert states.moved() == ["closure.generator"]
    states.restore()
    assert states.moved() == []
    assert generator.state.tolist() == [0, 1, 2]


def test_variant_key_selects() -> None:
    case = Case("mlp")
    facts = VariantFacts(discover(case.step))
    args = (case.x, case.y)
    key = facts.key(args)
    assert facts.key(args) == key
    assert hash(facts.key(args)) == hash(key)
    assert facts.key((case.x, case.y, 1.0)) == facts.key((case.x, case.y, 2.0))
    assert facts.key((case.x, case.x)) != facts.key((case.x, case.x.clone()))

    def differs(line: str) -> None:
        now = facts.key(args)
        assert now != key
        assert any(line in found for found in facts.explain(key, now)), facts.explain(key, now)

    case.model.layers[1].eval()
    differs("training changed of closure.model.layers[1]")
    case.model.train()
    case.model.layers[0].bias.requires_grad_(False)
    differs("requires_grad changed of closure.model.layers[0].bias")
    case.model.layers[0].bias.requires_grad_(True)
    with torch.no_grad():
        differs("grad mode was True and is False now")
    with torch.autocast("cpu"):
        differs("autocast on the CPU was False and is True now")
    assert facts.key(args) == key
    case.train(1)
    assert facts.key(args) == key
    assert "inputs" in facts.explain(key, facts.key((case.x[:3], case.y[:3])))[0]


def best_us(function: Callable[[], Any]) -> float:
    times = []
    for _ in range(50):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e6


def test_checks_are_quick() -> None:
    """200 modules: the bounds are several times what an idle machine needs."""
    layers = [m for _ in range(50) for m in (nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU())]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(x: torch.Tensor) -> None:
        model(x).sum().backward()
        optimizer.step()

    step(torch.ones(2, 4))
    guards = guards_of(step, torch.ones(2, 4))
    facts = VariantFacts(discover(step))
    args = (torch.ones(2, 4),)
    check, key = best_us(guards.check), best_us(lambda: facts.key(args))
    print(f"{len(guards)} guards: {check:.0f} us; key of {len(layers)} modules: {key:.0f} us")
    assert len(guards) > 800
    assert check < 1500
    assert key < 500
