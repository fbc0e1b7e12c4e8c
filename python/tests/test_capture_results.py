"""What a step function returns: real tensors wherever they are, or a refusal."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

import fitstep


@dataclass
class Inner:
    logits: torch.Tensor
    kind: str = "inner"


@dataclass(frozen=True, slots=True)
class Out:
    loss: torch.Tensor
    more: dict[str, Inner] = field(default_factory=dict)


class Box:
    """An object of the user's."""

    def __init__(self, value: Any) -> None:
        self.value = value


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(6, 8, generator=generator), torch.randint(0, 5, (6,), generator=generator))
        for _ in range(4)
    ]


def trainer(result_of: Callable[..., Any]) -> tuple[nn.Module, Callable[..., Any]]:
    torch.manual_seed(0)
    model = nn.Linear(8, 5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        return result_of(model, loss, logits)

    return model, step


def test_dataclasses_in_results_hold_real_tensors() -> None:
    def result_of(_model: nn.Module, loss: torch.Tensor, logits: torch.Tensor) -> list[Out]:
        return [Out(loss, {"a": Inner(logits.detach())})]

    _, step = trainer(result_of)
    _, expected_step = trainer(result_of)
    compiled = fitstep.compile(step, example=batches()[0], budget="300%")
    kept = []
    for batch in batches():
        (found,), (expected,) = compiled(*batch), expected_step(*batch)
        assert type(found) is Out
        assert not isinstance(found.loss, FakeTensor)
        assert torch.equal(found.loss, expected.loss)
        assert type(found.more["a"]) is Inner
        assert torch.equal(found.more["a"].logits, expected.more["a"].logits)
        assert found.more["a"].kind == "inner"
        kept.append((found, expected))
    assert all(torch.equal(found.loss, expected.loss) for found, expected in kept)


def test_constants_and_the_model_itself_are_returned_as_they_are() -> None:
    constants = (None, "a", 3, torch.float32, Box(1), {1, 2}, Box)
    model, step = trainer(lambda model, loss, _logits: (loss, model, Box(model), constants))
    compiled = fitstep.compile(step, example=batches()[0], budget="300%")
    for batch in batches():
        _loss, same, box, found = compiled(*batch)
        assert same is model
        assert box.value is model
        assert not isinstance(model.weight, FakeTensor)
        assert found[:4] == constants[:4]
        assert found[4] is constants[4]
