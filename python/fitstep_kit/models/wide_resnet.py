"""Residual nets for images of 32x32: wide ones (Zagoruyko 2016) and narrow ones (He et al. 2015).

Three stages, each half the size of the one before and twice as wide. WRN-28-10 has 36,479,194
parameters, ResNet-56 has 853,018.
"""

import torch.nn.functional as F
from torch import Tensor, nn


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class WideBlock(nn.Module):
    """Batch norm and ReLU before each of two 3x3 convolutions, and a shortcut past them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.ready = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(inplace=True))
        self.body = nn.Sequential(
            _conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            _conv(outputs, outputs, 3),
        )  # fmt: skip
        self.shortcut = None if inputs == outputs else _conv(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """`stride` times smaller than `x`."""
        ready = self.ready(x)
        out: Tensor = self.body(ready) + (x if self.shortcut is None else self.shortcut(ready))
        return out


class NarrowBlock(nn.Module):
    """Two 3x3 convolutions; where the width doubles, the shortcut is padded with zeros."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            _conv(outputs, outputs, 3), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.stride = stride
        self.missing = outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        """`stride` times smaller than `x`."""
        out = self.body(x)
        if self.missing:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.missing))
        return F.relu_(out + x)


def _stages(block: type[WideBlock] | type[NarrowBlock], units: int, width: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    channels = 16
    for stage in range(3):
        for unit in range(units):
            stride = 2 if stage > 0 and unit == 0 else 1
            layers.append(block(channels, width << stage, stride))
            channels = width << stage
    return layers


def wide_resnet(layers: int = 28, factor: int = 10, classes: int = 10) -> nn.Sequential:
    """WRN-layers-factor; layers = 6 * units + 4, as the paper counts them."""
    units = (layers - 4) // 6
    if layers != 6 * units + 4 or units < 1:
        raise ValueError(f"a wide residual net has 10, 16, 22, ... layers, not {layers}")
    last = 4 * 16 * factor
    return nn.Sequential(
        _conv(3, 16, 3), *_stages(WideBlock, units, 16 * factor),
        nn.BatchNorm2d(last), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(last, classes),
    )  # fmt: skip


def cifar_resnet(layers: int = 56, classes: int = 10) -> nn.Sequential:
    """ResNet-20, -32, -44, -56, -110; layers = 6 * units + 2."""
    units = (layers - 2) // 6
    if layers != 6 * units + 2 or units < 1:
        raise ValueError(f"a residual net for 32x32 has 8, 14, 20, ... layers, not {layers}")
    return nn.Sequential(
        _conv(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
        *_stages(NarrowBlock, units, 16),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes),
    )  # fmt: skip
