"""Little of much memory that numpy has too, as rows of a data set: picked at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from cases.memory.lent import CALLS, place, rows
from kit import add
from torch import Tensor
from worlds import Bench, sgd

LARGE = 50_000


def drawn_rows(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    return b.loss(t[torch.randint(LARGE, (6,))], y)


def drawn_behind_a_draw(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    noisy = F.dropout(x, 0.5)
    at = torch.randint(LARGE, (6,))
    picked = t[at]
    a[int(at[0])] = 1.0  # Not what was picked.
    return b.loss(picked + noisy, y) + b.loss(t.index_select(0, at), y)


def hardest_rows(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    i = place()
    with torch.no_grad():
        at = b.model(t[i : i + 30])[:, 0].topk(6).indices + i
    return b.loss(t[at], y) + b.model(F.embedding(at[:2], t)).sum()


def means_of_all(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    a[place()] *= 2
    scale = t.std(0) + 0.1
    if t.mean() > 0:
        b.log.append(float(t.amax()))
    return b.loss((x - t.mean(0)) / scale, y)


def picked_and_written_back(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    at = torch.randperm(1000)[:6]
    rows_now = t[at]
    loss = b.loss(rows_now, y)
    t[at] = (rows_now * 0.5 + x).detach()
    t.index_fill_(0, at[:1], 0.25)
    return loss + b.model(t[at[:3]].clone()).sum() + float(a[int(at[1])].sum())


def nearest(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    with torch.no_grad():
        out = b.model(x).repeat(1, 2)
        at = (out @ t.t()).argmax(1)
    return b.loss(t[at] * 0.1 + x, y)


def with_a_gradient_of_all(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    leaf = t.requires_grad_()
    loss = b.loss(leaf[torch.tensor([3, 5, 3, 9, 1, 2])], y)
    loss.backward(retain_graph=True)
    b.log.append(float(leaf.grad.abs().sum()) if leaf.grad is not None else 0.0)
    leaf.grad = None
    t.requires_grad_(False)
    return loss


def narrower(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    half = t.to(torch.bfloat16)
    a[:6] = place()
    return b.loss(half[:6].float() + t[:6], y)


PICKS = [
    drawn_rows,
    drawn_behind_a_draw,
    hardest_rows,
    means_of_all,
    picked_and_written_back,
    nearest,
    with_a_gradient_of_all,
    narrower,
]


def large_world(body: Callable[..., Tensor], *, is_buffer: bool) -> Any:
    """A case that trains on what `body` makes of little of a large array's memory: the step's own,
    or a buffer of the model's."""

    def build() -> Any:
        b = Bench(make=sgd, count=CALLS)
        array = rows(count=LARGE)
        tensor = torch.from_numpy(array)
        if is_buffer:
            b.model.register_buffer("data", tensor)

        def step(x: Tensor, y: Tensor) -> Tensor:
            data = b.model.get_buffer("data") if is_buffer else tensor
            return b.update(body(b, x, y, array, data))

        return b.world(step, tensor)

    return build


for body in PICKS:
    add("lent", f"{body.__name__}_of_much", large_world(body, is_buffer=False))
    add("lent", f"{body.__name__}_of_a_large_buffer", large_world(body, is_buffer=True))
