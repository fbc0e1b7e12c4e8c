"""A multilayer perceptron: the smallest model with every kind of storage but a buffer."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


class MLP(nn.Sequential):
    """Linear layers with GELU between them; `widths` are input, hidden layers, output."""

    def __init__(self, widths: Sequence[int] = (784, 512, 512, 10)) -> None:
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.GELU()]
        super().__init__(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        """Logits for a batch of any shape; everything behind the first dimension is flattened."""
        logits: Tensor = super().forward(x.flatten(1))
        return logits
