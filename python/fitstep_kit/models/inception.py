"""Inception-V3 (Szegedy et al. 2015): factored convolutions, batch norm behind each of them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def _conv(
    inputs: int, outputs: int, size: int | tuple[int, int], stride: int = 1, same: bool = True
) -> nn.Sequential:
    """Convolution, batch norm, ReLU. `same` pads so that only `stride` makes the image smaller."""
    sides = (size, size) if isinstance(size, int) else size
    padding = (sides[0] // 2, sides[1] // 2) if same else (0, 0)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, sides, stride, padding, bias=False),
        nn.BatchNorm2d(outputs, eps=0.001),
        nn.ReLU(inplace=True),
    )


class Branches(nn.Module):
    """All branches of the same input, side by side."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """The branches' channels, one after another."""
        return torch.cat([branch(x) for branch in self.branches], 1)


def _pooled(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, padding=1), _conv(inputs, outputs, 1))


def _mixed_35(inputs: int, pooled: int) -> Branches:
    return Branches(
        _conv(inputs, 64, 1),
        nn.Sequential(_conv(inputs, 48, 1), _conv(48, 64, 5)),
        nn.Sequential(_conv(inputs, 64, 1), _conv(64, 96, 3), _conv(96, 96, 3)),
        _pooled(inputs, pooled),
    )


def _to_17(inputs: int) -> Branches:
    return Branches(
        _conv(inputs, 384, 3, 2, same=False),
        nn.Sequential(_conv(inputs, 64, 1), _conv(64, 96, 3), _conv(96, 96, 3, 2, same=False)),
        nn.MaxPool2d(3, 2),
    )


def _mixed_17(inputs: int, width: int) -> Branches:
    return Branches(
        _conv(inputs, 192, 1),
        nn.Sequential(
            _conv(inputs, width, 1), _conv(width, width, (1, 7)), _conv(width, 192, (7, 1))
        ),
        nn.Sequential(
            _conv(inputs, width, 1), _conv(width, width, (7, 1)), _conv(width, width, (1, 7)),
            _conv(width, width, (7, 1)), _conv(width, 192, (1, 7)),
        ),
        _pooled(inputs, 192),
    )  # fmt: skip


def _to_8(inputs: int) -> Branches:
    return Branches(
        nn.Sequential(_conv(inputs, 192, 1), _conv(192, 320, 3, 2, same=False)),
        nn.Sequential(
            _conv(inputs, 192, 1), _conv(192, 192, (1, 7)), _conv(192, 192, (7, 1)),
            _conv(192, 192, 3, 2, same=False),
        ),
        nn.MaxPool2d(3, 2),
    )  # fmt: skip


def _mixed_8(inputs: int) -> Branches:
    def wide() -> Branches:
        return Branches(_conv(384, 384, (1, 3)), _conv(384, 384, (3, 1)))

    return Branches(
        _conv(inputs, 320, 1),
        nn.Sequential(_conv(inputs, 384, 1), wide()),
        nn.Sequential(_conv(inputs, 448, 1), _conv(448, 384, 3), wide()),
        _pooled(inputs, 192),
    )


class InceptionV3(nn.Module):
    """Szegedy et al. 2015 for images of 299x299; 27,161,264 parameters with 1000 classes.

    In training it has a second classifier halfway, which gives logits of its own.
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _conv(3, 32, 3, 2, same=False), _conv(32, 32, 3, same=False), _conv(32, 64, 3),
            nn.MaxPool2d(3, 2),
            _conv(64, 80, 1), _conv(80, 192, 3, same=False),
            nn.MaxPool2d(3, 2),
        )  # fmt: skip
        self.halfway = nn.Sequential(
            _mixed_35(192, 32), _mixed_35(256, 64), _mixed_35(288, 64), _to_17(288),
            _mixed_17(768, 128), _mixed_17(768, 160), _mixed_17(768, 160), _mixed_17(768, 192),
        )  # fmt: skip
        self.auxiliary = nn.Sequential(
            nn.AvgPool2d(5, 3), _conv(768, 128, 1), _conv(128, 768, 5, same=False),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(768, classes),
        )  # fmt: skip
        self.rest = nn.Sequential(_to_8(768), _mixed_8(1280), _mixed_8(2048))
        self.classifier = nn.Linear(2048, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the two classifiers."""
        middle = self.halfway(self.stem(x))
        last = F.dropout(self.rest(middle).mean((2, 3)), training=self.training)
        return self.classifier(last), self.auxiliary(middle)
