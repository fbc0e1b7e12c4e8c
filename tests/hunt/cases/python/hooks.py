"""Hooks of modules, tensors and optimizers; functions with their own backward."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from kit import Do, case
from torch import Tensor, nn
from torch.autograd import Function
from worlds import Bench, sgd


@case("hook")
def hook_forward_records_activations() -> Any:
    b, seen = Bench(), {}
    for name, part in b.model.named_children():
        part.register_forward_hook(lambda m, i, o, name=name: seen.update({name: o.detach()}))
    return b.world(b.usual, seen)


@case("hook")
def hook_forward_counts_and_logs() -> Any:
    b = Bench()
    b.model[0].register_forward_hook(lambda m, i, o: b.log.append((len(b.log), o.mean().item())))
    return b.world(b.usual)


@case("hook")
def hook_forward_changes_the_output() -> Any:
    b = Bench()
    b.model[1].register_forward_hook(lambda m, i, o: o * 2)
    b.model[0].register_forward_pre_hook(lambda m, i: (i[0] + 1,))
    return b.world(b.usual)


@case("hook")
def hook_backward_of_a_module() -> Any:
    b = Bench()

    def hook(module: Any, into: Any, out: Any) -> Any:
        b.log.append(out[0].norm().item())
        return (into[0] * 0.5,)

    b.model[1].register_full_backward_hook(hook)
    b.model[2].register_full_backward_pre_hook(lambda m, out: (out[0] * 2,))
    return b.world(b.usual)


@case("hook")
def hook_of_a_tensor() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        hidden = b.model[:2](x)
        hidden.register_hook(lambda g: g.clamp(-0.01, 0.01))
        hidden.register_hook(lambda g: b.log.append(g.abs().max().item()))
        return b.update(F.cross_entropy(b.model[2](hidden), y))

    return b.world(step)


@case("hook")
def hook_of_a_parameter() -> Any:
    b = Bench()
    b.model[0].weight.register_hook(lambda g: g * 0.1)
    return b.world(b.usual)


@case("hook")
def hook_after_accumulation() -> Any:
    b = Bench()
    opts = {p: torch.optim.SGD([p], lr=0.1, momentum=0.9) for p in b.model.parameters()}

    def hook(p: Tensor) -> None:
        opts[p].step()
        opts[p].zero_grad()

    for p in b.model.parameters():
        p.register_post_accumulate_grad_hook(hook)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        loss.backward()
        return loss

    return step, b.calls, lambda: (b.model, list(opts.values()))


@case("hook")
def hook_of_an_optimizer() -> Any:
    b = Bench()
    b.opt.register_step_pre_hook(lambda opt, a, k: b.log.append("before"))

    def after(opt: Any, a: Any, k: Any) -> None:
        with torch.no_grad():
            for p in b.model.parameters():
                p.clamp_(-0.3, 0.3)

    b.opt.register_step_post_hook(after)
    return b.world(b.usual)


@case("hook")
def hook_of_an_optimizer_added_later() -> Any:
    b = Bench()

    def after(opt: Any, a: Any, k: Any) -> None:
        with torch.no_grad():
            for p in b.model.parameters():
                p.clamp_(-0.05, 0.05)

    add = Do(lambda: b.opt.register_step_post_hook(after))
    return b.world(b.usual, calls=[*b.calls[:2], add, *b.calls[2:]])


@case("hook")
def hook_of_a_module_added_and_removed() -> Any:
    b, handles = Bench(), []
    add = Do(lambda: handles.append(b.model[1].register_forward_hook(lambda m, i, o: o * 3)))
    remove = Do(lambda: handles.pop().remove())
    one, two, three, four, five = b.calls
    return b.world(b.usual, calls=[one, two, add, three, remove, four, five])


@case("hook")
def hook_of_a_parameter_added_later() -> Any:
    b = Bench(make=sgd)
    add = Do(lambda: b.model[0].weight.register_hook(lambda g: torch.zeros_like(g)))
    return b.world(b.usual, calls=[*b.calls[:2], add, *b.calls[2:]])


@case("hook")
def hook_added_inside_once() -> Any:
    b, state = Bench(), {"hooked": False}

    def step(x: Tensor, y: Tensor) -> Tensor:
        if not state["hooked"]:
            b.model[0].register_forward_hook(lambda m, i, o: b.log.append(o.shape[0]))
            state["hooked"] = True
        return b.usual(x, y)

    return b.world(step, state)


@case("hook")
def hook_of_a_parameter_added_inside() -> Any:
    b, state = Bench(make=sgd), {"hooked": False}

    def halve(p: Tensor) -> None:
        p.grad.mul_(0.5)

    def step(x: Tensor, y: Tensor) -> Tensor:
        if not state["hooked"]:
            b.model[0].weight.register_hook(lambda g: g * 0.5)
            b.model[2].weight.register_post_accumulate_grad_hook(halve)
            state["hooked"] = True
        return b.usual(x, y)

    return b.world(step, state)


@case("hook")
def hook_for_all_modules() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        def hook(m: Any, i: Any, o: Tensor) -> None:
            b.log.append((type(m).__name__, o.detach().std().item()))

        handle = nn.modules.module.register_module_forward_hook(hook)
        try:
            return b.usual(x, y)
        finally:
            handle.remove()

    return b.world(step)


@case("hook")
def hook_of_saved_tensors() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> int:
        sizes = []

        def pack(t: Tensor) -> Tensor:
            sizes.append(t.numel())
            return t.to(torch.bfloat16) if t.is_floating_point() and t.requires_grad else t

        def unpack(t: Tensor) -> Tensor:
            return t.float() if t.dtype == torch.bfloat16 else t

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            b.usual(x, y)
        return sum(sizes)

    return b.world(step)


@case("hook")
def saved_on_cpu_context() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.autograd.graph.save_on_cpu():
            loss = b.loss(x, y)
        return b.update(loss)

    return b.world(step)


@case("hook")
def gradient_of_an_intermediate_kept() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        hidden = b.model[0](x)
        hidden.retain_grad()
        b.update(F.cross_entropy(b.model[1:](hidden), y))
        b.log.append(hidden.grad.abs().mean().item())
        return hidden.grad

    return b.world(step)


class Counted(Function):
    """A function that counts its calls and keeps a number on its context."""

    forwards, backwards = 0, 0

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        Counted.forwards += 1
        ctx.scale = scale * Counted.forwards
        ctx.save_for_backward(x)
        return x.square() * scale

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        Counted.backwards += 1
        (x,) = ctx.saved_tensors
        return g * 2 * x * ctx.scale, None


@case("function")
def function_that_counts() -> Any:
    b = Bench()
    Counted.forwards = Counted.backwards = 0

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(Counted.apply(b.model(x), 0.5), y))

    return step, b.calls, lambda: (b.model, b.opt, Counted.forwards, Counted.backwards)


class Straight(Function):
    """A straight-through estimator that looks at values in its backward."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return (x > 0).float()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.mark_non_differentiable()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        limit = 0.5 if g.norm().item() > 0.2 else 1.0
        return g * (x.abs() < limit)


