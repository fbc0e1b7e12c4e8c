"""ResNet (He et al. 2015; stride in the 3x3 convolution, as everybody trains it since).

25,557,032 parameters for ResNet-50 and 11,689,512 for ResNet-18, at full width, 1000 classes.
"""

from torch import Tensor, nn


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(inputs, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            _conv(width, width, 3), nn.BatchNorm2d(width),
        )  # fmt: skip
        self.shortcut = _shortcut(inputs, width, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, `stride` times smaller than `x`."""
        out: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return out


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 convolutions, and a shortcut."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.body = nn.Sequential(
            _conv(inputs, width, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            _conv(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            _conv(width, outputs, 1), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut = _shortcut(inputs, outputs, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, `stride` times smaller than `x`."""
        out: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return out


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


class ResNet(nn.Module):
    """A stem that shrinks the image four times, four stages of blocks, a linear classifier.

    Without `stem_pool` the stem shrinks it only twice, which suits small images.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, ...],
        classes: int = 1000,
        width: int = 64,
        stem_pool: bool = True,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 7, 2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
        if stem_pool:
            layers.append(nn.MaxPool2d(3, 2, padding=1))
        channels = width
        for stage, depth in enumerate(depths):
            for i in range(depth):
                stride = 2 if stage > 0 and i == 0 else 1
                layers.append(block(channels, width << stage, stride))
                channels = (width << stage) * block.expansion
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Logits for a batch of images."""
        logits: Tensor = self.classifier(self.pool(self.features(x)).flatten(1))
        return logits


def resnet18(classes: int = 1000, width: int = 64, stem_pool: bool = True) -> ResNet:
    """ResNet-18; `width` is the channels of the first stage."""
    return ResNet(BasicBlock, (2, 2, 2, 2), classes, width, stem_pool)


def resnet50(classes: int = 1000, width: int = 64) -> ResNet:
    """ResNet-50; `width` is the channels of the first stage before expansion."""
    return ResNet(Bottleneck, (3, 4, 6, 3), classes, width)
