"""Steps that draw their data themselves: refused, and nothing is drawn."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fitstep.errors import CaptureError
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import fitstep

Batch = tuple[torch.Tensor, torch.Tensor]


def batches(count: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(6, 8, generator=generator), torch.randint(0, 5, (6,), generator=generator))
        for _ in range(count)
    ]


def make_train(model: nn.Module) -> Callable[[Batch], torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train(batch: Batch) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    return train


def loader() -> Any:
    x, y = (torch.cat(parts) for parts in zip(*batches(4), strict=True))
    return iter(DataLoader(TensorDataset(x, y), 6))


def generated() -> Iterator[Batch]:
    yield from batches(4)


class Trainer:
    """Holds its iterator beside the model, as trainers do."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(8, 5)
        self.data = iter(batches(4))
        self.train = make_train(self.model)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Is given its batch."""
        return self.train((x, y))


def test_an_iterator_that_the_step_only_reaches_is_left_alone() -> None:
    trainer, expected = Trainer(), Trainer()
    data = trainer.data
    step = fitstep.compile(trainer.step, example=batches(1)[0], budget="300%")
    for batch in data:
        assert torch.equal(step(*batch), expected.step(*next(expected.data)))
    assert trainer.data is data
    assert torch.equal(trainer.model.weight, expected.model.weight)


def test_a_generator_that_the_step_closes_stays_open() -> None:
    torch.manual_seed(0)
    train = make_train(nn.Linear(8, 5))
    data = generated()

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        data.close()  # type: ignore[attr-defined]
        return train((x, y))

    with pytest.raises(CaptureError, match="from an iterator itself"):
        fitstep.compile(step, example=batches(1)[0], budget="300%")
    assert len(list(data)) == 4
