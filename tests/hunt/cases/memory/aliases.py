"""Tensors that share memory with others, held by Python from call to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from kit import Do, add, case
from torch import Tensor
from worlds import Bench, sgd


@case("alias")
def alias_of_a_kept_result_and_its_row() -> Any:
    b, kept = Bench(), {}

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        if "whole" in kept:
            out = out + kept["whole"].mean()
        kept["whole"] = out.detach()
        kept["row"] = kept["whole"][1]
        return b.update(F.cross_entropy(out, y))

    change = Do(lambda: kept["row"].fill_(3.0))
    one, two, three, four, _ = b.calls
    return b.world(step, kept, calls=[one, change, two, change, three, four])


@case("alias")
def alias_of_a_row_only() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        b.log.append(out.detach()[2, 1:])
        return b.update(F.cross_entropy(out, y))

    return b.world(step)


@case("alias")
def alias_of_a_parameter_made_inside() -> Any:
    b, kept = Bench(make=sgd), {}

    def step(x: Tensor, y: Tensor) -> float:
        kept.setdefault("row", b.model[0].weight.detach()[0])
        kept.setdefault("data", b.model[2].bias.data)
        b.usual(x, y)
        return kept["row"].sum().item() + kept["data"].sum().item()

    return b.world(step, kept)


@case("alias")
def alias_of_a_parameter_written_inside() -> Any:
    b, kept = Bench(make=sgd), {}

    def step(x: Tensor, y: Tensor) -> Tensor:
        kept.setdefault("row", b.model[0].weight.detach()[0])
        loss = b.usual(x, y)
        kept["row"].mul_(0.5)
        return loss

    return b.world(step, kept)


@case("alias")
def alias_of_optimizer_state() -> Any:
    b, kept = Bench(), {}

    def hold() -> None:
        kept["m"] = b.opt.state[b.model[0].weight]["exp_avg"]
        kept["t"] = b.opt.state[b.model[0].weight]["step"]

    one, two, three, four, _ = b.calls
    scale = Do(lambda: kept["m"].mul_(0.1))
    return b.world(b.usual, kept, calls=[one, Do(hold), two, three, scale, four])


@case("alias")
def alias_of_gradients() -> Any:
    b, kept = Bench(make=sgd), []

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        kept.append(b.model[0].weight.grad)
        return loss

    return b.world(step, kept)


@case("alias")
def alias_of_gradients_that_are_zeroed() -> Any:
    b, kept = Bench(make=sgd), []

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.opt.zero_grad(set_to_none=False)
        loss = b.loss(x, y)
        loss.backward()
        b.opt.step()
        kept.append(b.model[0].weight.grad)
        return loss

    return b.world(step, kept)


@case("alias")
def alias_state_dict_kept() -> Any:
    b = Bench()
    states = [b.model.state_dict()]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        states.append(b.model.state_dict())
        return loss

    return b.world(step, states)


@case("alias")
def alias_of_an_argument_kept() -> Any:
    b, kept = Bench(), []

    def step(x: Tensor, y: Tensor) -> Tensor:
        kept.append(x[1:3])
        x.mul_(0.5)
        return b.update(b.loss(x, y) + kept[0].mean())

    return b.world(step, kept, [call[0] for call in b.calls])


@case("alias")
def alias_of_an_argument_returned() -> Any:
    b, kept = Bench(), []

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        b.usual(x, y)
        x.add_(1)
        return x, x.view(-1)[3:]

    calls: list[Any] = []
    for x, y in b.calls:
        calls += [(x, y), Do(lambda x=x: kept.append(x.sum().item()))]
    return b.world(step, kept, calls=calls)


@case("alias")
def alias_of_buffers_between_modules() -> Any:
    class Part(torch.nn.Module):
        def __init__(self, shared: Tensor) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(8, 8)
            self.register_buffer("shared", shared)

        def forward(self, x: Tensor) -> Tensor:
            out = self.fc(x)
            self.shared.mul_(0.9).add_(out.detach().mean(0), alpha=0.1)
            return out - self.shared

    shared = torch.zeros(8)
    b = Bench(torch.nn.Sequential(Part(shared), Part(shared), torch.nn.Linear(8, 4)))
    return b.world(b.usual, shared)


@case("alias")
def alias_of_buffers_that_are_views() -> Any:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(8, 4)
            self.register_buffer("table", torch.zeros(2, 4))
            self.register_buffer("first", self.table[0])

        def forward(self, x: Tensor) -> Tensor:
            out = self.fc(x)
            self.first += out.detach().mean(0)
            return out + self.table.sum(0)

    b = Bench(Net())
    return b.world(b.usual)


@case("alias")
def alias_of_parameters_in_one_block() -> Any:
    b = Bench(make=sgd)
    block = torch.nn.utils.parameters_to_vector(b.model.parameters()).detach()
    at = 0
    for p in b.model.parameters():
        p.data = block[at : at + p.numel()].view_as(p)
        at += p.numel()

    def step(x: Tensor, y: Tensor) -> float:
        b.usual(x, y)
        block.clamp_(-0.3, 0.3)
        return block.norm().item()

    return b.world(step, block)


@case("alias")
def alias_of_gradients_in_one_block() -> Any:
    b = Bench(make=sgd)
    sizes = [p.numel() for p in b.model.parameters()]
    block = torch.zeros(sum(sizes))
    for p, g in zip(b.model.parameters(), block.split(sizes), strict=True):
        p.grad = g.view_as(p)

    def step(x: Tensor, y: Tensor) -> float:
        block.zero_()
        loss = b.loss(x, y)
        loss.backward()
        norm = block.norm()
        block.mul_(torch.clamp(0.5 / norm, max=1.0))
        b.opt.step()
        return norm.item()

    return b.world(step, block)


STATISTICS: dict[str, Callable[[], list[Tensor]]] = {
    "their own": lambda: [torch.zeros(8) for _ in range(4)],
    "rows of a table": lambda: list(torch.zeros(4, 8).unbind()),
    "views": lambda: [torch.zeros(2, 4).view(-1) for _ in range(4)],
}


def statistics(make_rows: Callable[[], list[Tensor]]) -> Callable[[], Any]:
    """Running statistics that are views, whose base nobody has."""

    def make() -> Any:
        b, table = Bench(make=sgd), make_rows()

        def step(x: Tensor, y: Tensor) -> Tensor:
            for row in table:
                with torch.no_grad():
                    row.mul_(0.9).add_(x.mean(0), alpha=0.1)
                x = x - row
            return b.update(b.loss(x, y))

        return b.world(step, table)

    return make


for _name, _rows in STATISTICS.items():
    add("alias", f"statistics that are {_name}", statistics(_rows))
