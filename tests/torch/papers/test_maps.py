"""Feature maps of the published systems' networks: our nets, their figures.

Figures are MiB, although the papers write MB. Where they come from: text, or bars of a figure that
were digitised (vDNN, +- 45 MiB) or read by eye (Layrub, +- 5 %).
"""

import re
from collections.abc import Callable
from functools import cache, partial

import pytest
import torch
from fitstep_kit import models
from fitstep_kit.measures.maps import Layer, Maps, count_maps
from fitstep_kit.programs.capture import UntouchedMemory, steady_step
from fitstep_kit.programs.trainings import classification
from torch import Tensor, nn

MIB = 1 << 20
BARS_MIB = 45  # What a bar of vDNN's figure 11 may be off.

Net = Callable[[], nn.Module]


@cache
def maps_of(net: Net, batch: int, side: int, channels: int = 3) -> Maps:
    with torch.device("meta"):
        return count_maps(net(), torch.empty(batch, channels, side, side))


VGG_116, VGG_216, VGG_316, VGG_416 = (partial(models.deep_vgg, n) for n in (116, 216, 316, 416))
RESNETS = {n: partial(models.deep_resnet, n) for n in (50, 101, 152, 1001, 1517)}


@pytest.mark.parametrize(
    ("net", "parameters"),
    [
        (models.alexnet, 61_100_840),
        (models.alexnet_227, 62_378_344),
        (models.caffe_alexnet, 60_965_224),  # Grouped, as in the first paper.
        (models.caffenet, 60_965_224),
        (models.overfeat_accurate, 144_656_488),
        (models.overfeat_fast, 145_920_872),
        (models.googlenet, 6_998_552),
        (models.vgg19, 143_667_240),
        (partial(models.vgg19, batch_norm=True), 143_667_240 + 2 * 5504),
        (models.resnet34, 21_797_672),
        (RESNETS[50], 25_557_032),  # The stride's place needs no parameter.
        (RESNETS[101], 44_549_160),
        (RESNETS[152], 60_192_808),
        (models.lenet, 431_080),
        (models.cifar10_quick, 145_578),
        (models.wide_resnet, 36_479_194),
        (models.cifar_resnet, 853_018),
    ],
)
def test_parameter_count(net: Net, parameters: int) -> None:
    with torch.device("meta"):
        built = net()
    assert sum(p.numel() for p in built.parameters()) == parameters


@pytest.mark.parametrize(
    ("net", "convolutions_millions"), [(RESNETS[1001], 334), (RESNETS[1517], 504)]
)
def test_deep_resnets_have_the_weights_of_layrubs_files(
    net: Net, convolutions_millions: int
) -> None:
    """Without batch norm's own."""
    with torch.device("meta"):
        built = net()
    count = sum(p.numel() for p in built.parameters() if p.dim() > 1)
    assert round(count / 1e6) == convolutions_millions


@pytest.mark.parametrize(
    ("net", "batch", "side", "gradients", "base_m", "offload_all", "offload_conv"),
    [
        # vDNN: the bars of base(m) and of offloaded memory.
        (models.alexnet, 128, 224, 2, 781, 352, 157),
        (models.overfeat_accurate, 128, 221, 2, 2804, 1152, 386),
        # Inceptions fork and join, so their gradients need a third buffer.
        (models.googlenet, 128, 224, 3, 4129, 2341, 1365),
        (models.vgg19, 64, 224, 2, 6148, 4022, 2537),
        # The bar of base(m) at 128 is 12412; our sum is 11761, 5.2 % below. The bar contradicts its
        # neighbours: a straight line from 64 to 256 passes 128 at 11750. It would not fit the card
        # either, whose 12288 MiB other bars that exceed them are marked with.
        (models.vgg19, 128, 224, 2, None, 8064, 5066),
        (models.vgg19, 256, 224, 2, 22955, 16120, 10137),
    ],
)
def test_vdnn_base_and_offload(
    net: Net,
    batch: int,
    side: int,
    gradients: int,
    base_m: int | None,
    offload_all: int,
    offload_conv: int,
) -> None:
    maps = maps_of(net, batch, side)
    if base_m is not None:
        assert maps.base_bytes(gradients) / MIB == pytest.approx(base_m, rel=0.01)
    # AlexNet's bars are so small that one percent is less than what they can be read to.
    within_mib = 8 if net is models.alexnet else 0
    for kinds, bar in ((("convolution", "pool"), offload_all), (("convolution",), offload_conv)):
        found = maps.offload_bytes(kinds) / MIB
        assert abs(found - bar) <= max(within_mib, 0.01 * bar)


