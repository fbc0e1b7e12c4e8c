"""What a shadow takes over, leaves alone and refuses."""

from __future__ import annotations

import copy

import pytest
import torch
from fitstep.errors import CaptureError, GuardError
from fitstep.shadow import ShadowOptimizer, grad_mask, match, storages_of
from fitstep.shadow.replica import Replica
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim.optimizer import register_optimizer_step_pre_hook

from python.tests.shadow_tape import PlainTape

optim = torch.optim
Parameter = torch.nn.Parameter


def with_gradients(*shapes, dtype=torch.float32):
    parameters = [Parameter(torch.randn(shape).to(dtype)) for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return parameters


def record_and_match(optimizer, shadow, mask=None):
    """The shadow's run against one real step."""
    run = shadow.run(mask or grad_mask(optimizer))
    tape = PlainTape()
    before = storages_of(optimizer, tape.storage_of)
    with tape:
        optimizer.step()
    after = storages_of(optimizer, tape.storage_of)
    storages = {key: before[key] | after[key] for key in before}
    return match(optimizer, shadow, run, tape.ops, storages, tape.literals)


def test_classes_are_what_can_differ():
    wide = with_gradients((4, 4), (2, 3), (5,), (6,))
    narrow = with_gradients((7,), dtype=torch.bfloat16)
    head = with_gradients((8,))
    optimizer = optim.AdamW([{"params": wide + narrow}, {"params": head, "lr": 0.5}])
    shadow = ShadowOptimizer(optimizer)
    shadow.run()
    # Two matrices, two vectors, a bfloat16 vector, a vector in another group.
    assert [len(one.members) for one in shadow._classes] == [2, 2, 1, 1]
    assert [p for _, p in shadow.classes] == [wide[0], wide[2], narrow[0], head[0]]


def test_a_class_is_split_when_its_members_part():
    """One parameter misses two steps, so its step count and bias corrections are other ones."""
    parameters = with_gradients((3,), (4,), (5,))
    optimizer = optim.Adam(parameters)
    shadow = ShadowOptimizer(optimizer)
    record_and_match(optimizer, shadow)
    assert len(shadow.classes) == 1
    kept, parameters[1].grad = parameters[1].grad, None
    for _ in range(2):
        slots = record_and_match(optimizer, shadow)
        assert [members for _, members in slots.formula] == [(0, 2)]
    parameters[1].grad = kept
    slots = record_and_match(optimizer, shadow)
    assert [float(optimizer.state[p]["step"]) for p in parameters] == [4, 2, 4]
    assert len(shadow.classes) == 2
    assert [members for _, members in slots.formula] == [(0, 1, 2)]  # One formula all the same.
    # The next numbers reach each member from its own class.
    patches = slots.update(shadow.run()).numbers
    assert len({p.value for p in patches}) == 4  # Two bias corrections for each of two classes.


def test_a_class_is_split_when_one_step_count_is_set():
    parameters = with_gradients((3,), (4,), (5,))
    optimizer = optim.Adam(parameters)
    optimizer.step()
    shadow = ShadowOptimizer(optimizer)
    record_and_match(optimizer, shadow)
    assert [len(one.members) for one in shadow._classes] == [3]
    optimizer.state[parameters[2]]["step"].fill_(100)
    record_and_match(optimizer, shadow)
    assert [one.members for one in shadow._classes] == [(0, 1), (2,)]


@pytest.mark.parametrize("kind", [optim.Adam, optim.NAdam, optim.RAdam, optim.ASGD])
def test_a_loaded_state_is_seen(kind):
    optimizer = kind(with_gradients((3,), (2, 2)), lr=0.1)
    shadow = ShadowOptimizer(optimizer)
    record_and_match(optimizer, shadow)
    saved = copy.deepcopy(optimizer.state_dict())
    for _ in range(7):
        record_and_match(optimizer, shadow)
    optimizer.load_state_dict(saved)
    for _ in range(7):
        record_and_match(optimizer, shadow)


class Own(optim.SGD):
    """Somebody's optimizer: its code may look anywhere."""


@pytest.mark.parametrize(
    ("kind", "options", "again"),
    [
        (optim.SGD, {"momentum": 0.9, "weight_decay": 0.0}, 0),
        (optim.SGD, {"weight_decay": 0.0}, 0),
        (optim.Adam, {}, 4),  # Its bias corrections are others in every step.
        (Own, {"momentum": 0.9}, 4),
    ],
)
def test_code_runs_again_only_where_its_numbers_may_be_others(kind, options, again, monkeypatch):
    runs = 0

    def counted(self, tape, original=Replica._run):
        nonlocal runs
        runs += 1
        return original(self, tape)

    monkeypatch.setattr(Replica, "_run", counted)
    optimizer = kind(with_gradients((2, 2), (3,)), lr=0.1, **options)
    shadow = ShadowOptimizer(optimizer)
    for _ in range(3):
        record_and_match(optimizer, shadow)
    runs = 0
    for _ in range(2):
        record_and_match(optimizer, shadow)
    assert runs == again
    optimizer.param_groups[0].update(lr=0.2, weight_decay=0.5)
    runs = 0
    record_and_match(optimizer, shadow)
    assert runs == 2
    optimizer.param_groups[0].update(weight_decay=-0.5)
    record_and_match(optimizer, shadow)


@settings(max_examples=30, deadline=None)
@given(
    lr=st.floats(0, 10),
    beta=st.floats(0, 0.999),
    decay=st.floats(0, 1),
    eps=st.floats(1e-12, 1),
    steps=st.integers(0, 10_000),
)
def test_any_numbers(lr, beta, decay, eps, steps):
    optimizer = optim.AdamW(with_gradients((2, 2), (3,)))
    optimizer.step()
    for state in optimizer.state.values():
        state["step"].fill_(steps)
    shadow = ShadowOptimizer(optimizer)
    optimizer.param_groups[0].update(lr=lr, betas=(beta, beta / 2), weight_decay=decay, eps=eps)
    record_and_match(optimizer, shadow)


class Louder(optim.NAdam):
    """Reaches the hooked step of its base."""

    def step(self, closure=None):
        return super().step(closure)


class Noisy(optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            parameter.add_(torch.randn_like(parameter))


@pytest.mark.parametrize("kind", [optim.NAdam, Louder, Noisy])
def test_the_real_optimizer_is_left_alone(kind):
    calls = []
    optim.NAdam(with_gradients((3,)))  # Makes torch wrap NAdam.step, as any use of NAdam does.
    optimizer = kind(with_gradients((3,), (2, 2)), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: calls.append("own"))
    everywhere = register_optimizer_step_pre_hook(lambda *_: calls.append("global"))
    try:
        for _ in range(3):
            calls.clear()
            before = copy.deepcopy(optimizer.state_dict())
            random_before = torch.get_rng_state()
            objects = {id(v) for s in optimizer.state.values() for v in s.values()}
            shadow = ShadowOptimizer(optimizer)
            assert torch.equal(torch.get_rng_state(), random_before)
            shadow.formulas_ahead()
            shadow.run()
            shadow.advance()
            assert calls == []
            after = optimizer.state_dict()
            assert after["param_groups"] == before["param_groups"]
            assert repr(after["state"]) == repr(before["state"])
            assert {id(v) for s in optimizer.state.values() for v in s.values()} == objects
            assert torch.equal(torch.get_rng_state(), random_before)
            optimizer.step()
            assert sorted(set(calls)) == ["global", "own"]  # They are there again.
    finally:
        everywhere.remove()


class Counting(optim.Optimizer):
    """Keeps Python numbers in every place where an optimizer can: state, group, attribute."""

    def __init__(self, parameters, lr=0.1):
        super().__init__(parameters, {"lr": lr, "rounds": 0})
        self.total = 0
        self.history = [0]

    @torch.no_grad()
    def step(self):
        self.total += 1
        self.history.append(self.total)
        for group in self.param_groups:
            group["rounds"] += 1
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                count = self.state[parameter].setdefault("count", 0) + 1
                self.state[parameter]["count"] = count
                rate = group["lr"] / count / group["rounds"] / self.total
                parameter.add_(parameter.grad, alpha=-rate)


def python_numbers(optimizer):
    states = [dict(optimizer.state[p]) for g in optimizer.param_groups for p in g["params"]]
    rounds = [group["rounds"] for group in optimizer.param_groups]
    return states, rounds, optimizer.total


def test_python_numbers_advance_as_in_real_steps():
    def make():
        torch.manual_seed(0)
        head = {"params": with_gradients((4,)), "lr": 0.5}
        return Counting([{"params": with_gradients((3,), (2, 2))}, head])

    optimizer, twin = make(), make()
    shadow = ShadowOptimizer(optimizer)
    for _ in range(5):
        signatures = shadow.run().signatures()
        tape = PlainTape()
        with tape:
            twin.step()
        alphas = [op.numbers for op in tape.ops]
        assert [signatures[i].numbers for i in range(3)] == [(alpha,) for alpha in alphas]
        shadow.advance()
        assert python_numbers(optimizer) == python_numbers(twin)
    assert optimizer.history == [0]


def test_two_steps_in_one_run_advance_twice():
    optimizer = Counting(with_gradients((3,)))
    shadow = ShadowOptimizer(optimizer)
    shadow.begin([(True,), (True,)])
    alphas = [shadow.step().classes[0].signature.numbers[0][0] for _ in range(2)]
    assert alphas == [-0.1, -0.1 / 8]  # lr / count / rounds / total: 1 * 1 * 1, then 2 * 2 * 2.
    assert optimizer.total == 0
    shadow.advance()
    assert python_numbers(optimizer) == ([{"count": 2}], [2], 2)


def test_formulas_ahead_say_when_another_program_is_needed():
    def changes(kind, **options):
        optimizer = kind(with_gradients((3,), (2, 2)), lr=0.1, **options)
        formulas = ShadowOptimizer(optimizer).formulas_ahead()
        return [i for i in range(1, 8) if formulas[i] != formulas[i - 1]]

    assert changes(optim.SGD) == []
    assert changes(optim.SGD, momentum=0.9) == [1]  # The first step clones the gradient.
    assert changes(optim.AdamW) == [1]  # The first step makes the state.
    assert changes(optim.RAdam) == [1, 5]  # The variance is rectified from the 6th step on.
    assert changes(optim.ASGD, t0=4) == [1, 6]  # Averaging begins.


def test_gradients_that_are_missing_are_part_of_the_formula():
    optimizer = optim.SGD(with_gradients((3,), (4,)), lr=0.1)
    shadow = ShadowOptimizer(optimizer)
    names = ("aten::add_.Tensor",)
    assert shadow.run((True, True)).formula == ((names, (0, 1)),)
    assert shadow.run((False, True)).formula == ((names, (1,)),)
    assert shadow.run((False, False)).formula == ()


def test_replaced_parameters_are_an_error():
    optimizer = optim.SGD(with_gradients((3,)), lr=0.1)
    shadow = ShadowOptimizer(optimizer)
    optimizer.add_param_group({"params": with_gradients((4,))})
    with pytest.raises(GuardError, match="SGD has other parameters now"):
        shadow.run()


class Branching(optim.SGD):
    """Decides by a gradient's value."""

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad.norm() < 1:
                parameter.add_(parameter.grad)


class Wrapping(optim.SGD):
    """Holds another optimizer, which a shadow would step for real."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, lr)
        self.inner = optim.SGD(parameters, lr)

    def step(self, closure=None):
        self.inner.step()


class Reaching(optim.SGD):
    """Reaches its parameters by a way of its own."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, lr)
        self.reach = lambda: parameters

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.reach():
            parameter.add_(parameter.grad)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (optim.Adafactor, "reads a number out of parameters"),
        (optim.LBFGS, "its step fails on one element"),
        (optim.SparseAdam, "its step fails on one element"),
        (Branching, "reads a number out of parameters"),
        (Wrapping, "attribute 'inner' is another optimizer"),
        (Reaching, "reaches its parameters by another way"),
    ],
)
def test_an_optimizer_that_cannot_be_shadowed_is_refused_by_name(kind, reason):
    parameters = with_gradients((3, 3), (4,))
    contents = [p.detach().clone() for p in parameters]
    optimizer = kind(parameters, lr=0.1)
    with pytest.raises(CaptureError, match=kind.__name__ + " cannot .*" + reason):
        ShadowOptimizer(optimizer)
    assert all(torch.equal(p, c) for p, c in zip(parameters, contents, strict=True))


