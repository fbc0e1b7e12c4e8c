"""Steps that change classes, memory and autograd's knowledge of what they keep."""

from __future__ import annotations

import gc
from typing import Any

import torch
import torch.nn.functional as F
from kit import add, case
from torch import Tensor, nn
from worlds import Bench, mlp, sgd

SURGERIES: dict[str, tuple[Any, Any]] = {
    "weight_norm_is_made_a_weight": (
        lambda m: nn.utils.parametrizations.weight_norm(m[2]),
        lambda m: nn.utils.parametrize.remove_parametrizations(m[2], "weight"),
    ),
    "parametrization_ends": (
        lambda m: nn.utils.parametrizations.orthogonal(m[0]),
        lambda m: nn.utils.parametrize.remove_parametrizations(
            m[0], "weight", leave_parametrized=False
        ),
    ),
    "parametrization_begins": (
        lambda m: None,
        lambda m: nn.utils.parametrizations.weight_norm(m[0]),
    ),
    "spectral_norm_ends": (
        lambda m: nn.utils.parametrizations.spectral_norm(m[0]),
        lambda m: nn.utils.parametrize.remove_parametrizations(m[0], "weight"),
    ),
    "memory_is_another_tensor_s": (
        lambda m: None,
        lambda m: m[0].weight.data.set_(m[0].weight.data * 0.9),
    ),
    "memory_is_set_to_a_part": (
        lambda m: None,
        lambda m: m[0].bias.data.set_(torch.ones(12)[2:10] * m[0].bias.data.sum()),
    ),
    "pruning_is_made_permanent": (
        lambda m: nn.utils.prune.l1_unstructured(m[0], "weight", amount=0.3),
        lambda m: nn.utils.prune.remove(m[0], "weight"),
    ),
    "pruning_begins": (
        lambda m: None,
        lambda m: nn.utils.prune.random_unstructured(m[2], "weight", amount=0.5),
    ),
    "class_is_changed": (
        lambda m: setattr(m[1], "inplace", False),
        lambda m: setattr(m[1], "__class__", nn.SiLU),
    ),
}


def surgery(before: Any, change: Any, at: int) -> Any:
    """A case whose step changes a module's class or hooks in one of its calls."""

    def build() -> Any:
        model = mlp()
        before(model)
        b = Bench(model, sgd, count=7)
        counts = [0]

        def step(x: Tensor, y: Tensor) -> Tensor:
            counts[0] += 1
            loss = b.usual(x, y)
            if counts[0] == at:
                change(b.model)
            return loss

        return b.world(step, counts)

    return build


for name, (before, change) in SURGERIES.items():
    for at in (1, 2, 4):
        add("change", f"{name}_in_call_{at}", surgery(before, change, at))


def filled(fill: Any) -> Any:
    """A case whose first call writes results that depend on parameters into what is kept."""

    def build() -> Any:
        b = Bench(make=sgd)
        b.model.register_buffer("mean", torch.zeros(4))
        calls = [0]

        def step(x: Tensor, y: Tensor) -> Tensor:
            result = b.model(x)
            if calls[0] == 0:
                fill(b.model.mean, result.mean(0))
            else:
                with torch.no_grad():
                    b.model.mean.lerp_(result.mean(0), 0.1)
            calls[0] += 1
            return b.update(F.cross_entropy(result, y))

        return b.world(step, calls, lambda: b.model.mean.requires_grad)

    return build


