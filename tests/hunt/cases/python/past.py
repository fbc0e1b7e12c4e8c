"""Seeds, writers, places and settings that act past operators, while a step runs.

From attacks on this project: each of these trained on with other numbers, in silence.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils.dlpack
from kit import Call, case
from torch import Tensor, get_rng_state, nn, set_num_threads
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


@case("past")
def threads_by_a_name_taken_before() -> Any:
    return under(lambda: as_before(torch.get_num_threads, set_num_threads, 1))


@case("past")
def a_state_read_by_a_name_taken_before() -> Any:
    def draw(x: Tensor) -> Tensor:
        before = get_rng_state()
        first = torch.rand(x.shape)
        torch.set_rng_state(before)
        return first + torch.rand(x.shape)

    return drawing(draw)


@case("past")
def a_state_of_a_generator_behind_a_draw() -> Any:
    generator = torch.Generator().manual_seed(3)

    def draw(x: Tensor) -> Tensor:
        first = torch.rand(x.shape, generator=generator)
        state = generator.get_state()
        second = torch.rand(x.shape, generator=generator)
        generator.set_state(state)
        return first + second + torch.rand(x.shape, generator=generator)

    return drawing(draw)


@case("past")
def a_clone_of_a_generator_behind_a_draw() -> Any:
    generator = torch.Generator().manual_seed(3)

    def draw(x: Tensor) -> Tensor:
        first = torch.rand(x.shape, generator=generator)
        other = generator.clone_state()
        return first + torch.rand(x.shape, generator=other) * torch.rand(
            x.shape, generator=generator
        )

    return drawing(draw)


@case("past")
def a_pickle_of_a_generator_behind_a_draw() -> Any:
    generator = torch.Generator().manual_seed(3)

    def draw(x: Tensor) -> Tensor:
        first = torch.rand(x.shape, generator=generator)
        return first * torch.rand(x.shape, generator=pickle.loads(pickle.dumps(generator)))

    return drawing(draw)


@case("past")
def a_capsule_of_the_step() -> Any:
    def draw(x: Tensor) -> Tensor:
        return torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x * 2)).clone()

    return drawing(draw)


@case("past")
def the_default_generator_given_by_name() -> Any:
    generator = torch.default_generator
    return drawing(lambda x: torch.rand(x.shape, generator=generator))


@torch.library.custom_op("hunt_past::keep", mutates_args=())
def keep(x: Tensor, share: float) -> Tensor:
    """The first rows of `x`."""
    return x[: int(len(x) * share)].clone()


@keep.register_fake
def _(x: Tensor, share: float) -> Tensor:
    return x.new_empty(int(len(x) * share), *x.shape[1:])


@case("past")
def a_custom_operator_whose_sizes_follow_a_number() -> Any:
    b = Bench()
    share = [1.25]

    def step(x: Tensor, y: Tensor) -> Tensor:
        share[0] -= 0.25
        return b.update(b.loss(x, y) * (1 + keep(x, share[0]).abs().sum()))

    return b.world(step, calls=b.calls[:4])


@torch.library.custom_op("hunt_past::positive", mutates_args=())
def positive(x: Tensor) -> Tensor:
    """Those rows of `x` that begin with a positive number."""
    return x[x[:, 0] > 0].clone()


@positive.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(len(x), *x.shape[1:])  # Not true.


@case("past")
def a_custom_operator_that_lies_about_its_sizes() -> Any:
    b = Bench()
    return b.world(lambda x, y: b.update(b.loss(x, y) * (1 + positive(x).abs().sum())))


def after_another(second: Callable[[Any, Tensor, Tensor], Any]) -> Any:
    """A step that finds the gradients which another one has left."""
    b = Bench()
    calls = [Call(*batch, which=i % 2) for i, batch in enumerate(b.calls)]
    return b.world([b.usual, lambda x, y: second(b, x, y)], calls=calls)


@case("past")
def gradients_left_by_another_step() -> Any:
    def second(b: Any, x: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = b.loss(x, y)
        loss.backward()
        b.opt.step()
        b.opt.zero_grad()
        return loss

    return after_another(second)


@case("past")
def norms_of_gradients_that_another_step_left() -> Any:
    def second(b: Any, _x: Tensor, _y: Tensor) -> list[Any]:
        return [p.grad.norm() for p in b.model.parameters() if p.grad is not None]

    return after_another(second)


@case("past")
def resized_to_its_own_size() -> Any:
    b = Bench()
    kept, noise = torch.empty_like(b.calls[0][0]), torch.empty(len(b.calls[0][0]), 1)

    def step(x: Tensor, y: Tensor) -> Tensor:
        kept.resize_(x.size()).copy_(x)
        noise.resize_(x.size(0), 1).normal_()
        return b.update(F.cross_entropy(b.model(kept) * noise, y))

    return b.world(step, kept, noise)


@case("past")
def resized_to_its_own_size_in_another_format() -> Any:
    b = Bench()
    kept = torch.arange(96.0).reshape(2, 3, 4, 4)

    def step(x: Tensor, y: Tensor) -> Any:
        kept.resize_(kept.size(), memory_format=torch.channels_last)
        b.log.append(kept.stride())
        return b.update(b.loss(x, y) * kept.flatten()[7])

    return b.world(step, kept)


@case("past")
def resized_from_nothing() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        made = torch.empty(0).resize_(x.size()).copy_(x)
        return b.update(F.cross_entropy(b.model(made), y) + made.mean())

    return b.world(step)


@case("past")
def resized_from_call_to_call() -> Any:
    b = Bench()
    kept = torch.empty(0)

    def step(x: Tensor, y: Tensor) -> Tensor:
        kept.resize_(x.size()).copy_(x)
        return b.update(F.cross_entropy(b.model(kept), y))

    return b.world(step, kept)
