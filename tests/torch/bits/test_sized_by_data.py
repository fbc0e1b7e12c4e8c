"""Random steps in which data decides sizes, between operators that read and write what is kept."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fitstep

CALLS = 8


class Step:
    """Forward, backward and update, each followed by a few random ways to look at tensors."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        self.model.register_buffer("mean", torch.zeros(3))
        make = draw.choice([torch.optim.SGD, torch.optim.Adam])
        self.optimizer: Any = make(self.model.parameters(), lr=0.05)
        self.kept = [torch.zeros(4), torch.ones(3)]
        ways: list[Callable[[Tensor, Tensor, Tensor], Tensor]] = [
            lambda v, x, _: x[x > 0.3].sum() + v,
            self.add_to_kept,
            self.replace_kept,
            lambda v, _, y: (y.detach() * v).mean(),
            self.thin_out,
            self.average,
            lambda v, *_: self.model[0].weight.detach().square().mean() + v,
            lambda v, x, _: v + torch.unique((x * 3).round()).sum() * 0.01,
            self.shrink,
            self.gradient,
            lambda v, x, _: v + torch.rand_like(x[:2]).mean(),
            self.scatter,
        ]
        self.plan = [draw.choices(ways, k=4) for _ in range(3)]

    def add_to_kept(self, v: Tensor, *_: Tensor) -> Tensor:
        return self.kept[0].add_(v).mean()

    def replace_kept(self, _v: Tensor, _x: Tensor, y: Tensor) -> Tensor:
        chosen = y.detach()
        self.kept[1] = chosen[chosen[:, 0] > 0].sum(0)
        return self.kept[1].mean()

    def thin_out(self, v: Tensor, _x: Tensor, y: Tensor) -> Tensor:
        score = y.detach()
        order, rounds = score[:, 0].argsort(), 0
        while order.numel() > 1 and rounds < 5:
            order = order[1:][(score[order[1:], 1] - score[order[0], 1]).abs() < 0.7]
            rounds += 1
        return v + order.sum() + rounds

    def average(self, v: Tensor, _x: Tensor, y: Tensor) -> Tensor:
        mean = self.model.get_buffer("mean")
        return mean.lerp_(y.detach().mean(0), 0.3).sum() + v

    def shrink(self, v: Tensor, *_: Tensor) -> Tensor:
        self.model[2].bias.data.mul_(0.99)
        return self.model[2].bias.detach().sum() + v

    def gradient(self, v: Tensor, *_: Tensor) -> Tensor:
        grad = self.model[0].weight.grad
        return v if grad is None else v + grad.norm()

    def scatter(self, v: Tensor, *_: Tensor) -> Tensor:
        made = torch.zeros(8).index_add_(0, torch.randint(0, 8, (4,)), self.kept[0])
        self.kept[0] = made[:4] * 0.5
        return v + made.sum()

    def __call__(self, x: Tensor) -> list[Tensor]:
        y = self.model(x)
        results = [y.square().mean()]
        for part, ways in enumerate(self.plan):
            v = torch.zeros(())
            with torch.no_grad():
                for way in ways:
                    v = way(v, x, y)
            results.append(v.clone())
            if part == 0:
                self.optimizer.zero_grad()
                (results[0] + (y[y > 0] ** 2).sum()).backward()
            elif part == 1:
                self.optimizer.step()
        return [one.detach() for one in results]

    def state(self) -> list[Tensor]:
        made = [t for one in self.optimizer.state.values() for t in one.values()]
        return [*self.model.state_dict().values(), *self.kept, *made, torch.get_rng_state()]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_small_and_there_has_the_same_bits_at_once(seed: int) -> None:
    found = []
    for is_compiled in (False, True):
        one = Step(seed)
        step: Any = one
        if is_compiled:
            step = fitstep.compile(one.__call__, (torch.ones(7, 6),), progress=False, audits="off")
        torch.manual_seed(1000 + seed)
        results = [result.clone() for _ in range(CALLS) for result in step(torch.randn(7, 6))]
        found.append(results + [t.clone() for t in one.state() if isinstance(t, Tensor)])
        if is_compiled:
            step.close()
    for plain, ours in zip(*found, strict=True):
        assert torch.equal(plain, ours)
        assert not plain.isnan().any()
