"""Seeds, writers, places and settings that act past operators, while a step runs.

From attacks on this project: each of these trained on with other numbers, in silence.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from kit import case
from torch import Tensor, nn
from worlds import Bench


def drawing(draw: Callable[[Tensor], Tensor]) -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(b.loss(x * draw(x) + draw(x), y))

    return b.world(step)


@case("past")
def the_same_seed_twice_in_a_step() -> Any:
    def draw(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        return torch.rand(x.shape)

    return drawing(draw)


@case("past")
def a_generator_seeded_twice_in_a_step() -> Any:
    generator = torch.Generator()

    def draw(x: Tensor) -> Tensor:
        generator.manual_seed(7)
        return torch.rand(x.shape, generator=generator)

    return drawing(draw)


@case("past")
def the_same_fork_twice_in_a_step() -> Any:
    def draw(x: Tensor) -> Tensor:
        with torch.random.fork_rng():
            torch.manual_seed(3)
            return torch.randn(x.shape)

    return drawing(draw)


@case("past")
def a_parameter_written_by_apply() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        next(iter(b.model.parameters())).data.apply_(lambda v: v * 0.5)
        return loss

    return b.world(step)


@case("past")
def a_split_at_places_of_the_step() -> Any:
    b = Bench()
    places = torch.tensor([1, 2])

    def step(x: Tensor, y: Tensor) -> Tensor:
        places.copy_(b.model(x).detach().abs().sum(0)[:2].long().clamp(0, 4))
        return b.update(b.loss(x, y) * (1 + len(torch.tensor_split(x, places)[0])))

    return b.world(step, places)


@case("past")
def a_hook_that_removes_itself() -> Any:
    b = Bench()
    handles: list[Any] = []

    def hook(grad: Tensor) -> Tensor:
        handles.pop().remove()
        return grad * 2

    handles.append(next(iter(b.model.parameters())).register_hook(hook))
    return b.world(b.usual)


@case("past")
def where_a_mask_repeats_itself() -> Any:
    b = Bench()
    base = torch.randn(4096)

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        mask = (x[:3, :4, None] > 0).expand(3, 4, 8)[:, None].expand(3, 5, 4, 8)
        first, second = (base.as_strided((3, 5, 4, 8), (16, 48, 2, 0), at) for at in (0, 1))
        return b.usual(x, y), torch.where(mask, first, second).mul(2)

    return b.world(step)


@contextmanager
def as_before(get: Callable[[], Any], put: Callable[[Any], Any], value: Any) -> Iterator[None]:
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


def under(setting: Callable[[], Any]) -> Any:
    b = Bench()
    convolution = nn.Conv1d(1, 16, 5)
    b.opt.add_param_group({"params": [*convolution.parameters()]})

    def step(x: Tensor, y: Tensor) -> Tensor:
        with setting():
            seen = convolution(x[:, None]).relu().mean()
        loss = b.loss(x, y) + seen
        with setting():
            b.opt.zero_grad()
            loss.backward()
        b.opt.step()
        return loss.detach()

    return b.world(step, convolution)


@case("past")
def onednn_off_within_a_step() -> Any:
    return under(lambda: torch.backends.mkldnn.flags(enabled=False))


@case("past")
def one_thread_within_a_step() -> Any:
    return under(lambda: as_before(torch.get_num_threads, torch.set_num_threads, 1))


@case("past")
def less_precision_within_a_step() -> Any:
    return under(
        lambda: as_before(
            torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"
        )
    )


@case("past")
def an_array_kept_from_step_to_step() -> Any:
    b = Bench()
    seen: list[Any] = [None]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        seen[0] = copy.copy(next(iter(b.model.parameters())).detach().numpy())
        return loss

    return b.world(step, seen)
