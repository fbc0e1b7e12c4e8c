"""U-Net (Ronneberger et al. 2015) with padding and batch norm: skip connections that live long.

The first stage's activations are needed by the last stage of the forward pass and again at the end
of the backward pass, so a U-Net holds more than its depth suggests.
"""

import torch
from torch import Tensor, nn


def _double_conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """Segmentation logits of the image's size. Its sides must be divisible by 2 ** depth."""

    def __init__(
        self, channels: int = 3, classes: int = 2, width: int = 64, depth: int = 4
    ) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        inputs = [channels, *widths[:-1]]
        self.down = nn.ModuleList(map(_double_conv, inputs, widths))
        self.pool = nn.MaxPool2d(2)
        rising = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.upsample = nn.ModuleList(nn.ConvTranspose2d(low, high, 2, 2) for low, high in rising)
        self.up = nn.ModuleList(_double_conv(low, high) for low, high in rising)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """One logit per class and pixel."""
        skips: list[Tensor] = []
        for level, stage in enumerate(self.down):
            x = stage(x if level == 0 else self.pool(x))
            skips.append(x)
        skips.pop()  # The deepest stage has nothing to skip over.
        for upsample, stage in zip(self.upsample, self.up, strict=True):
            x = stage(torch.cat([skips.pop(), upsample(x)], dim=1))
        logits: Tensor = self.head(x)
        return logits
