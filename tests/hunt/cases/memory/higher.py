"""Gradients of gradients, and torch.func."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from kit import case
from torch import Tensor
from worlds import Bench, mlp, sgd


@case("second order")
def gradient_penalty() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        z = x.clone().requires_grad_()
        out = b.model(z)
        (g,) = torch.autograd.grad(out.sum(), z, create_graph=True)
        return b.update(F.cross_entropy(out, y) + 10 * (g.norm(dim=1) - 1).square().mean())

    return b.world(step)


@case("second order")
def hessian_vector_product() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> float:
        loss, ps = b.loss(x, y), list(b.model.parameters())
        gs = torch.autograd.grad(loss, ps, create_graph=True)
        dot = sum((g * torch.randn_like(g)).sum() for g in gs)
        hs = torch.autograd.grad(dot, ps, retain_graph=True)
        trace = sum(h.square().sum() for h in hs).item()
        b.update(loss / (1 + trace))
        return trace

    return b.world(step)


@case("second order")
def meta_learning_inner_step() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        named = dict(b.model.named_parameters())
        inner = F.cross_entropy(torch.func.functional_call(b.model, named, (x,)), y)
        gs = torch.autograd.grad(inner, list(named.values()), create_graph=True)
        fast = {n: p - 0.1 * g for (n, p), g in zip(named.items(), gs, strict=True)}
        return b.update(F.cross_entropy(torch.func.functional_call(b.model, fast, (x,)), y))

    return b.world(step)


@case("torch.func")
def func_grad() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        def loss(ps: Any) -> Tensor:
            return F.cross_entropy(torch.func.functional_call(b.model, ps, (x,)), y)

        ps = {n: p.detach() for n, p in b.model.named_parameters()}
        gs, value = torch.func.grad_and_value(loss)(ps)
        with torch.no_grad():
            for n, p in b.model.named_parameters():
                p -= 0.1 * gs[n]
        return value

    return b.world(step)


@case("torch.func")
def func_per_sample_gradients() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        def loss(ps: Any, one: Tensor, label: Tensor) -> Tensor:
            out = torch.func.functional_call(b.model, ps, (one[None],))
            return F.cross_entropy(out, label[None])

        ps = {n: p.detach() for n, p in b.model.named_parameters()}
        gs = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(ps, x, y)
        for n, p in b.model.named_parameters():
            norms = gs[n].flatten(1).norm(dim=1).clamp(min=0.1)
            p.grad = (gs[n].flatten(1) / norms[:, None]).mean(0).view_as(p)
        b.opt.step()
        return norms

    return b.world(step)


@case("torch.func")
def func_ensemble_by_vmap() -> Any:
    models = [mlp() for _ in range(3)]
    params, buffers = torch.func.stack_module_state(models)
    b = Bench()
    b.opt = torch.optim.Adam(params.values(), lr=0.01)

    def step(x: Tensor, y: Tensor) -> Tensor:
        def one(ps: Any, bs: Any) -> Tensor:
            return torch.func.functional_call(models[0], (ps, bs), (x,))

        outs = torch.func.vmap(one)(params, buffers)
        return b.update(F.cross_entropy(outs.flatten(0, 1), y.repeat(3)))

    return b.world(step, params)


@case("torch.func")
def func_forward_mode() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        out, moved = torch.func.jvp(b.model, (x,), (torch.ones_like(x),))
        return b.update(F.cross_entropy(out, y) + moved.square().mean())

    return b.world(step)


@case("torch.func")
def jacobian_of_the_model() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        jac = torch.autograd.functional.jacobian(b.model, x[0], create_graph=True)
        return b.update(b.loss(x, y) + 0.1 * jac.square().mean())

    return b.world(step)