@case("buffer")
def view_filled_with_gradients() -> Any:
    b = Bench(make=sgd)
    memory = torch.zeros(2, 4)
    rows = [memory[0], memory[1]]
    calls = [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        result = b.model(x)
        if calls[0] % 3 == 0:
            rows[0].copy_(result.mean(0))
        else:
            with torch.no_grad():
                memory[0].lerp_(result.mean(0), 0.1)
        calls[0] += 1
        return b.update(F.cross_entropy(result - memory[0].detach(), y))

    return b.world(step, calls, memory, rows, lambda: [t.requires_grad for t in (memory, *rows)])


FILLS: dict[str, Any] = {
    "copy": lambda mean, new: mean.copy_(new),
    "add": lambda mean, new: mean.add_(new),
    "row": lambda mean, new: mean[:2].copy_(new[:2]),
    "assignment": lambda mean, new: mean.__setitem__(slice(1, 3), new[1:3]),
    "twice": lambda mean, new: mean.copy_(new).mul_(new),
}
for name, fill in FILLS.items():
    add("buffer", f"buffer_filled_with_gradients_by_{name}", filled(fill))


class Cached(nn.Linear):
    """Rounds its weights anew when autograd says that they have been written."""

    key: int | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.key != self.weight._version:
            self.key = self.weight._version
            self.rounded = (self.weight.detach() * 16).round() / 16
        return F.linear(x, self.weight + (self.rounded - self.weight).detach(), self.bias)


def cached(make: Any) -> Any:
    """A case of two updates in a call, whose layers look whether they happened."""

    def build() -> Any:
        b = Bench(nn.Sequential(Cached(8, 8), nn.Tanh(), Cached(8, 4)), make)

        def step(x: Tensor, y: Tensor) -> Tensor:
            b.usual(x[:3], y[:3])
            return b.usual(x[3:], y[3:])

        return b.world(step)

    return build


def averaged(parameters: Any) -> torch.optim.Optimizer:
    """SGD, whose gradients are clipped by a list."""
    parameters = list(parameters)
    optimizer = torch.optim.SGD(parameters, lr=0.1, foreach=True)

    def clip(*_: Any) -> None:
        torch.nn.utils.clip_grad_norm_(parameters, 0.5, foreach=True)
        torch._foreach_mul_([p.grad for p in parameters], 0.9)

    optimizer.register_step_pre_hook(clip)
    return optimizer


MAKES: dict[str, Any] = {
    "adam_foreach": lambda p: torch.optim.Adam(p, lr=0.1, foreach=True),
    "adam_fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "sgd_foreach": lambda p: torch.optim.SGD(p, lr=0.1, foreach=True, momentum=0.9),
    "clipped": averaged,
}
for name, make in MAKES.items():
    add("buffer", f"cache_by_version_{name}", cached(make))


@case("change")
def error_of_a_list_written_between() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Any:
        loss = b.loss(x, y)
        torch._foreach_mul_([p.data for p in b.model.parameters()], 0.9)
        with torch.no_grad():
            torch._foreach_mul_(list(b.model.parameters()), 0.9)
        try:
            loss.backward()
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error)
        return False

    return b.world(step)


@case("hidden")
def objects_looked_at_in_the_step() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        held = [one for one in gc.get_objects() if isinstance(one, nn.Module)]
        b.log.append(any(one is b.model for one in held))
        return loss

    return b.world(step)


def rolled(dims: Any, layout: torch.memory_format, shape: tuple[int, ...]) -> Any:
    """A case with noise laid out as a batch that was rolled by another number in each call."""

    def build() -> Any:
        b = Bench(nn.Sequential(nn.Flatten(), nn.Linear(8, 4)), sgd, count=9)
        calls = [0]

        def step(x: Tensor, y: Tensor) -> Tensor:
            calls[0] += 1
            images = x.view(x.shape[0], *shape).to(memory_format=layout)
            shifts = calls[0] % 3 if isinstance(dims, int) else [calls[0] % 3] * len(dims)
            moved = torch.roll(images, shifts, dims)
            return b.usual(moved + 0.1 * torch.randn_like(moved), y)

        return b.world(step, calls)

    return build


add("layout", "rolled_rows", rolled(2, torch.channels_last, (2, 2, 2)))
add("layout", "rolled_twice", rolled((2, 3), torch.channels_last, (2, 2, 2)))
add("layout", "rolled_volume", rolled(3, torch.channels_last_3d, (2, 2, 2, 1)))