@pytest.mark.parametrize(
    ("net", "batch", "side", "gradients", "weights", "maps", "gradient_maps"),
    [
        # vDNN: the parts of base(p), but for workspace.
        (models.alexnet, 128, 224, 2, 232, 365, 191),
        (models.overfeat_accurate, 128, 221, 2, 557, 1176, 1082),
        (models.googlenet, 128, 224, 3, 36, 2930, 1176),
        (models.vgg19, 64, 224, 2, 557, 4030, 1581),
        (models.vgg19, 128, 224, 2, 557, 8077, 3121),
        (models.vgg19, 256, 224, 2, 557, 16155, 6265),
        (VGG_216, 32, 224, 2, 1385, 31923, 793),
    ],
)
def test_vdnn_breakdown(
    net: Net, batch: int, side: int, gradients: int, weights: int, maps: int, gradient_maps: int
) -> None:
    ours = maps_of(net, batch, side)
    assert ours.weight_bytes / MIB == pytest.approx(weights, abs=BARS_MIB)
    assert ours.total_bytes() / MIB == pytest.approx(maps, abs=BARS_MIB)
    gradient_mib = gradients * ours.largest_bytes() / MIB
    assert gradient_mib == pytest.approx(gradient_maps, abs=BARS_MIB)


@pytest.mark.parametrize(("batch", "bar"), [(64, 2455), (128, 4866), (256, 9612)])
def test_vdnn_needs_three_maps_of_the_largest_layer(batch: int, bar: int) -> None:
    """The most bytes of all(m): of conv1_2, and the weights of convolutions."""
    weight_bytes = 20_024_384 * 4
    found = (maps_of(models.vgg19, batch, 224).least_bytes() + weight_bytes) / MIB
    assert found == pytest.approx(bar, rel=0.02)


@pytest.mark.parametrize(
    ("net", "base_p"), [(VGG_116, 21023), (VGG_216, 36394), (VGG_316, 51728), (VGG_416, 67099)]
)
def test_vdnn_very_deep_nets(net: Net, base_p: int) -> None:
    """base(p); the shared workspace of 2311 MiB is that of the bar that shows VGG-216's parts."""
    assert maps_of(net, 32, 224).base_bytes() / MIB + 2311 == pytest.approx(base_p, rel=0.01)


def test_vdnn_keeps_all_inputs_of_vgg_416_on_the_host() -> None:
    """The host's part of dyn."""
    assert maps_of(VGG_416, 32, 224).offload_bytes() / MIB == pytest.approx(61775, rel=0.01)


@pytest.mark.parametrize(
    ("layers", "gib"), [(50, 2.0), (101, 3.0), (152, 4.2), (1001, 24.1), (1517, 35.9)]
)
def test_in_place_activations_of_deep_resnets(layers: int, gib: float) -> None:
    found = maps_of(RESNETS[layers], 32, 224).total_bytes() / (1 << 30)
    assert found == pytest.approx(gib, abs=0.05)


