"""Every optimizer of torch.optim, in the forms that it offers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from kit import Do, add, case
from torch import Tensor, nn, optim
from worlds import Bench, stepping

FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (optim.SGD, {"lr": 0.1}),
    "sgd_momentum": (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "sgd_nesterov": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "sgd_dampening": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    "sgd_decay": (optim.SGD, {"lr": 0.1, "weight_decay": 0.01}),
    "sgd_maximize": (optim.SGD, {"lr": 0.01, "maximize": True, "momentum": 0.9}),
    "sgd_foreach": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "foreach": True}),
    "sgd_fused": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "fused": True}),
    "sgd_tensor_lr": (optim.SGD, {"lr": torch.tensor(0.1)}),
    "adam": (optim.Adam, {"lr": 0.01}),
    "adam_amsgrad": (optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "adam_decay": (optim.Adam, {"lr": 0.01, "weight_decay": 0.01}),
    "adam_decoupled": (optim.Adam, {"weight_decay": 0.01, "decoupled_weight_decay": True}),
    "adam_foreach": (optim.Adam, {"lr": 0.01, "foreach": True}),
    "adam_fused": (optim.Adam, {"lr": 0.01, "fused": True}),
    "adam_fused_amsgrad": (optim.Adam, {"lr": 0.01, "fused": True, "amsgrad": True}),
    "adam_maximize": (optim.Adam, {"lr": 0.001, "maximize": True}),
    "adam_tensor_lr": (optim.Adam, {"lr": torch.tensor(0.01), "foreach": False}),
    "adam_fused_tensor_lr": (optim.Adam, {"lr": torch.tensor(0.01), "fused": True}),
    "adam_tensor_betas": (
        optim.Adam,
        {"betas": (torch.tensor(0.9), torch.tensor(0.99)), "foreach": False},
    ),
    "adamw": (optim.AdamW, {"lr": 0.01}),
    "adamw_foreach": (optim.AdamW, {"lr": 0.01, "foreach": True}),
    "adamw_fused": (optim.AdamW, {"lr": 0.01, "fused": True}),
    "adamw_amsgrad": (optim.AdamW, {"lr": 0.01, "amsgrad": True}),
    "nadam": (optim.NAdam, {"lr": 0.01}),
    "nadam_decoupled": (optim.NAdam, {"weight_decay": 0.01, "decoupled_weight_decay": True}),
    "nadam_foreach": (optim.NAdam, {"lr": 0.01, "foreach": True}),
    "radam": (optim.RAdam, {"lr": 0.01}),
    "radam_soon_rectified": (optim.RAdam, {"lr": 0.01, "betas": (0.5, 0.7)}),
    "radam_foreach": (optim.RAdam, {"lr": 0.01, "foreach": True}),
    "adagrad": (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1}),
    "adagrad_foreach": (optim.Adagrad, {"lr": 0.1, "foreach": True}),
    "adagrad_fused": (optim.Adagrad, {"lr": 0.1, "fused": True}),
    "adagrad_start": (optim.Adagrad, {"initial_accumulator_value": 0.5, "weight_decay": 0.1}),
    "adadelta": (optim.Adadelta, {"lr": 1.0, "rho": 0.8}),
    "adadelta_foreach": (optim.Adadelta, {"foreach": True, "maximize": True}),
    "adamax": (optim.Adamax, {"lr": 0.01, "weight_decay": 0.1}),
    "adamax_foreach": (optim.Adamax, {"lr": 0.01, "foreach": True}),
    "asgd": (optim.ASGD, {"lr": 0.1, "t0": 2}),
    "asgd_foreach": (optim.ASGD, {"lr": 0.1, "t0": 1, "foreach": True}),
    "rprop": (optim.Rprop, {"lr": 0.01}),
    "rprop_foreach": (optim.Rprop, {"lr": 0.01, "foreach": True}),
    "rmsprop": (optim.RMSprop, {"lr": 0.01}),
    "rmsprop_centered": (optim.RMSprop, {"lr": 0.01, "centered": True, "momentum": 0.9}),
    "rmsprop_foreach": (optim.RMSprop, {"lr": 0.01, "foreach": True, "weight_decay": 0.1}),
    "adafactor": (optim.Adafactor, {"lr": 0.01}),
    "adafactor_clip": (optim.Adafactor, {"lr": 0.05, "d": 1.5, "beta2_decay": -0.5}),
    "adafactor_foreach": (optim.Adafactor, {"lr": 0.01, "foreach": True}),
}


def bench_usual(b: Bench, x: Tensor, y: Tensor) -> Tensor:
    return b.usual(x, y)


def maker(kind: Any, options: dict[str, Any]) -> Any:
    def make(parameters: Any) -> Any:
        fresh = {k: v.clone() if isinstance(v, Tensor) else v for k, v in options.items()}
        return kind(parameters, **fresh)

    return make


for label, (kind, options) in FORMS.items():
    add("optim", f"optim_{label}", stepping(bench_usual, make=maker(kind, options)))


@case("optim")
def optim_muon() -> Any:
    b = Bench(make=lambda ps: optim.Muon([p for p in ps if p.ndim == 2], lr=0.01))
    rest = optim.AdamW([p for p in b.model.parameters() if p.ndim == 1], lr=0.01)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        rest.step()
        rest.zero_grad()
        return loss

    return b.world(step, rest)


def lbfgs(**options: Any) -> Any:
    def build() -> Any:
        b = Bench(make=lambda ps: optim.LBFGS(ps, lr=0.5, max_iter=3, **options))

        def step(x: Tensor, y: Tensor) -> Tensor:
            def closure() -> Tensor:
                b.opt.zero_grad()
                loss = b.loss(x, y)
                loss.backward()
                return loss

            return b.opt.step(closure)

        return b.world(step)

    return build


add("optim", "optim_lbfgs", lbfgs())
add("optim", "optim_lbfgs_strong_wolfe", lbfgs(line_search_fn="strong_wolfe"))
add("optim", "optim_lbfgs_short_history", lbfgs(history_size=2))


@case("optim")
def optim_adam_with_closure() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> float:
        def closure() -> Tensor:
            b.opt.zero_grad()
            loss = b.loss(x, y)
            loss.backward()
            return loss

        return b.opt.step(closure).item()

    return b.world(step)


@case("optim")
def optim_sparse_adam() -> Any:
    model = nn.Embedding(20, 4, sparse=True)
    b = Bench(model, make=lambda ps: optim.SparseAdam(ps, lr=0.1))

    def step(i: Tensor) -> Tensor:
        return b.update(model(i).square().mean())

    return b.world(step, calls=[(torch.tensor([k, 3, k + 5]),) for k in range(5)])


def sparse_embedding(make: Any) -> Any:
    def build() -> Any:
        b = Bench(nn.EmbeddingBag(20, 4, sparse=True, mode="sum"), make=make)

        def step(i: Tensor, y: Tensor) -> Tensor:
            return b.update(F.cross_entropy(b.model(i), y))

        calls = [(torch.tensor([[k, 3], [k + 5, k]]), torch.tensor([0, k % 4])) for k in range(5)]
        return b.world(step, calls=calls)

    return build


add("optim", "optim_sgd_of_sparse_gradients", sparse_embedding(lambda p: optim.SGD(p, lr=0.5)))
add("optim", "optim_adagrad_of_sparse", sparse_embedding(lambda p: optim.Adagrad(p, lr=0.5)))


@case("optim")
def optim_groups_of_parameters() -> Any:
    b = Bench()
    first, last = b.model[0], b.model[2]
    groups = [
        {"params": [first.weight, last.weight], "weight_decay": 0.1},
        {"params": [first.bias], "lr": 0.05, "betas": (0.5, 0.9)},
        {"params": [last.bias], "amsgrad": True},
    ]
    b.opt = optim.AdamW(groups, lr=0.01)
    return b.world(b.usual)


@case("optim")
def optim_two_in_a_step() -> Any:
    b = Bench(make=lambda ps: optim.SGD(ps[:2], lr=0.1))
    other = optim.Adam(b.model[2].parameters(), lr=0.01)

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.opt.zero_grad()
        other.zero_grad()
        loss = b.loss(x, y)
        loss.backward()
        b.opt.step()
        other.step()
        return loss

    return b.world(step, other)


@case("optim")
def optim_of_two_that_share_parameters() -> Any:
    b = Bench(make=lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9))
    other, n = optim.Adam(b.model.parameters(), lr=0.01), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        opt = b.opt if n[0] % 2 else other
        opt.zero_grad()
        loss = b.loss(x, y)
        loss.backward()
        opt.step()
        return loss

    return b.world(step, other, n, calls=[*b.calls, *b.calls[:1]])


@case("optim")
def optim_not_used_by_the_step() -> Any:
    b = Bench()
    idle = optim.RMSprop(b.model.parameters(), lr=0.1)
    b.idle = idle

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.usual(x, y)

    return b.world(step, idle)


@case("optim")
def optim_settings_changed_between_calls() -> Any:
    b = Bench()

    def change() -> None:
        b.opt.param_groups[0].update(lr=0.05, betas=(0.5, 0.9), weight_decay=0.1, eps=1e-4)

    return b.world(b.usual, calls=[*b.calls[:2], Do(change), *b.calls[2:]])


@case("optim")
def optim_amsgrad_switched_on() -> Any:
    b = Bench()
    switch = Do(lambda: b.opt.param_groups[0].update(maximize=True))
    return b.world(b.usual, calls=[*b.calls[:2], switch, *b.calls[2:]])


@case("optim")
def optim_momentum_that_begins_late() -> Any:
    b = Bench(make=lambda ps: optim.SGD(ps, lr=0.1))
    switch = Do(lambda: b.opt.param_groups[0].update(momentum=0.9))
    return b.world(b.usual, calls=[*b.calls[:2], switch, *b.calls[2:]])


@case("optim")
def optim_tensor_lr_filled_by_the_caller() -> Any:
    lr = torch.tensor(0.1)
    b = Bench(make=lambda ps: optim.SGD(ps, lr=lr, foreach=False))
    return b.world(b.usual, lr, calls=[*b.calls[:2], Do(lambda: lr.fill_(0.01)), *b.calls[2:]])


@case("optim")
def optim_state_cleared_by_the_caller() -> Any:
    b = Bench()
    clear = Do(lambda: b.opt.state.clear())
    return b.world(b.usual, calls=[*b.calls[:3], clear, *b.calls[3:]])


@case("optim")
def optim_state_scaled_by_the_caller() -> Any:
    b = Bench()

    def scale() -> None:
        for state in b.opt.state.values():
            state["exp_avg"].mul_(0.5)
            state["exp_avg_sq"] = state["exp_avg_sq"] * 2

    return b.world(b.usual, calls=[*b.calls[:3], Do(scale), *b.calls[3:]])


def grown(at: int, momentum: float) -> Any:
    """A case whose call `at` puts another layer in, with an optimizer of its own."""

    def build() -> Any:
        b = Bench()
        made = {"head": b.model[2], "opt": optim.SGD(b.model.parameters(), 0.1, momentum)}

        def step(x: Tensor, y: Tensor) -> Tensor:
            b.log.append(len(b.log))
            if len(b.log) == at:
                made["head"] = nn.Linear(8, 4)
                parameters = [*b.model[:2].parameters(), *made["head"].parameters()]
                made["opt"] = optim.SGD(parameters, 0.1, momentum)
            loss = F.cross_entropy(made["head"](b.model[:2](x)), y)
            made["opt"].zero_grad()
            loss.backward()
            made["opt"].step()
            return loss

        return b.world(step, made)

    return build


for at in (1, 2, 4):
    add("optim", f"optim_of_a_layer_made_in_call_{at}", grown(at, 0.0))
add("optim", "optim_with_momentum_of_a_layer_made_in_a_call", grown(2, 0.9))
