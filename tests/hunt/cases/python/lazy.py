"""Layers that get their shape from the first batch: before compile, in the step, or late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from kit import add, case
from torch import Tensor, nn
from worlds import Bench, adam, sgd


@case("models")
def model_with_lazy_parameters() -> Any:
    model = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(4))
    model(torch.zeros(2, 8))
    b = Bench(model)
    return b.world(b.usual)


@case("models")
def model_with_lazy_parameters_shaped_by_the_step() -> Any:
    b = Bench(nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.Tanh(), nn.LazyLinear(4)))
    return b.world(b.usual)


@case("models")
def model_with_lazy_parameters_and_an_optimizer_made_late() -> Any:
    b = Bench(make=sgd)
    head, late = nn.LazyLinear(4), []

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        if len(b.log) >= 2:  # In the third call only.
            out = out + head(torch.tanh(out))
            if not late:
                late.append(torch.optim.Adam(head.parameters()))
        loss = b.update(F.cross_entropy(out, y))
        for opt in late:
            opt.step()
            opt.zero_grad()
        b.log.append(len(late))
        return loss

    return b.world(step, head, late)


@case("models")
def model_with_lazy_parameters_used_in_the_last_call() -> Any:
    b = Bench(make=sgd)
    head, count = nn.LazyLinear(3, bias=False), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        count[0] += 1
        loss = b.loss(x, y)
        if count[0] == 5:
            loss = loss + head(x).square().mean()
        return b.update(loss)

    return b.world(step, head)


def with_lazy_head(act: Callable[[Any, Bench], None]) -> Callable[[], Any]:
    """A step that puts something on a parameter without a shape, when that has got one."""

    def make() -> Any:
        b, head = Bench(make=sgd), nn.LazyLinear(3)
        head.weight.tags = []

        def step(x: Tensor, y: Tensor) -> Tensor:
            out = head(torch.tanh(b.model(x)))
            act(head.weight, b)
            return b.update(b.loss(x, y) + out.square().mean())

        return b.world(step, head)

    return make


def count_attribute(w: Any, b: Bench) -> None:
    w.n = getattr(w, "n", 0) + 1
    b.log.append(w.n)


def tag(w: Any, b: Bench) -> None:
    w.tags.append(len(w.tags))
    b.log.append(list(w.tags))


def hook_once(w: Any, b: Bench) -> None:
    if not b.log:
        w.register_post_accumulate_grad_hook(lambda p: b.log.append("added"))


def hook_gradients(w: Any, b: Bench) -> None:
    if not b.log:
        w.register_hook(lambda grad: b.log.append("made"))


for act in (count_attribute, tag, hook_once, hook_gradients):
    add("models", f"lazy parameter: {act.__name__}", with_lazy_head(act))


@case("models")
def model_with_lazy_convolutions() -> Any:
    layers = nn.LazyConv1d(3, 3), nn.LazyInstanceNorm1d(affine=True), nn.Flatten(), nn.LazyLinear(4)
    b = Bench(nn.Sequential(nn.Unflatten(1, (1, -1)), *layers), make=adam)
    return b.world(b.usual)