@case("function")
def function_straight_through() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(b.model[2](Straight.apply(b.model[0](x))), y))

    return b.world(step)


class Reverse(Function):
    """Gradient reversal."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: float) -> Tensor:
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return -ctx.weight * g, None


@case("function")
def function_reversal_with_a_schedule() -> Any:
    b, n = Bench(), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        hidden = b.model[:2](x)
        domain = Reverse.apply(hidden, n[0] / 5).sum(1)
        return b.update(F.cross_entropy(b.model[2](hidden), y) + domain.square().mean())

    return b.world(step, n)


@case("function")
def function_in_numpy() -> Any:
    class Sine(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return torch.from_numpy(x.detach().numpy().cumsum(1))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g.flip(1).cumsum(1).flip(1)

    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(Sine.apply(b.model(x)), y))

    return b.world(step)


@case("function")
def function_of_a_custom_operator() -> Any:
    b = Bench()
    if not hasattr(torch.ops.hunt, "twice"):
        op = torch.library.custom_op("hunt::twice", _twice, mutates_args=())
        op.register_fake(torch.empty_like)
        op.register_autograd(lambda ctx, g: g * 2)

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(torch.ops.hunt.twice(b.model(x)), y))

    return b.world(step)


def _twice(x: Tensor) -> Tensor:
    return x * 2


@case("function")
def anomaly_detection() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.autograd.detect_anomaly(check_nan=True):
            return b.usual(x, y)

    return b.world(step)


@case("function")
def names_in_the_graph() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> list[str]:
        loss = b.loss(x, y)
        node, names = loss.grad_fn, []
        while node is not None:
            names.append(type(node).__name__)
            node = node.next_functions[0][0] if node.next_functions else None
        b.update(loss * len(names))
        return names

    return b.world(step)
