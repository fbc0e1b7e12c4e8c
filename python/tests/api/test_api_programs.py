"""How many programs and homes a step has, and that later calls add none."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from api_models import compiled
from torch import Tensor, nn


def test_programs_of_sizes_that_data_decides_add_no_homes() -> None:
    """As a mixture of experts collects results: each call writes a tensor that it has made, from
    tokens whose count is another one. Each had a home of its own, for which the arena grew."""
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x: Tensor) -> Tensor:
        out = torch.zeros_like(x) + model.bias.detach()
        tokens = torch.where(x[:, 0] > 0)[0]
        out.index_add_(0, tokens, model(x[tokens]))
        optimizer.zero_grad()
        loss = out.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    batches = [torch.randn(12, 8) for _ in range(8)]
    with compiled(train, (batches[0],)) as step:
        for x in batches:
            step(x)
        assert len({x[:, 0].gt(0).sum().item() for x in batches}) > 3
        assert len(step._session.homes) == 4, "weight, bias and their gradients at most"


def test_what_leads_to_a_sparse_gradient_is_known_at_the_next_call() -> None:
    """No program can make it, so one ends before it. Each call made that program anew."""
    torch.manual_seed(0)
    table = nn.Embedding(12, 5, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)

    def train(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = table(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    with compiled(train, (torch.arange(6),), audits="off") as step:
        step(torch.arange(6))
        known = len(step.variants)
        step(torch.arange(5, 11))
        step(torch.arange(6))
        assert len(step.variants) == known


@pytest.mark.parametrize("keeps", ["a number", "a tensor"])
def test_state_that_is_replaced_makes_no_programs_in_later_calls(keeps: str) -> None:
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))
    state = {p: torch.zeros(()) if keeps == "a number" else p * 0 for p in layers.parameters()}
    state = {p: kept.detach() for p, kept in state.items()}

    def train(x: Tensor) -> Tensor:
        for layer in layers:
            x = torch.tanh(layer(x))
        loss = x.square().mean()
        loss.backward()
        with torch.no_grad():
            for p in layers.parameters():
                grad = p.grad.mean() if keeps == "a number" else p.grad
                state[p] = state[p] * 0.9 + grad * 0.1
                p -= state[p]
                p.grad = None
        return loss

    with compiled(train, (torch.randn(3, 4),), audits="off") as step:
        for _ in range(3):
            step(torch.randn(3, 4))
        known = len(step.variants)
        for _ in range(6):
            step(torch.randn(3, 4))
        assert len(step.variants) == known


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_batch_drawn_behind_attention_ends_a_program_only_if_that_draws(dropout: float) -> None:
    """As nanoGPT takes its next batch between forward and backward."""
    torch.manual_seed(0)
    model, data = nn.Linear(8, 8), torch.arange(400) % 7
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = [torch.arange(16).view(2, 8)]

    def train() -> Tensor:
        q = model(batch[0].float()).view(2, 1, 2, 4)
        out = nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=dropout)
        loss = out.square().mean()
        batch[0] = torch.stack([data[i : i + 8] for i in torch.randint(390, (2,))])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    with compiled(train, (), audits="off") as step:
        for _ in range(4):
            step()
        assert len(step.variants) == (1 if dropout == 0 else 2)


def test_what_a_function_holds_ends_with_it_where_its_programs_are_planned() -> None:
    """Without Python's collector; the arena grows for programs that no preview has seen."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
    ended: list[weakref.ref[Any]] = []

    def clip(x: Tensor, y: Tensor, held: Any) -> Tensor:
        ended.append(weakref.ref(held))
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                norm = p.grad.norm().item()
                p.grad.mul_(0.3 / norm) if norm > 0.3 else p.grad.add_(1e-3)
                p.sub_(0.1 * p.grad)
                p.grad = None
        return loss.detach()

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, bool]:
        return clip(x, y, nn.Module()), ended[-1]() is None

    x, y = torch.randn(6, 8), torch.randint(4, (6,))
    with compiled(step, (x, y), budget=None) as call:
        gc.collect()
        gc.disable()
        try:
            assert all(call(x * 2**i, y)[1] for i in range(3))
        finally:
            gc.enable()
