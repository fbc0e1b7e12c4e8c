"""What every subject is: a model, three batches, and the loss of one batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = tuple[Any, ...]
STEPS = 3
CLASSES = 10
VOCAB = 128
TOKENS = 64


@dataclass
class Subject:
    """A tiny random model and how it is trained."""

    model: nn.Module
    batches: list[Batch]
    loss: Callable[..., Tensor]


def generator() -> torch.Generator:
    """Batches do not depend on how many numbers the model's initialisation drew."""
    return torch.Generator().manual_seed(7)


def image_batches(count: int, shape: tuple[int, ...]) -> list[Batch]:
    """Random images, or clips, and their classes."""
    random = generator()
    return [
        (
            torch.randn(count, *shape, generator=random),
            torch.randint(0, CLASSES, (count,), generator=random),
        )
        for _ in range(STEPS)
    ]


def token_batches(count: int, masked: bool) -> list[Batch]:
    """Random tokens and labels; if `masked`, every second row ends early and a mask says where."""
    random = generator()
    batches: list[Batch] = []
    for index in range(STEPS):
        tokens = torch.randint(10, VOCAB, (count, TOKENS), generator=random)
        labels = torch.randint(10, VOCAB, (count, TOKENS), generator=random)
        if not masked:
            batches.append((tokens, labels))
            continue
        lengths = torch.tensor([TOKENS - 3 * index * (row % 2) for row in range(count)])
        mask = (torch.arange(TOKENS) < lengths[:, None]).long()
        batches.append((tokens, labels.masked_fill(mask == 0, -100), mask))
    return batches


def classification_loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Of a model that returns scores, alone or first in a list or tuple."""
    scores = model(images)
    scores = scores[0] if isinstance(scores, list | tuple) else scores
    return functional.cross_entropy(scores, labels)
