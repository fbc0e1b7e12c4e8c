"""Gradients: accumulated, looked at, kept, changed."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from kit import Call, Do, case
from torch import Tensor, nn
from worlds import Bench, batches, sgd


@case("accumulation")
def accumulates_by_flag() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor, update: bool) -> Tensor:
        loss = b.loss(x, y) / 2
        loss.backward()
        if update:
            b.opt.step()
            b.opt.zero_grad()
        return loss

    return b.world(step, calls=[(*d, k % 2 == 1) for k, d in enumerate(batches(6))])


@case("accumulation")
def accumulates_and_sets_to_zero() -> Any:
    b, n = Bench(make=sgd), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        loss.backward()
        n[0] += 1
        if n[0] % 3 == 0:
            b.opt.step()
            b.opt.zero_grad(set_to_none=False)
        return loss

    return b.world(step, n, calls=batches(6))


@case("accumulation")
def sets_to_zero_first() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.opt.zero_grad(set_to_none=False)
        loss = b.loss(x, y)
        loss.backward()
        b.opt.step()
        return loss

    return b.world(step)


@case("accumulation")
def never_sets_to_zero() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        loss.backward()
        b.opt.step()
        return loss

    return b.world(step)


@case("accumulation")
def sets_to_zero_after() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        loss.backward()
        b.opt.step()
        b.model.zero_grad(set_to_none=True)
        return loss

    return b.world(step)


@case("accumulation")
def decays_gradients_by_hand() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        for p in b.model.parameters():
            if p.grad is not None:
                p.grad.mul_(0.5)
        loss = b.loss(x, y)
        loss.backward()
        b.opt.step()
        return loss

    return b.world(step)


@case("accumulation")
def micro_batches_in_a_call() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> list[float]:
        b.opt.zero_grad()
        losses = []
        for part, labels in zip(x.split(2), y.split(2), strict=True):
            loss = b.loss(part, labels) / 3
            loss.backward()
            losses.append(loss.item())
        b.opt.step()
        return losses

    return b.world(step)


@case("accumulation")
def list_of_micro_batches() -> Any:
    b = Bench()

    def step(parts: list[Any]) -> Tensor:
        b.opt.zero_grad()
        total = torch.zeros(())
        for x, y in parts:
            loss = b.loss(x, y) / len(parts)
            loss.backward()
            total += loss.detach()
        b.opt.step()
        return total

    data = batches(9)
    return b.world(step, calls=[(data[:2],), (data[2:4],), (data[4:7],), (data[7:],)])


@case("accumulation")
def accumulate_and_update_compiled_apart() -> Any:
    b = Bench()

    def accumulate(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y) / 2
        loss.backward()
        return loss

    def update() -> None:
        b.opt.step()
        b.opt.zero_grad()

    one, two, three, four, _ = b.calls
    calls = [Call(*one), Call(*two), Call(which=1), Call(*three), Call(*four), Call(which=1)]
    return [accumulate, update], calls, b.probe()


@case("accumulation")
def backward_compiled_optimizer_outside() -> Any:
    b = Bench()

    def backward(x: Tensor, y: Tensor) -> Tensor:
        b.opt.zero_grad()
        loss = b.loss(x, y)
        loss.backward()
        return loss

    calls: list[Any] = []
    for batch in b.calls:
        calls += [batch, Do(lambda: b.opt.step())]
    return backward, calls, lambda: (b.model, b.opt, [p.grad for p in b.model.parameters()])


@case("accumulation")
def optimizer_outside_with_clip_and_item() -> Any:
    b = Bench()

    def backward(x: Tensor, y: Tensor) -> float:
        loss = b.loss(x, y)
        loss.backward()
        return loss.item()

    def update() -> None:
        b.log.append(nn.utils.clip_grad_norm_(b.model.parameters(), 0.3).item())
        b.opt.step()
        b.opt.zero_grad()

    calls: list[Any] = []
    for batch in b.calls:
        calls += [batch, Do(update)]
    return b.world(backward, calls=calls)


@case("gradient", keep_grads=True)
def gradients_kept_after_the_step() -> Any:
    b = Bench()
    return b.usual, b.calls, lambda: (b.model, [p.grad for p in b.model.parameters()])


@case("gradient", keep_grads=True)
def gradients_read_between_calls() -> Any:
    b = Bench()
    read = Do(lambda: b.log.append([p.grad.norm().item() for p in b.model.parameters()]))
    one, two, three, *_ = b.calls
    return b.world(b.usual, calls=[one, read, two, read, three, read])


@case("gradient")
def gradient_norms_logged() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.opt.zero_grad()
        loss = b.loss(x, y)
        loss.backward()
        b.log.append({n: p.grad.norm().item() for n, p in b.model.named_parameters()})
        b.opt.step()
        return loss

    return b.world(step)


@case("gradient")
def gradients_cloned_and_kept() -> Any:
    b = Bench()
    kept: list[Any] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        new = [p.grad.clone() for p in b.model.parameters()]
        if kept:
            b.log.append(sum((g * h).sum() for g, h in zip(new, kept[-1], strict=True)).item())
        kept.append(new)
        return loss

    return b.world(step, kept)


@case("gradient")
def gradients_returned() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> list[Tensor]:
        b.usual(x, y)
        return [p.grad for p in b.model.parameters()]

    return b.world(step)


@case("gradient")
def gradients_set_by_hand() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        ps = list(b.model.parameters())
        for p, g in zip(ps, torch.autograd.grad(loss, ps), strict=True):
            p.grad = g.sign() * 0.1
        ps[0].grad = None
        b.opt.step()
        return loss

    return b.world(step)


@case("gradient")
def clip_by_norm_and_by_value() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        b.opt.zero_grad()
        loss = b.loss(x, y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(b.model.parameters(), 0.5, error_if_nonfinite=True)
        nn.utils.clip_grad_value_(b.model.parameters(), 0.05)
        b.opt.step()
        return loss, norm

    return b.world(step)


@case("gradient")
def two_backwards_of_one_graph() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.opt.zero_grad()
        out = b.model(x)
        one, two = F.cross_entropy(out, y), out.square().mean()
        one.backward(retain_graph=True)
        two.backward()
        b.opt.step()
        return one + two

    return b.world(step)


@case("gradient")
def backward_into_some_parameters() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.opt.zero_grad()
        loss = b.loss(x, y)
        loss.backward(inputs=[b.model[2].weight, b.model[0].bias])
        b.opt.step()
        return loss

    return b.world(step)


@case("gradient")
def projects_conflicting_gradients() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> bool:
        out, ps = b.model(x), list(b.model.parameters())
        one = torch.autograd.grad(F.cross_entropy(out, y), ps, retain_graph=True)
        two = torch.autograd.grad(out.square().mean(), ps)
        dot = sum((g * h).sum() for g, h in zip(one, two, strict=True))
        for p, g, h in zip(ps, one, two, strict=True):
            p.grad = g + h - (dot / 10 * g if dot < 0 else 0)
        b.opt.step()
        return bool(dot < 0)

    return b.world(step)


@case("gradient")
def parameter_without_gradient_now_and_then() -> Any:
    b = Bench(nn.ModuleList([nn.Linear(8, 4) for _ in range(3)]))

    def step(x: Tensor, y: Tensor) -> list[bool]:
        b.opt.zero_grad()
        loss = F.cross_entropy(b.model[int(y[0]) % 3](x), y)
        loss.backward()
        used = [p.grad is not None for p in b.model.parameters()]
        b.opt.step()
        return used

    return b.world(step)
