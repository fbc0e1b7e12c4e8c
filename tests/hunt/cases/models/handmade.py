"""Optimizers written by hand, as in papers' repositories."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from typing import Any

import torch
from kit import add, case
from torch import Tensor, optim
from worlds import Bench, stepping


class Handmade(optim.Optimizer):
    """Calls `rule(p, grad, state, group)` for each parameter that has a gradient."""

    def __init__(self, params: Any, rule: Any, lr: float = 0.05, **defaults: Any) -> None:
        super().__init__(params, {"lr": lr, **defaults})
        self.rule = rule

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.rule(p, p.grad, self.state[p], group)


def adam(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    """The classic: a Python counter for each parameter."""
    if len(state) == 0:
        state["step"] = 0
        state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
    state["step"] += 1
    t = state["step"]
    state["m"].mul_(0.9).add_(g, alpha=0.1)
    state["v"].mul_(0.999).addcmul_(g, g, value=0.001)
    v = (state["v"] / (1 - 0.999**t)).sqrt() + 1e-8
    p.addcdiv_(state["m"] / (1 - 0.9**t), v, value=-group["lr"])


def adam_out_of_place(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    t = state["t"] = state.get("t", 0) + 1
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.99 * state.get("v", 0) + 0.01 * g**2
    m, v = state["m"] / (1 - 0.9**t), state["v"] / (1 - 0.99**t)
    p.data = p.data - group["lr"] * m / (v**0.5 + 1e-8)


def counts_in_the_group(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    group["k"] = group.get("k", 0) + 1
    p.add_(g, alpha=-group["lr"] / math.sqrt(group["k"]))


def lion(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    m = state.setdefault("m", torch.zeros_like(p))
    p.mul_(1 - group["lr"] * 0.1)
    p.add_(torch.sign(m * 0.9 + g * 0.1), alpha=-group["lr"])
    m.lerp_(g, 0.01)


def lars(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    w, n = torch.norm(p), torch.norm(g)
    trust = 0.02 * w / (n + 1e-4 * w) if w > 0 and n > 0 else 1.0
    buffer = state.setdefault("buffer", torch.zeros_like(p))
    buffer.mul_(0.9).add_(g * trust, alpha=group["lr"] * 10)
    p.sub_(buffer)


def lars_by_item(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    w, n = p.norm().item(), g.norm().item()
    trust = w / (n + 1e-6) if w > 0.1 and n > 0 else 1.0
    state["trust"] = min(trust, 10.0)
    p.add_(g, alpha=-group["lr"] * state["trust"])


def lamb(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    m = state.setdefault("m", torch.zeros_like(p)).mul_(0.9).add_(g, alpha=0.1)
    v = state.setdefault("v", torch.zeros_like(p)).mul_(0.999).addcmul_(g, g, value=0.001)
    update = m / v.sqrt().add(1e-6) + 0.01 * p
    norm = p.pow(2).sum().sqrt().clamp(0, 10)
    ratio = torch.where((norm > 0) & (update.norm() > 0), norm / update.norm(), 1.0)
    p.add_(update * ratio, alpha=-group["lr"])


def prodigy_like(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    start = state.setdefault("start", p.clone())
    s = state.setdefault("s", torch.zeros_like(p)).add_(g)
    group["top"] = group.get("top", 0.0) + group["d"] * (g * (start - p)).sum().item()
    group["d"] = max(group["d"], group["top"] / (s.abs().sum().item() + 1e-12))
    p.add_(g, alpha=-group["d"] * group["lr"])


def agc(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    limit = p.norm().clamp(min=1e-3) * 0.05
    norm = g.norm()
    g.copy_(torch.where(norm > limit, g * (limit / norm.clamp(min=1e-6)), g))
    p.add_(g, alpha=-group["lr"])


def factored(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    if p.dim() == 2:
        row = state.setdefault("row", torch.zeros(p.shape[0])).lerp_(g.square().mean(1), 0.1)
        column = state.setdefault("column", torch.zeros(p.shape[1]))
        column.lerp_(g.square().mean(0), 0.1)
        g = g / (torch.outer(row, column) / row.mean() + 1e-8).sqrt()
    p.add_(g, alpha=-group["lr"])


def centralized_noisy(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    if p.dim() > 1:
        g = g - g.mean(dim=1, keepdim=True)
    p.add_(g, alpha=-group["lr"]).add_(torch.randn_like(p), alpha=math.sqrt(group["lr"]) * 0.01)


def foreach(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    torch._foreach_add_([p], [g], alpha=-group["lr"])


def set_data(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    p.data = p.data - group["lr"] * g.data


def rprop_by_sign(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    old = state.get("old")
    factor = 1.0 if old is None else 1.0 + 0.1 * float((old * g).sign().sum())
    state["old"] = g.clone()
    p.add_(g.sign(), alpha=-group["lr"] * max(factor, 0.1))


def madgrad(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    k = group.setdefault("k", torch.tensor([0], dtype=torch.long)).item()
    scale = group["lr"] * math.sqrt(k + 1)
    start = state.setdefault("start", p.clone())
    squares = state.setdefault("squares", torch.zeros_like(p)).addcmul_(g, g, value=scale)
    sums = state.setdefault("sums", torch.zeros_like(p)).add_(g, alpha=scale)
    z = start.addcdiv(sums, squares.pow(1 / 3).add_(1e-6), value=-1)
    p.mul_(0.1).add_(z, alpha=0.9)
    group["k"] += 1


def stable(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    t = state["t"] = state.get("t", 0) + 1
    m = state.setdefault("m", torch.zeros_like(p)).lerp_(g, 0.1)
    v = state.setdefault("v", torch.zeros_like(p)).mul_(0.99).addcmul_(g, g, value=0.01)
    rms = g.pow(2).div_(v.clamp(min=1e-8)).mean().sqrt().item()
    p.addcdiv_(m, v.sqrt() + 1e-8, value=-group["lr"] / max(1, rms) / math.sqrt(t))


def mars(p: Tensor, g: Tensor, state: Any, group: Any) -> None:
    last = state.get("last", g)
    c = (g - last).mul(0.025 * 0.95 / 0.05).add(g)
    norm = torch.norm(c)
    if p.ndim > 1 and norm > 1:
        c = c / norm
    m = state.setdefault("m", torch.zeros_like(p)).mul_(0.95).add_(c, alpha=0.05)
    p.add_(m.sign() if p.ndim > 1 else m, alpha=-group["lr"])
    state["last"] = g.clone()


RULES = [
    madgrad,
    stable,
    mars,
    adam,
    adam_out_of_place,
    counts_in_the_group,
    lion,
    lars,
    lars_by_item,
    lamb,
    prodigy_like,
    agc,
    factored,
    centralized_noisy,
    foreach,
    set_data,
    rprop_by_sign,
]


def _usual(b: Bench, x: Tensor, y: Tensor) -> Tensor:
    return b.usual(x, y)


for rule in RULES:
    more = {"d": 1e-2} if rule is prodigy_like else {}
    make = lambda ps, rule=rule, more=more: Handmade(ps, rule, **more)  # noqa: E731
    add("handmade", f"handmade_{rule.__name__}", stepping(_usual, make=make))


@case("handmade")
def handmade_no_grad_loop() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        b.model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in b.model.parameters():
                p -= 0.1 * p.grad
        return loss

    return b.world(step)


@case("handmade")
def handmade_velocity_in_dicts() -> Any:
    b = Bench()
    by_name: dict[str, Tensor] = {}
    by_id = defaultdict(lambda: 0.0)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        names, ps = zip(*b.model.named_parameters(), strict=True)
        for name, p, g in zip(names, ps, torch.autograd.grad(loss, ps), strict=True):
            by_name[name] = 0.9 * by_name.get(name, torch.zeros_like(p)) + g
            by_id[id(p)] += g.norm().item()
            p.data.add_(by_name[name], alpha=-0.05 / (1 + by_id[id(p)]))
        return loss

    return step, b.calls, lambda: (b.model, by_name, list(by_id.values()))


@case("handmade")
def handmade_functional_parameters() -> Any:
    w = [torch.randn(8, 4, requires_grad=True), torch.zeros(4, requires_grad=True)]
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = torch.nn.functional.cross_entropy(x @ w[0] + w[1], y)
        grads = torch.autograd.grad(loss, w)
        w[:] = [(p - 0.1 * g).detach().requires_grad_() for p, g in zip(w, grads, strict=True)]
        return loss

    return step, b.calls, lambda: w


@case("handmade")
def handmade_sharpness_aware() -> Any:
    b = Bench(make=lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9))

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        loss.backward()
        ps = list(b.model.parameters())
        norm = torch.norm(torch.stack([p.grad.norm() for p in ps]))
        moves = [p.grad * (0.05 / (norm + 1e-12)) for p in ps]
        with torch.no_grad():
            for p, e in zip(ps, moves, strict=True):
                p.add_(e)
        b.opt.zero_grad()
        b.loss(x, y).backward()
        with torch.no_grad():
            for p, e in zip(ps, moves, strict=True):
                p.sub_(e)
        b.opt.step()
        b.opt.zero_grad()
        return loss

    return b.world(step)


@case("handmade")
def handmade_lookahead() -> Any:
    b = Bench()
    slow, n = [p.detach().clone() for p in b.model.parameters()], [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        n[0] += 1
        if n[0] % 2 == 0:
            with torch.no_grad():
                for s, p in zip(slow, b.model.parameters(), strict=True):
                    s += 0.5 * (p - s)
                    p.copy_(s)
        return loss

    return b.world(step, slow, n)


@case("handmade")
def handmade_moving_average() -> Any:
    b = Bench()
    shadow, n = copy.deepcopy(b.model), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        n[0] += 1
        decay = min(0.99, (1 + n[0]) / (10 + n[0]))
        with torch.no_grad():
            for e, p in zip(shadow.parameters(), b.model.parameters(), strict=True):
                e.mul_(decay).add_(p, alpha=1 - decay)
        return loss

    return b.world(step, shadow, n)


@case("handmade")
def handmade_clip_by_value_of_norm() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> float:
        b.opt.zero_grad()
        b.loss(x, y).backward()
        norm = sum(p.grad.norm().item() ** 2 for p in b.model.parameters()) ** 0.5
        if norm > 0.8:
            for p in b.model.parameters():
                p.grad.mul_(0.8 / norm)
        b.opt.step()
        return norm

    return b.world(step)


@case("handmade")
def handmade_line_search() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> float:
        loss, lr = b.loss(x, y), 1.0
        grads = torch.autograd.grad(loss, list(b.model.parameters()))
        with torch.no_grad():
            while True:
                for p, g in zip(b.model.parameters(), grads, strict=True):
                    p.sub_(lr * g)
                if b.loss(x, y) < loss - 0.3 * lr * sum(g.square().sum() for g in grads):
                    return lr
                for p, g in zip(b.model.parameters(), grads, strict=True):
                    p.add_(lr * g)
                lr *= 0.5

    return b.world(step)
