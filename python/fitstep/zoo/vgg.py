"""VGG (Simonyan and Zisserman 2014, configuration D): large early activations, large last weights.

Without batch norm, as in the paper. 138,357,544 parameters at full width and 1000 classes.
"""

from torch import Tensor, nn

# Output channels of each 3x3 convolution at full width; 0 halves the image by max pooling.
_VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)


class VGG(nn.Module):
    """Convolutions in five stages, then three linear layers with dropout."""

    def __init__(self, layout: tuple[int, ...], classes: int, width: float, hidden: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for out in layout:
            if out == 0:
                layers.append(nn.MaxPool2d(2))
            else:
                scaled = max(1, int(out * width))
                layers += [nn.Conv2d(channels, scaled, 3, padding=1), nn.ReLU(inplace=True)]
                channels = scaled
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(channels * 7 * 7, hidden), nn.ReLU(inplace=True), nn.Dropout(),
            nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Dropout(),
            nn.Linear(hidden, classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Logits for images of at least 32x32."""
        logits: Tensor = self.classifier(self.pool(self.features(x)).flatten(1))
        return logits


def vgg16(classes: int = 1000, width: float = 1.0, hidden: int = 4096) -> VGG:
    """VGG-16; `width` scales the convolutions' channels, `hidden` is the linear layers' width."""
    return VGG(_VGG16, classes, width, hidden)
