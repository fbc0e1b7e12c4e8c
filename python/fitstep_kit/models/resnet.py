"""ResNet (He et al. 2015; stride in the 3x3 convolution, as everybody trains it since).

25,557,032 parameters for ResNet-50 and 11,689,512 for ResNet-18, at full width, 1000 classes.
`deep_resnet` has the depths of papers on memory, up to 1517 layers, with the stride where the
first paper, TensorFlow's and Caffe's files have it: in the first 1x1 convolution.
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
    strides_first = False  # The first convolution has the stride, not the second.

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        first, second = (stride, 1) if self.strides_first else (1, stride)
        self.body = nn.Sequential(
            _conv(inputs, width, 1, first), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            _conv(width, width, 3, second), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            _conv(width, outputs, 1), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut = _shortcut(inputs, outputs, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, `stride` times smaller than `x`."""
        out: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return out


class FirstBottleneck(Bottleneck):
    """As first published: with less to compute, and slightly less accurate."""

    strides_first = True


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


def resnet34(classes: int = 1000, width: int = 64) -> ResNet:
    """ResNet-34; `width` is the channels of the first stage."""
    return ResNet(BasicBlock, (3, 4, 6, 3), classes, width)


# Blocks of each stage, by layers: 3 * blocks + 2.
_DEEP = {
    50: (3, 4, 6, 3),  # To 200: TF-swap and Layrub.
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    1001: (3, 57, 270, 3),  # To 1517: the model files of Layrub.
    1172: (3, 64, 320, 3),
    1304: (3, 71, 357, 3),
    1484: (3, 81, 407, 3),
    1505: (3, 83, 412, 3),
    1511: (3, 83, 414, 3),
    1517: (3, 83, 416, 3),
    2000: (3, 110, 550, 3),  # TF-swap does not say how it spreads them: 1 : 5 here.
}


def deep_resnet(layers: int, classes: int = 1000, width: int = 64) -> ResNet:
    """ResNet-50, -101, -152, -200, -1001, -1172, -1304, -1484, -1505, -1511, -1517, -2000."""
    if layers not in _DEEP:
        raise ValueError(f"no ResNet of {layers} layers; there are {', '.join(map(str, _DEEP))}")
    return ResNet(FirstBottleneck, _DEEP[layers], classes, width)
