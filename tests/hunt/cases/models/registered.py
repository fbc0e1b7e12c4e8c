"""Custom operators with unusual schemas, and kernels that are registered past `custom_op`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from kit import case
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from worlds import Bench, sgd

_names = itertools.count()
_alive: list[torch.library.Library] = []  # For as long as the process lives.


@case("custom")
def custom_with_a_number_beside_a_tensor() -> Any:
    b = Bench(make=sgd)
    op = torch.library.custom_op(
        f"hunt_registered::op_{next(_names)}",
        lambda x: (x * 2, int(x.abs().sum().item() * 10)),
        mutates_args=(),
        schema="(Tensor x) -> (Tensor, SymInt)",
    )
    op.register_fake(lambda x: (torch.empty_like(x), 1))
    op.register_autograd(lambda _ctx, grad, _number: grad * 2)

    def step(x: Tensor, y: Tensor) -> Tensor:
        made, number = op(b.model(x))
        b.log.append(number)
        return b.update(F.cross_entropy(made, y) * number)

    return b.world(step)


@case("custom")
def custom_with_more_tensors_than_its_fake_kernel() -> Any:
    b = Bench(make=sgd)
    op = torch.library.custom_op(
        f"hunt_registered::op_{next(_names)}",
        lambda x: [x.clone() for _ in range(2 + int(x.sum() > 0))],
        mutates_args=(),
        schema="(Tensor x) -> Tensor[]",
    )
    op.register_fake(lambda x: [torch.empty_like(x) for _ in range(2)])
    op.register_autograd(lambda _ctx, grads: sum(g for g in grads if g is not None))

    def step(x: Tensor, y: Tensor) -> Tensor:
        made = op(b.model(x))
        b.log.append(len(made))
        return b.update(F.cross_entropy(sum(made), y))

    return b.world(step)


@case("custom")
def custom_with_state_in_a_default_argument() -> Any:
    b, name = Bench(make=sgd), f"op_{next(_names)}"
    library = _library()
    library.define(f"{name}(Tensor x) -> Tensor")
    counts = [0]

    def compute(x: Tensor, counts: list[int] = counts) -> Tensor:
        counts[0] += 1
        return x * counts[0]

    library.impl(name, compute, "CPU")
    library.impl(name, torch.empty_like, "Meta")
    library.impl(name, functools.partial(_past_autograd, compute), "AutogradCPU")
    op = getattr(torch.ops.hunt_registered, name)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(b.model(x) + op(x.mean(0, keepdim=True)).sum(), y)
        return b.update(loss)

    return b.world(step, counts)


def _library() -> torch.library.Library:
    _alive.append(torch.library.Library("hunt_registered", "FRAGMENT"))
    return _alive[-1]


def _past_autograd(compute: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return compute(x.detach())


@case("custom")
def custom_kernel_of_pytorch_s_own_operator() -> Any:
    """Put back when the case is gone, as the library is."""
    b, counts = Bench(make=sgd), [0]
    library = torch.library.Library("aten", "IMPL")

    def compute(x: Tensor) -> Tensor:
        counts[0] += 1
        return torch.tanh(x) * counts[0]

    library.impl("erfinv", compute, "CPU")

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            scale = 1 + torch.erfinv(x).mean()
        return b.update(F.cross_entropy(b.model(x) * scale, y))

    step.library = library  # It goes with the case.
    return b.world(step, counts)


@case("custom")
def custom_writes_what_its_schema_does_not_say() -> Any:
    b, name = Bench(make=sgd), f"op_{next(_names)}"
    library = _library()
    library.define(f"{name}(Tensor x) -> ()")

    def halve(x: Tensor) -> None:
        x.detach().mul_(0.5)

    library.impl(name, halve, "CPU")
    library.impl(name, lambda x: None, "Meta")

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            getattr(torch.ops.hunt_registered, name)(b.model[0].weight)
        return b.usual(x, y)

    return b.world(step)


@case("custom")
def custom_in_place_of_the_state() -> Any:
    b, kept = Bench(make=sgd), torch.ones(4)
    name = f"hunt_registered::op_{next(_names)}"

    def compute(x: Tensor, n: float) -> None:
        x.mul_(n)

    op = torch.library.custom_op(
        name, compute, mutates_args={"x"}, schema="(Tensor(a!) x, float n) -> ()"
    )

    def step(x: Tensor, y: Tensor) -> Tensor:
        op(kept, 1.5)
        return b.update(F.cross_entropy(b.model(x) * kept, y))

    return b.world(step, kept)


@case("custom")
def custom_without_arguments() -> Any:
    b, counts = Bench(make=sgd), [0]

    def compute() -> Tensor:
        counts[0] += 1
        return torch.full((), float(counts[0]))

    name = f"hunt_registered::op_{next(_names)}"
    op = torch.library.custom_op(name, compute, mutates_args=(), schema="() -> Tensor")
    op.register_fake(lambda: torch.empty(()))

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(b.model(x) * op(), y))

    return b.world(step, counts)


class _Product(torch.autograd.Function):
    """A matrix product whose three kernels are custom operators."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return _multiplied(x, w.t())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return _multiplied(grad, w), _multiplied(grad.t().contiguous(), x)


