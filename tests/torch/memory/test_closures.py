"""A closure of `optimizer.step` is planned as code outside it is: its operators are recomputed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from fitstep_kit.measures.bits import differences, fingerprint
from torch import nn

import fitstep


def with_argument(optimizer: Any, closure: Callable[[], Any]) -> Any:
    return optimizer.step(closure)


def with_keyword(optimizer: Any, closure: Callable[[], Any]) -> Any:
    return optimizer.step(closure=closure)


def trained(call: Callable[..., Any], kind: type[Any], budget: str | None) -> tuple[Any, int]:
    """The bits after two steps, and how many ops the last of them recomputed."""
    torch.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (nn.Linear(32, 32), nn.GELU())]
    model = nn.Sequential(*layers)
    optimizer = kind(model.parameters(), lr=0.01)
    x = torch.randn(512, 32)

    def train_step(x: torch.Tensor) -> Any:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        return call(optimizer, closure)

    step: Any = train_step
    if budget is not None:
        step = fitstep.compile(train_step, (x,), budget)
    losses = [step(x).detach() for _ in range(2)]
    again = 0
    if budget is not None:
        again = sum(one.recomputed_ops for one in step.report().variants)
        step.close()
    return fingerprint(model=model, optimizer=optimizer.state_dict(), losses=losses), again


@pytest.mark.parametrize("call", [with_argument, with_keyword])
def test_what_a_closure_calls_is_recomputed(call: Callable[..., Any]) -> None:
    """Lightning calls every optimizer with a closure."""
    plain, _ = trained(call, torch.optim.AdamW, None)
    ours, again = trained(call, torch.optim.AdamW, "60%")
    assert differences(ours, plain) == []
    assert again > 0


def test_a_closure_that_is_called_often_has_plain_bits() -> None:
    plain, _ = trained(with_argument, torch.optim.LBFGS, None)
    ours, _ = trained(with_argument, torch.optim.LBFGS, "100%")
    assert differences(ours, plain) == []


class Scaled(torch.optim.SGD):
    """Its step takes a number, where others take a closure."""

    def step(self, scale: Any) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad * scale, alpha=-group["lr"])


@pytest.mark.parametrize("scale", [0.5, torch.tensor(0.5)])
def test_an_optimizer_may_take_something_else_than_a_closure(scale: Any) -> None:
    def call(optimizer: Any, closure: Callable[[], Any]) -> Any:
        loss = closure()
        optimizer.step(scale)
        return loss

    plain, _ = trained(call, Scaled, None)
    ours, _ = trained(call, Scaled, "100%")
    assert differences(ours, plain) == []
