"""AlexNet (Krizhevsky et al. 2012) in the four forms that papers on memory train.

| Net | Source | Images | Parameters |
| --- | --- | --- | ---: |
| `alexnet` | one tower (Krizhevsky 2014), vDNN's "AlexNet" | 224x224 | 61,100,840 |
| `alexnet_227` | one tower of the first paper's widths, vDNN++'s | 227x227 | 62,378,344 |
| `caffe_alexnet` | Caffe's, Layrub's: two groups, normalised responses | 227x227 | 60,965,224 |
| `caffenet` | the same with pools before normalisation | 227x227 | 60,965,224 |
"""

from torch import nn

from fitstep_kit.models.chain import Chain, conv


def alexnet(classes: int = 1000) -> Chain:
    """One tower of 64, 192, 384, 256 and 256 channels, for images of 224x224."""
    features = [
        *conv(3, 64, 11, 4, 2), nn.MaxPool2d(3, 2),
        *conv(64, 192, 5, padding=2), nn.MaxPool2d(3, 2),
        *conv(192, 384, 3, padding=1),
        *conv(384, 256, 3, padding=1),
        *conv(256, 256, 3, padding=1), nn.MaxPool2d(3, 2),
    ]  # fmt: skip
    return Chain(features, 256 * 6 * 6, classes=classes)


def alexnet_227(classes: int = 1000) -> Chain:
    """One tower of 96, 256, 384, 384 and 256 channels, for images of 227x227."""
    features = [
        *conv(3, 96, 11, 4), nn.MaxPool2d(3, 2),
        *conv(96, 256, 5, padding=2), nn.MaxPool2d(3, 2),
        *conv(256, 384, 3, padding=1),
        *conv(384, 384, 3, padding=1),
        *conv(384, 256, 3, padding=1), nn.MaxPool2d(3, 2),
    ]  # fmt: skip
    return Chain(features, 256 * 6 * 6, classes=classes)


def _grouped(classes: int, is_pool_first: bool) -> Chain:
    def shrink() -> list[nn.Module]:
        pool = nn.MaxPool2d(3, 2)
        norm = nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75)
        return [pool, norm] if is_pool_first else [norm, pool]

    features = [
        *conv(3, 96, 11, 4), *shrink(),
        *conv(96, 256, 5, padding=2, groups=2), *shrink(),
        *conv(256, 384, 3, padding=1),
        *conv(384, 384, 3, padding=1, groups=2),
        *conv(384, 256, 3, padding=1, groups=2), nn.MaxPool2d(3, 2),
    ]  # fmt: skip
    return Chain(features, 256 * 6 * 6, classes=classes)


def caffe_alexnet(classes: int = 1000) -> Chain:
    """As Caffe trains it: normalisation, then pool."""
    return _grouped(classes, is_pool_first=False)


def caffenet(classes: int = 1000) -> Chain:
    """Caffe's variant with half the memory in front: pool, then normalisation."""
    return _grouped(classes, is_pool_first=True)
