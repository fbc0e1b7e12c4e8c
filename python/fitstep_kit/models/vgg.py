"""VGG (Simonyan and Zisserman 2014): large early activations, large last weights.

| Net | Convolutions | Parameters at full width, 1000 classes |
| --- | ---: | ---: |
| `vgg16`, configuration D | 13 | 138,357,544 |
| `vgg19`, configuration E, the "VGG-16" of vDNN | 16 | 143,667,240 |
| `deep_vgg`, vDNN's VGG-116 to VGG-416 | 116 ... 416 | 253,551,400 ... 583,203,880 |

Without batch norm, as in the paper, or with it behind every convolution.
"""

from torch import Tensor, nn

# Output channels of the five stages at full width; each ends with a max pool.
_CHANNELS = (64, 128, 256, 512, 512)
# Convolutions of each stage.
_D = (2, 2, 3, 3, 3)
_E = (2, 2, 4, 4, 4)


def _layout(convolutions: tuple[int, ...]) -> tuple[int, ...]:
    """Output channels of each 3x3 convolution; 0 halves the image."""
    stages = zip(_CHANNELS, convolutions, strict=True)
    return tuple(out for channels, count in stages for out in (*[channels] * count, 0))


class VGG(nn.Module):
    """Convolutions in five stages, then three linear layers with dropout."""

    def __init__(
        self,
        layout: tuple[int, ...],
        classes: int,
        width: float,
        hidden: int,
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for out in layout:
            if out == 0:
                layers.append(nn.MaxPool2d(2))
            else:
                scaled = max(1, int(out * width))
                layers.append(nn.Conv2d(channels, scaled, 3, padding=1))
                if batch_norm:
                    layers.append(nn.BatchNorm2d(scaled))
                layers.append(nn.ReLU(inplace=True))
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


def vgg16(
    classes: int = 1000, width: float = 1.0, hidden: int = 4096, batch_norm: bool = False
) -> VGG:
    """VGG-16; `width` scales the convolutions' channels, `hidden` is the linear layers' width."""
    return VGG(_layout(_D), classes, width, hidden, batch_norm)


def vgg19(
    classes: int = 1000, width: float = 1.0, hidden: int = 4096, batch_norm: bool = False
) -> VGG:
    """VGG-19, the same with three convolutions more."""
    return VGG(_layout(_E), classes, width, hidden, batch_norm)


def deep_vgg(convolutions: int, classes: int = 1000, batch_norm: bool = False) -> VGG:
    """vDNN's deeper ones: 20 more convolutions in every stage of VGG-19 make 116, 216, ..."""
    more, rest = divmod(convolutions - sum(_E), 5)
    if rest or more < 0:
        raise ValueError(f"16 and the same number in each of five stages is not {convolutions}")
    return VGG(_layout(tuple(c + more for c in _E)), classes, 1.0, 4096, batch_norm)
