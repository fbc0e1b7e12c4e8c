"""Caffe's two small nets, which Layrub trains with batches of 5000, and vDNN++'s demonstration.

`lenet`: digits of 1x28x28, 431,080 parameters. `cifar10_quick`: 3x32x32, 145,578 parameters.
`vdnnpp_demo`: 3x224x224; its 1x1 layers are too short to hide a copy of their input, the 5x5 layers
behind them are not, so it shows what waiting at the end of every layer costs.
"""

from torch import nn

from fitstep_kit.models.chain import Chain, conv


def lenet(classes: int = 10) -> Chain:
    """Convolutions without activations, as in Caffe's example."""
    features = [nn.Conv2d(1, 20, 5), nn.MaxPool2d(2, 2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2, 2)]
    return Chain(features, 50 * 4 * 4, (500,), classes, dropout=0)


def cifar10_quick(classes: int = 10) -> nn.Sequential:
    """Three convolutions; nothing between the two linear layers."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), nn.ReLU(inplace=True),
        *conv(32, 32, 5, padding=2), nn.AvgPool2d(3, 2, ceil_mode=True),
        *conv(32, 64, 5, padding=2), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(64 * 4 * 4, 64), nn.Linear(64, classes),
    )  # fmt: skip


def vdnnpp_demo(classes: int = 1000, pairs: int = 5) -> Chain:
    """One 3x3 layer, then `pairs` of a 1x1 and a 5x5 layer, all of 64 channels at full size."""
    features = conv(3, 64, 3, padding=1)
    for _ in range(pairs):
        features += [*conv(64, 64, 1), *conv(64, 64, 5, padding=2)]
    return Chain([*features, nn.AdaptiveMaxPool2d(1), *conv(64, 64, 1)], 64, (), classes)
