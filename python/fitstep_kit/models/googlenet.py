"""GoogLeNet (Szegedy et al. 2014) as papers on memory measure it: with one classifier.

Nine inceptions, each four branches side by side. Images of 224x224, 6,998,552 parameters. vDNN's
does not normalise responses, Caffe's and Layrub's does.
"""

import torch
from torch import Tensor, nn

from fitstep_kit.models.chain import Chain, conv


class Inception(nn.Module):
    """1x1, 1x1 then 3x3, 1x1 then 5x5, pool then 1x1: their channels one after another."""

    def __init__(
        self, inputs: int, ones: int, threes: tuple[int, int], fives: tuple[int, int], pooled: int
    ) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            [
                nn.Sequential(*conv(inputs, ones, 1)),
                nn.Sequential(*conv(inputs, threes[0], 1), *conv(*threes, 3, padding=1)),
                nn.Sequential(*conv(inputs, fives[0], 1), *conv(*fives, 5, padding=2)),
                nn.Sequential(nn.MaxPool2d(3, 1, padding=1), *conv(inputs, pooled, 1)),
            ]
        )
        self.outputs = ones + threes[1] + fives[1] + pooled

    def forward(self, x: Tensor) -> Tensor:
        """As many rows and columns as `x`."""
        return torch.cat([branch(x) for branch in self.branches], 1)


# Channels of the branches; None halves the image by max pooling.
_LAYOUT = (
    (64, (96, 128), (16, 32), 32),
    (128, (128, 192), (32, 96), 64),
    None,
    (192, (96, 208), (16, 48), 64),
    (160, (112, 224), (24, 64), 64),
    (128, (128, 256), (24, 64), 64),
    (112, (144, 288), (32, 64), 64),
    (256, (160, 320), (32, 128), 128),
    None,
    (256, (160, 320), (32, 128), 128),
    (384, (192, 384), (48, 128), 128),
)


def googlenet(classes: int = 1000, normalises: bool = False) -> Chain:
    """For images of 224x224."""
    norm = [nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75)] if normalises else []
    layers: list[nn.Module] = [
        *conv(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, padding=1), *norm,
        *conv(64, 64, 1),
        *conv(64, 192, 3, padding=1), *norm, nn.MaxPool2d(3, 2, padding=1),
    ]  # fmt: skip
    channels = 192
    for branches in _LAYOUT:
        if branches is None:
            layers.append(nn.MaxPool2d(3, 2, padding=1))
        else:
            inception = Inception(channels, *branches)
            layers.append(inception)
            channels = inception.outputs
    return Chain([*layers, nn.AvgPool2d(7)], channels, (), classes)
