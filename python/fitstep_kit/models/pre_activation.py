"""Pre-activation ResNets, of which ResNet-1001 is one."""

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
        grown: Tensor = self.body(ready)
        return grown + (x if self.shortcut is None else self.shortcut(ready))


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