@torch.library.custom_op("hunt_registered::multiplied", mutates_args=())
def _multiplied(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


_multiplied.register_fake(lambda a, b: a.new_empty(a.shape[0], b.shape[1]))


def _clipped(b: Bench, loss: Tensor) -> Tensor:
    loss.backward()
    torch.nn.utils.clip_grad_norm_(b.model.parameters(), 0.1)
    b.opt.step()
    b.opt.zero_grad()
    return loss.detach()


def _accumulated(b: Bench, loss: Tensor) -> Tensor:
    loss.backward()
    b.log.append(len(b.log))
    if len(b.log) % 2 == 0:
        b.opt.step()
        b.opt.zero_grad(set_to_none=False)
    return loss.detach()


def _projected(b: Bench, loss: Tensor) -> Tensor:
    loss.backward()
    for p in b.model.parameters():
        if p.dim() == 2:
            p.grad = _multiplied(p.grad, torch.eye(p.shape[1]))
    b.opt.step()
    b.opt.zero_grad()
    return loss.detach()


_ENDS: dict[str, Callable[[Bench, Tensor], Tensor]] = {
    "usual": Bench.update,
    "clipped": _clipped,
    "accumulated": _accumulated,
    "projected": _projected,
}


def _trained(end: str, *, is_checkpointed: bool) -> Callable[[], Any]:
    def custom() -> Any:
        b = Bench()
        weight = b.model[2].weight

        def layer(x: Tensor) -> Tensor:
            return _Product.apply(b.model[:2](x), weight)

        def step(x: Tensor, y: Tensor) -> Tensor:
            out = checkpoint(layer, x, use_reentrant=False) if is_checkpointed else layer(x)
            return _ENDS[end](b, F.cross_entropy(out + b.model[2].bias, y))

        return b.world(step)

    custom.__name__ = f"custom_gradients_{end}" + "_checkpointed" * is_checkpointed
    return custom


for _end, _is_checkpointed in itertools.product(_ENDS, (False, True)):
    case("custom")(_trained(_end, is_checkpointed=_is_checkpointed))


@case("custom")
def custom_with_another_tensor_over_its_argument() -> Any:
    b, kept, name = Bench(make=sgd), torch.ones(4), f"op_{next(_names)}"
    library = _library()
    library.define(f"{name}(Tensor(a) x) -> Tensor(a)")
    library.impl(name, lambda x: x.view(-1), "CompositeExplicitAutograd")

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            getattr(torch.ops.hunt_registered, name)(kept).mul_(1.1)
        return b.update(F.cross_entropy(b.model(x) * kept, y))

    return b.world(step, kept)
