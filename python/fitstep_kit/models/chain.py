"""What the plain convolutional nets share: a chain of convolutions and pools, then linear layers.

Every convolution and every linear layer but the last is followed by a ReLU that works in place, so
it makes no feature map of its own.
"""

from collections.abc import Sequence

from torch import Tensor, nn


def conv(
    inputs: int, outputs: int, size: int, stride: int = 1, padding: int = 0, groups: int = 1
) -> list[nn.Module]:
    """A convolution with bias and its ReLU."""
    return [
        nn.Conv2d(inputs, outputs, size, stride, padding, groups=groups),
        nn.ReLU(inplace=True),
    ]


class Chain(nn.Module):
    """`features` make `flat` numbers of an image; `hidden` are the widths of the linear layers."""

    def __init__(
        self,
        features: Sequence[nn.Module],
        flat: int,
        hidden: Sequence[int] = (4096, 4096),
        classes: int = 1000,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.features = nn.Sequential(*features)
        layers: list[nn.Module] = []
        for width in hidden:
            layers += [nn.Linear(flat, width), nn.ReLU(inplace=True)]
            if dropout:
                layers.append(nn.Dropout(dropout))
            flat = width
        self.classifier = nn.Sequential(*layers, nn.Linear(flat, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Logits for a batch of images of the net's size."""
        logits: Tensor = self.classifier(self.features(x).flatten(1))
        return logits