class GlobalNorm(optim.SGD):
    """Scales all gradients by their common norm, without a branch."""

    @torch.no_grad()
    def step(self, closure=None):
        parameters = self.param_groups[0]["params"]
        norm = torch.stack([p.grad.norm() for p in parameters]).norm()
        for parameter in parameters:
            parameter.sub_(parameter.grad / norm)


class ByShape(optim.SGD):
    """Its number depends on the parameter's shape."""

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            parameter.add_(parameter.grad, alpha=-0.1 / parameter.shape[0])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (GlobalNorm, "mixes parameter 0 .* with parameter 1"),
        (ByShape, r"op 1 is aten::add_.Tensor\(-0.05\), and its shadow's .*\(-0.1\)"),
        (optim.Muon, "on parameter 0 .* and its shadow"),
    ],
)
def test_what_the_shadow_cannot_stand_for_is_refused_by_name(kind, reason):
    optimizer = kind(with_gradients((2, 1), (6, 2)), lr=0.1)
    shadow = ShadowOptimizer(optimizer)
    with pytest.raises(CaptureError, match=kind.__name__ + " cannot .*" + reason):
        record_and_match(optimizer, shadow)


def test_every_corrupted_record_is_noticed():
    """Each name, number and storage of a recorded step, changed one at a time."""
    optimizer = optim.AdamW(with_gradients((3,), (4,)))
    optimizer.step()
    shadow = ShadowOptimizer(optimizer)
    run = shadow.run()
    tape = PlainTape()
    storages = storages_of(optimizer, tape.storage_of)
    with tape:
        optimizer.step()
    match(optimizer, shadow, run, tape.ops, storages)
    for i, op in enumerate(tape.ops):
        changed = [copy.copy(op) for _ in range(2)]
        object.__setattr__(changed[0], "name", "aten::sub_.Tensor")
        object.__setattr__(changed[1], "numbers", (*op.numbers[:-1], 0.125))
        variants = [[*tape.ops[:i], one, *tape.ops[i + 1 :]] for one in changed if one != op]
        variants.append([*tape.ops[:i], *tape.ops[i + 1 :]])
        variants.append([*tape.ops[: i + 1], *tape.ops[i:]])
        for ops in variants:
            if [(o.name, o.numbers) for o in ops] == [(o.name, o.numbers) for o in tape.ops]:
                continue
            with pytest.raises(CaptureError, match="AdamW cannot"):
                match(optimizer, shadow, run, ops, storages)