def test_depth_adds_no_larger_map_so_layrubs_buffers_are_the_same_at_any_depth() -> None:
    """759.5 MB with 50 and with 1517 layers: buffers as large as the largest maps, in turns."""
    largest = {
        layers: sorted(maps_of(net, 32, 224).sizes_bytes)[-8:] for layers, net in RESNETS.items()
    }
    assert all(sizes == [98 * MIB] * 8 for sizes in largest.values())
    # In MiB that is seven of them and three quarters: perhaps three masks of a byte for a float.
    largest_bytes = maps_of(RESNETS[1517], 32, 224).largest_bytes()
    assert 7 * largest_bytes + 3 * (largest_bytes // 4) == 759.5 * MIB
    distinct = {tuple(sorted({*maps_of(net, 32, 224).sizes_bytes})) for net in RESNETS.values()}
    assert len(distinct) == 1


@pytest.mark.parametrize(
    ("net", "batch", "side", "channels", "bar"),
    [
        # Layrub, the figure of allocations by strategy and, from 101 layers, its log axis.
        (models.lenet, 5000, 28, 1, 730),
        (models.cifar10_quick, 5000, 32, 3, 2200),
        (models.caffenet, 256, 227, 3, 1900),
        (models.vgg16, 32, 224, 3, 3700),
        (partial(models.googlenet, normalises=True), 32, 224, 3, 2130),
        (models.resnet34, 32, 224, 3, 1750),
        (RESNETS[50], 32, 224, 3, 5380),
        (RESNETS[101], 32, 224, 3, 8000),
        (RESNETS[152], 32, 224, 3, 11600),
        (RESNETS[1001], 32, 224, 3, 67000),
        (models.wide_resnet, 128, 32, 3, 4750),
        # Not here: WRN-8-10 ... WRN-8-256 (370 ... 3760). Depths are 6 n + 4, so there is no 8; the
        # nearest, WRN-10-10, needs 1394, and its 1120 for each 10 of width are seven times the 160
        # of those bars. What was widened is not said. Nor LSTM-RNN and LSTM-CNN, whose sizes are
        # not given.
    ],
)
def test_layrub_base(net: Net, batch: int, side: int, channels: int, bar: int) -> None:
    found = maps_of(net, batch, side, channels).caffe_bytes() / MIB
    assert found == pytest.approx(bar, rel=0.04)


class _Forked(nn.Module):
    """Two branches, side by side, and a shortcut past a third."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Conv2d(2, 2, 1)
        self.right = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(2, 4, 1), nn.ReLU(True))
        self.last = nn.Sequential(nn.Conv2d(6, 6, 1), nn.BatchNorm2d(6))
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.left(x), self.right(x)], 1)
        x = x + self.last(x)
        out: Tensor = self.head(x.mean((2, 3)))
        return out


def test_every_map_is_counted_once_and_read_by_name() -> None:
    pixels = 4 * 4 * 4  # Bytes of a channel of an image of 4x4.
    maps = maps_of(_Forked, 1, 4, 2)
    assert maps.layers == [
        Layer("left", "convolution", (0,), 1),
        Layer("right.0", "pool", (0,), 2),
        Layer("right.1", "convolution", (2,), 3),
        Layer("", "concatenation", (1, 3), 4),
        Layer("last.0", "convolution", (4,), 5),
        Layer("", "sum", (4, 5), 6),
        Layer("", "pool", (6,), 7),
        Layer("head", "linear", (7,), 8),
    ]
    assert maps.sizes_bytes == [c * pixels for c in (2, 2, 2, 4, 6, 6, 6)] + [6 * 4, 5 * 4]
    assert maps.weight_bytes == 4 * ((2 * 2 + 2) + (2 * 4 + 4) + (6 * 6 + 6) + 2 * 6 + (6 * 5 + 5))
    # The concatenation leaves as its parts, 1 and 3; the input and map 2 are read as they are.
    assert maps.read_by(["convolution"]) == [0, 1, 2, 3]
    assert maps.offload_bytes(["convolution"]) == (2 + 2 + 2 + 4) * pixels
    assert maps.base_bytes() == maps.weight_bytes + maps.total_bytes() + 2 * 6 * pixels
    # Two readers each: the input and the concatenation.
    splits = 2 * (2 + 6) * pixels
    assert maps.caffe_bytes() == 2 * maps.total_bytes() - 2 * pixels + splits


def test_batch_norm_has_a_map_of_its_own_unless_it_works_in_place() -> None:
    with torch.device("meta"):
        net, x = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8)), torch.empty(2, 3, 4, 4)
    assert [layer.kind for layer in count_maps(net, x).layers] == ["convolution"]
    kinds = [layer.kind for layer in count_maps(net, x, in_place=()).layers]
    assert kinds == ["convolution", "batch_norm"]


def test_a_map_of_an_unknown_function_is_an_error() -> None:
    with torch.device("meta"):
        net, x = nn.Sequential(nn.Conv2d(3, 8, 1), nn.GELU()), torch.empty(2, 3, 4, 4)
    with pytest.raises(ValueError, match="gelu makes a feature map of a kind"):
        count_maps(net, x)


@pytest.mark.parametrize(
    "net", [models.alexnet, models.googlenet, partial(models.vgg19, batch_norm=True)]
)
def test_a_captured_program_writes_these_maps_in_this_order(net: Net) -> None:
    """So a policy that reads programs may be held against the papers' figures."""
    with UntouchedMemory():
        step, example = classification(net(), torch.empty(2, 3, 224, 224))
    text = steady_step(step, example).text()
    sizes = dict(re.findall(r'^storage (\d+) "[^"]*" (\d+)', text, re.MULTILINE))
    ops = r'^op \d+ "aten::(convolution|max_pool2d_with_indices|avg_pool2d|cat|addmm)" \w+ source'
    pattern = ops + r' "([^"]*)".*\nform .* writes (\d+)\.'
    found = [
        (module.removeprefix("closure.model").strip("."), int(sizes[storage]))
        for _, module, storage in re.findall(pattern, text, re.MULTILINE)
    ]
    ours = maps_of(net, 2, 224)
    assert found == [(layer.name, ours.sizes_bytes[layer.output]) for layer in ours.layers]
