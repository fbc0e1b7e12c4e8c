"""The shadow's numbers are those of the optimizer itself, and land in the right ops."""

from __future__ import annotations

import warnings

import pytest
import torch
from fitstep.shadow import ShadowOptimizer, match, storages_of
from fitstep.shadow.facts import facts_named
from torch._subclasses.fake_tensor import FakeTensorMode

from python.tests.shadow_tape import PlainTape, fake_twin

optim = torch.optim
CASES = {
    "sgd": (optim.SGD, {}),
    "sgd-momentum": (optim.SGD, {"momentum": 0.9}),
    "sgd-nesterov-decay": (optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "sgd-dampening-maximize": (optim.SGD, {"momentum": 0.9, "dampening": 0.5, "maximize": True}),
    "sgd-foreach": (optim.SGD, {"momentum": 0.9, "foreach": True}),
    "adam": (optim.Adam, {}),
    "adam-amsgrad": (optim.Adam, {"amsgrad": True, "weight_decay": 0.1}),
    "adam-foreach": (optim.Adam, {"foreach": True}),
    "adam-fused": (optim.Adam, {"fused": True}),
    "adamw": (optim.AdamW, {}),
    "adamw-foreach": (optim.AdamW, {"foreach": True, "amsgrad": True}),
    "adamw-fused": (optim.AdamW, {"fused": True, "amsgrad": True}),
    "nadam": (optim.NAdam, {}),
    "nadam-decoupled": (optim.NAdam, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "nadam-foreach": (optim.NAdam, {"foreach": True}),
    "radam": (optim.RAdam, {}),
    "radam-foreach": (optim.RAdam, {"foreach": True}),
    "adagrad": (optim.Adagrad, {"lr_decay": 0.1}),
    "adagrad-foreach": (optim.Adagrad, {"lr_decay": 0.1, "foreach": True}),
    "rmsprop": (optim.RMSprop, {"momentum": 0.9, "centered": True}),
    "rmsprop-foreach": (optim.RMSprop, {"foreach": True}),
    "adamax": (optim.Adamax, {}),
    "adamax-foreach": (optim.Adamax, {"foreach": True}),
    "adadelta": (optim.Adadelta, {}),
    "adadelta-foreach": (optim.Adadelta, {"foreach": True}),
    "rprop": (optim.Rprop, {}),
    "rprop-foreach": (optim.Rprop, {"foreach": True}),
    "asgd": (optim.ASGD, {"t0": 3}),
    "asgd-foreach": (optim.ASGD, {"t0": 3, "foreach": True}),
}
SCHEDULERS = {
    "constant": lambda opt: None,
    "step": lambda opt: optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.5),
    "lambda": lambda opt: optim.lr_scheduler.LambdaLR(opt, lambda epoch: 1 / (epoch + 1)),
    "one-cycle": lambda opt: optim.lr_scheduler.OneCycleLR(
        opt,
        max_lr=0.1,
        total_steps=12,
        cycle_momentum="momentum" in opt.defaults or "betas" in opt.defaults,
    ),
}
# A matrix, vectors, an image kernel, a scalar: in two groups with numbers of their own.
SHAPES = [[(4, 3), (3,), (5,), (1,)], [(2, 3, 1, 1), (), (2, 2)]]


def make_optimizer(name):
    kind, options = CASES[name]
    torch.manual_seed(0)
    # A boolean mask of a 0-dim tensor is a branch on its value: Rprop cannot have such parameters.
    shapes = [[s for s in group if s or kind is not optim.Rprop] for group in SHAPES]
    groups = [
        {"params": [torch.nn.Parameter(torch.randn(shape)) for shape in group], "lr": 0.01 * i}
        for i, group in enumerate(shapes, start=1)
    ]
    return kind(groups, lr=0.01, **options)


def make_gradients(optimizer, step=0):
    torch.manual_seed(1000 + step)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.randn_like(parameter)


def merged(first, second):
    return {key: first[key] | second[key] for key in first}


def record(optimizer, modes=()):
    """One step under a tape; the storages of each parameter as they were before or after."""
    tape = PlainTape()
    before = storages_of(optimizer, tape.storage_of)
    with tape, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer.step()
    return tape, merged(before, storages_of(optimizer, tape.storage_of))


def capture(optimizer):
    """One step on fakes; the optimizer stays as it is."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    twin = fake_twin(optimizer, mode)
    tape = PlainTape()
    before = storages_of(twin, tape.storage_of)
    with mode, tape:
        type(optimizer).step(twin)
    return tape, merged(before, storages_of(twin, tape.storage_of))


@pytest.mark.parametrize(
    ("name", "schedule"),
    [(name, "one-cycle") for name in CASES]
    + [(name, schedule) for name in ("sgd-momentum", "adamw", "nadam") for schedule in SCHEDULERS],
)
def test_numbers_are_those_of_the_next_real_step(name, schedule):
    optimizer = make_optimizer(name)
    scheduler = SCHEDULERS[schedule](optimizer)
    shadow = ShadowOptimizer(optimizer)
    for step in range(10):
        make_gradients(optimizer, step)
        run = shadow.run()
        tape, storages = record(optimizer)
        # `match` raises where a name or a number of any op of any parameter differs.
        slots = match(optimizer, shadow, run, tape.ops, storages, tape.literals)
        assert slots.formula == run.formula
        if scheduler is not None:
            scheduler.step()


@pytest.mark.parametrize("name", [n for n in CASES if "foreach" not in n and "fused" not in n])
def test_one_parameter_after_another(name):
    """A default optimizer updates its parameters one by one, so the recorded ops are the shadow's
    signatures one after another: the same comparison without any attribution."""
    optimizer = make_optimizer(name)
    shadow = ShadowOptimizer(optimizer)
    for step in range(10):
        make_gradients(optimizer, step)
        signatures = shadow.run().signatures()
        tape, _ = record(optimizer)
        if step == 0:
            continue  # The state of a whole group is made before its first parameter is updated.
        expected = [
            (op_name, list(numbers))
            for i in sorted(signatures)
            for op_name, numbers in zip(signatures[i].names, signatures[i].numbers, strict=True)
        ]
        recorded = [(op.name, list(op.numbers)) for op in tape.ops]
        assert [e[0] for e in expected] == [r[0] for r in recorded]
        for (op_name, want), (_, got) in zip(expected, recorded, strict=True):
            assert len(want) == len(got), op_name
            pairs = [(w, g) for w, g in zip(want, got, strict=True) if w is not None]
            assert [repr(w) for w, _ in pairs] == [repr(g) for _, g in pairs], op_name


@pytest.mark.parametrize("name", CASES)
def test_patches_turn_a_captured_step_into_each_later_one(name):
    """Captured on fakes once per formula; then every step patches the numbers of the program."""
    optimizer = make_optimizer(name)
    scheduler = SCHEDULERS["one-cycle"](optimizer)
    shadow = ShadowOptimizer(optimizer)
    programs = {}
    for step in range(10):
        make_gradients(optimizer, step)
        run = shadow.run()
        if run.formula not in programs:
            tape, storages = capture(optimizer)
            slots = match(optimizer, shadow, run, tape.ops, storages, tape.literals)
            numbers = [list(op.numbers) for op in tape.ops]
            programs[run.formula] = (slots, tape.ops, numbers, dict(tape.literals))
        slots, ops, numbers, literals = programs[run.formula]
        patches = slots.update(run)
        for patch in patches.numbers:
            numbers[patch.op][patch.number] = patch.value
        for patch in patches.literals:
            literals[patch.storage] = patch.content
        tape, _ = record(optimizer)
        assert [op.name for op in ops] == [op.name for op in tape.ops]
        for op, patched, real in zip(ops, numbers, tape.ops, strict=True):
            assert list(map(repr, patched)) == list(map(repr, real.numbers)), op.name
            assert [literals[s] for s in op.inputs if s in literals] == [
                tape.literals[s] for s in real.inputs if s in tape.literals
            ], op.name
        scheduler.step()
    assert len(programs) <= 3  # First, steady, and another formula for RAdam.


def test_a_changed_number_is_patched_once_per_parameter():
    optimizer = make_optimizer("sgd")
    shadow = ShadowOptimizer(optimizer)
    make_gradients(optimizer)
    run = shadow.run()
    tape, storages = capture(optimizer)
    slots = match(optimizer, shadow, run, tape.ops, storages)
    assert slots.update(shadow.run()).numbers == []
    optimizer.param_groups[1]["lr"] = 0.5
    patches = slots.update(shadow.run()).numbers
    # The second group has 3 parameters, and plain SGD is one add_(p, grad, alpha=-lr) for each.
    assert [(p.op, p.number, p.value) for p in patches] == [
        (4, 0, -0.5),
        (5, 0, -0.5),
        (6, 0, -0.5),
    ]
    assert slots.update(shadow.run()).numbers == []


def test_zero_and_minus_zero_are_two_numbers():
    optimizer = make_optimizer("sgd")
    shadow = ShadowOptimizer(optimizer)
    make_gradients(optimizer)
    for group in optimizer.param_groups:
        group["lr"] = 0.0  # alpha = -0.0
    run = shadow.run()
    tape, storages = capture(optimizer)
    slots = match(optimizer, shadow, run, tape.ops, storages)
    for group in optimizer.param_groups:
        group["lr"] = -0.0
    assert [str(p.value) for p in slots.update(shadow.run()).numbers] == ["0.0"] * 7


def test_numbers_have_places_of_their_own_for_sizes_and_dtypes():
    zeros, div = facts_named("aten::zeros"), facts_named("aten::div.Tensor")
    assert zeros.numbers(([4, 8],), {"dtype": torch.float32}) == (None, None, None)
    assert div.numbers((torch.zeros(1), 0.5), {}) == (0.5,)
    assert facts_named("aten::addcdiv_").numbers((torch.zeros(1),) * 3, {}) == (1,)  # The default.
    assert facts_named("aten::detach").is_silent
    assert facts_named("aten::_local_scalar_dense").is_silent
    assert not facts_named("aten::add_.Tensor").is_silent
