"""What runs at once, beside what is recorded and waits: memory that both have, unsaid writes."""

from __future__ import annotations

from typing import Any

import torch
from kit import case
from torch import Tensor, nn
from worlds import Bench


@case("array")
def twin_is_read_at_once() -> Any:
    counts = torch.zeros(4, dtype=torch.long)
    twin = torch.from_dlpack(counts)
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Any:
        counts.add_(y[:4])
        return b.usual(x, y), twin.sum(), twin[0].item(), twin.tolist()

    return b.world(step, counts)


@case("array")
def twin_is_read_at_once_behind_a_mask() -> Any:
    sums = torch.zeros(4)
    twin = torch.from_dlpack(sums)
    b = Bench()
    shown = torch.from_dlpack(b.model[0].bias.detach())

    def step(x: Tensor, y: Tensor) -> Any:
        picked = x[x > 0]
        sums.add_(x.sum() + picked.numel())
        loss = b.usual(x, y)
        return loss, twin.sum() * 2, (shown * 2).sum()

    return b.world(step, sums)


@case("array")
def twin_is_written_behind_a_read() -> Any:
    b = Bench()
    sums = torch.zeros(6, 8)
    twin = torch.from_dlpack(sums)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x + sums * 0.1, y)
        twin[0:2].add_(x[:2])
        twin[3] += x[0]
        return b.update(loss + b.model(sums).mean())

    return b.world(step, sums, twin)


@case("undo")
def statistics_of_a_frozen_norm_behind_a_size() -> Any:
    b = Bench()
    teacher = nn.BatchNorm1d(8).requires_grad_(False)

    def step(x: Tensor, y: Tensor) -> Tensor:
        kinds = torch.unique_consecutive(y).numel()
        return b.update(b.loss(teacher(x) * kinds, y))

    return b.world(step, teacher)


@case("undo")
def statistics_of_norms_behind_a_mask() -> Any:
    b = Bench()
    norms = [nn.BatchNorm1d(8, affine=False), nn.InstanceNorm1d(8, track_running_stats=True)]

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            kept = x[x[:, 0] > -9]
            a = norms[0](kept)
            c = norms[1](kept.t()[None]).mean()
        return b.update(b.loss(x, y) + b.model(a).mean() * c)

    return b.world(step, norms)
