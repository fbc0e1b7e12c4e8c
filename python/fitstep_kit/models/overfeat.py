"""OverFeat (Sermanet et al. 2013): few layers of many channels, and most weights of its time.

The accurate model, for images of 221x221, has 144,656,488 parameters and is the one that vDNN
measures; the fast one, for images of 231x231, has 145,920,872.
"""

from torch import nn

from fitstep_kit.models.chain import Chain, conv


def overfeat_accurate(classes: int = 1000) -> Chain:
    """Six convolutions, for images of 221x221."""
    features = [
        *conv(3, 96, 7, 2), nn.MaxPool2d(3, 3),
        *conv(96, 256, 7), nn.MaxPool2d(2, 2),
        *conv(256, 512, 3, padding=1),
        *conv(512, 512, 3, padding=1),
        *conv(512, 1024, 3, padding=1),
        *conv(1024, 1024, 3, padding=1), nn.MaxPool2d(3, 3),
    ]  # fmt: skip
    return Chain(features, 1024 * 5 * 5, classes=classes)


def overfeat_fast(classes: int = 1000) -> Chain:
    """Five convolutions, for images of 231x231."""
    features = [
        *conv(3, 96, 11, 4), nn.MaxPool2d(2, 2),
        *conv(96, 256, 5), nn.MaxPool2d(2, 2),
        *conv(256, 512, 3, padding=1),
        *conv(512, 1024, 3, padding=1),
        *conv(1024, 1024, 3, padding=1), nn.MaxPool2d(2, 2),
    ]  # fmt: skip
    return Chain(features, 1024 * 6 * 6, (3072, 4096), classes)
