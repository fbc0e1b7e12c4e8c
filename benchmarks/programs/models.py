"""Models of the collection that `fitstep.zoo` does not have, in a few lines each."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PreActivationBlock(nn.Module):
    """Batch norm and ReLU before each of three convolutions, and a shortcut past them."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.first = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(inplace=True))
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False),
        )  # fmt: skip
        self.shortcut: nn.Module | None = None
        if inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, `stride` times smaller than `x`."""
        ready = self.first(x)
        return self.body(ready) + (x if self.shortcut is None else self.shortcut(ready))


class PreActivationResNet(nn.Module):
    """He et al. 2016 ("Identity mappings") for images of 32x32; 9 * units + 2 layers.

    10,327,706 parameters at 111 units a stage, which is ResNet-1001.
    """

    def __init__(self, units: int, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False)]
        channels = 16
        for stage in range(3):
            width = 16 << stage
            for unit in range(units):
                stride = 2 if stage > 0 and unit == 0 else 1
                layers.append(PreActivationBlock(channels, width, stride))
                channels = 4 * width
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits for a batch of images."""
        logits: Tensor = self.classifier(self.features(x).mean((2, 3)))
        return logits


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
