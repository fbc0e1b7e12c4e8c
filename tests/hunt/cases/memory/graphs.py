"""Autograd graphs: kept from call to call, looked at, run in unusual ways."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from kit import Do, Later, add, case
from torch import Tensor, nn
from worlds import Bench, batches, sgd


@case("graph")
def graph_losses_summed_over_two_calls() -> Any:
    b, pending = Bench(make=sgd), []

    def step(x: Tensor, y: Tensor) -> float:
        pending.append(b.loss(x, y))
        if len(pending) == 2:
            b.update(sum(pending))
            pending.clear()
        return float(len(pending))

    return b.world(step, calls=batches(6))


@case("graph")
def graph_hidden_state_not_detached_for_two_calls() -> Any:
    b = Bench(nn.ModuleDict({"rnn": nn.GRUCell(8, 8), "out": nn.Linear(8, 4)}), make=sgd)
    state: dict[str, Any] = {"h": torch.zeros(6, 8), "n": 0, "loss": 0}

    def step(x: Tensor, y: Tensor) -> int:
        state["h"] = b.model["rnn"](x, state["h"])
        state["loss"] = state["loss"] + F.cross_entropy(b.model["out"](state["h"]), y)
        state["n"] += 1
        if state["n"] % 2 == 0:
            b.update(state["loss"])
            state["h"], state["loss"] = state["h"].detach(), 0
        return state["n"]

    return b.world(step, calls=batches(6))


@case("graph")
def graph_losses_kept_with_their_graphs() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> float:
        loss = b.usual(x, y)
        b.log.append(loss)
        return sum(b.log).item()

    return b.world(step)


@case("graph")
def graph_backward_with_gradient() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.opt.zero_grad()
        out = b.model(x)
        torch.autograd.backward(
            [out, out.sum()], [out.detach() - F.one_hot(y, 4), torch.tensor(0.1)]
        )
        b.opt.step()
        return out

    return b.world(step)


@case("graph")
def graph_cut_at_a_leaf() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        hidden = b.model[:2](x)
        leaf = hidden.detach().requires_grad_()
        b.opt.zero_grad()
        loss = F.cross_entropy(b.model[2](leaf), y)
        loss.backward()
        hidden.backward(leaf.grad)
        b.opt.step()
        return loss

    return b.world(step)


@case("graph")
def graph_hook_of_a_node() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        loss.grad_fn.register_hook(lambda into, out: b.log.append(out[0].item()))
        torch.autograd.graph.register_multi_grad_hook(
            list(b.model.parameters()), lambda grads: b.log.append(len(grads))
        )
        return b.update(loss)

    return b.world(step)


@case("graph")
def graph_saved_tensors_looked_at() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> tuple[str, float]:
        out = b.model(x).exp()
        saved = out.grad_fn._saved_result
        b.update(F.cross_entropy(out, y))
        return out.grad_fn.name(), saved.mean().item()

    return b.world(step)


@case("graph")
def graph_batched_gradients() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x[:1])[0]
        ps = list(b.model.parameters())
        rows = torch.autograd.grad(out, ps, torch.eye(4), is_grads_batched=True, retain_graph=True)
        for p, g in zip(ps, rows, strict=True):
            p.grad = g.mean(0)
        b.opt.step()
        return out

    return b.world(step)


@case("graph")
def graph_unused_and_materialized() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> list[bool]:
        loss = b.model[2](x).square().mean()
        ps = list(b.model.parameters())
        gs = torch.autograd.grad(loss, ps, allow_unused=True)
        zeros = torch.autograd.grad(b.loss(x, y), ps, materialize_grads=True)
        for p, g, z in zip(ps, gs, zeros, strict=True):
            p.grad = z if g is None else g + z
        b.opt.step()
        return [g is None for g in gs]

    return b.world(step)


@case("graph")
def graph_views_and_changes_in_place() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        out = b.model(x)
        out[:, 0] += 1
        out.view(-1)[3:9].mul_(0.5)
        out.transpose(0, 1)[1].sub_(out[:, 2].detach())
        return b.update(F.cross_entropy(out, y))

    return b.world(step)


@case("graph")
def graph_of_double_backward_through_norm() -> Any:
    b = Bench(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4)))

    def step(x: Tensor, y: Tensor) -> Tensor:
        z = x.clone().requires_grad_()
        loss = F.cross_entropy(b.model(z), y)
        (g,) = torch.autograd.grad(loss, z, create_graph=True)
        return b.update(loss + g.square().sum())

    return b.world(step)


@case("graph")
def gradient_is_none_at_the_start() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> list[bool]:
        seen = [p.grad is None for p in b.model.parameters()]
        b.usual(x, y)
        return seen

    return b.world(step)


@case("graph")
def last_gradient_norm_at_the_start() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> float:
        norms = [p.grad.norm().item() for p in b.model.parameters() if p.grad is not None]
        b.usual(x, y)
        return sum(norms)

    return b.world(step)


@case("graph")
def gradients_zeroed_in_place_by_hand() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        for p in b.model.parameters():
            if p.grad is not None:
                p.grad.detach_()
                p.grad.zero_()
        loss = b.loss(x, y)
        loss.backward()
        b.opt.step()
        return loss

    return b.world(step)


@case("graph")
def parameters_pruned_after_each_step() -> Any:
    b = Bench(make=sgd)
    mask = torch.rand(8, 8) > 0.4

    def step(x: Tensor, y: Tensor) -> int:
        b.usual(x, y)
        b.model[0].weight.data[~mask] = 0
        b.model[2].weight.data.clamp_(-0.2, 0.2)
        b.model[2].bias.data = b.model[2].bias.data - b.model[2].bias.data.mean()
        return int((b.model[0].weight == 0).sum())

    return b.world(step)


@case("graph")
def parameters_from_a_vector_inside() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        vector = nn.utils.parameters_to_vector(b.model.parameters())
        nn.utils.vector_to_parameters(vector / vector.norm().clamp(min=1), b.model.parameters())
        return loss

    return b.world(step)


@case("graph")
def requires_grad_switched_inside() -> Any:
    b, n = Bench(make=sgd), [0]

    def step(x: Tensor, y: Tensor) -> int:
        n[0] += 1
        b.model[0].requires_grad_(n[0] % 2 == 0)
        b.usual(x, y)
        return sum(p.grad is not None for p in b.model.parameters())

    return b.world(step, n)


@case("graph")
def modes_of_parts_switched_inside() -> Any:
    b, n = Bench(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))), [0]

    def step(x: Tensor, y: Tensor) -> bool:
        n[0] += 1
        b.model[1].train(n[0] < 3)
        b.usual(x, y)
        return b.model[1].training

    return b.world(step, n)


def graph_from_before(*, retains: bool) -> Any:
    """A case whose step goes backward through a graph that was there before compile."""

    def build() -> Any:
        b = Bench()
        base = torch.ones(8, requires_grad=True)
        made = base * 2
        if retains:
            made.retain_grad()

        def step(x: Tensor, y: Tensor) -> Tensor:
            b.opt.zero_grad()
            loss = b.loss(x * made, y)
            loss.backward(retain_graph=True)
            b.opt.step()
            return loss

        return step, b.calls, lambda: (b.model, b.opt, base.grad, made.grad if retains else None)

    return build


add("graph", "leaf_behind_a_graph_from_before", graph_from_before(retains=False))
add("graph", "gradient_is_retained_on_a_graph_from_before", graph_from_before(retains=True))


def arguments_with_graphs(change: Any) -> Any:
    """A case whose step is called with what a model outside of it has made."""

    def build() -> Any:
        b = Bench()
        encoder = nn.Linear(8, 8)
        outer = torch.optim.SGD(encoder.parameters(), lr=0.1)

        def encode(x: Tensor) -> Tensor:
            outer.zero_grad()
            return encoder(x)

        def call(x: Tensor, y: Tensor) -> Any:
            return Later(lambda _: (encode(x), y))

        def step(features: Tensor, y: Tensor) -> Tensor:
            return b.usual(change(features), y)

        calls: list[Any] = [(encode(b.calls[0][0]), b.calls[0][1]), Do(outer.step)]
        for x, y in b.calls[1:]:
            calls += [call(x, y), Do(outer.step)]
        return b.world(step, encoder, calls=calls)

    return build


add("graph", "arguments_have_graphs", arguments_with_graphs(lambda features: features))
add("graph", "arguments_with_graphs_are_written", arguments_with_graphs(Tensor.relu_))
add(
    "graph",
    "views_of_arguments_with_graphs_are_written",
    arguments_with_graphs(lambda features: features * features[:, :1].mul_(2.0)),
)


@case("graph")
def attribute_has_a_graph_that_a_step_uses_up() -> Any:
    b = Bench()
    encoder = nn.Linear(8, 8)
    outer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    held = [encoder(b.calls[0][0])]

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(b.model(held[0] + x), y))

    def again(x: Tensor) -> None:
        outer.step()
        outer.zero_grad()
        held[0] = encoder(x)

    calls: list[Any] = []
    for x, y in b.calls:
        calls += [(x, y), Do(lambda x=x: again(x))]
    return b.world(step, encoder, calls=calls)
