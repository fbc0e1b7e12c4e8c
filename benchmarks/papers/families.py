"""The training steps that papers on memory measure: vDNN, vDNN++, TF-swap, Layrub.

A family is a network for any batch; with the batch sizes of the papers it gives the programs
FAMILY-BATCH. They are written only by name, as some are large, and none is stored:

    PYTHONPATH=python python -m benchmarks.papers.families --out FOLDER NAME ...

`largest_batch.py FAMILY` asks what fits into a memory.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from fitstep_kit import models
from fitstep_kit.programs.capture import write_programs
from fitstep_kit.programs.trainings import (
    TRAININGS,
    Step,
    Training,
    classification,
    dcgan,
    inception,
    tokens,
)
from torch import Tensor, nn


@dataclass(frozen=True)
class Family:
    """One network, one way to train it."""

    what: str  # With {} for the batch.
    make: Callable[[int], Step]
    batches: tuple[int, ...]  # The papers'.


def images(
    what: str,
    net: Callable[[], nn.Module],
    batches: tuple[int, ...],
    side: int = 224,
    channels: int = 3,
) -> Family:
    """A convolutional net, SGD with momentum."""

    def make(batch: int) -> Step:
        return classification(net(), torch.empty(batch, channels, side, side))

    return Family(f"{what}, {{}} images of {side}x{side}, SGD", make, batches)


def clipped(optimizer: torch.optim.Optimizer, loss: Tensor, norm: float) -> Tensor:
    """One step of the tutorials' SGD: the gradients' norm is at most `norm`."""
    optimizer.zero_grad()
    loss.backward()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, norm)
    optimizer.step()
    return loss


def language_model(layers: int, recomputes: bool, batch: int) -> Step:
    """The tutorial's large size; which one the paper took is not said."""
    model = models.PTBModel(width=1500, layers=layers, recomputes=recomputes)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def train_step(inputs: Tensor, targets: Tensor) -> Tensor:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        return clipped(optimizer, loss, 10.0)

    return train_step, (tokens(batch, 35), tokens(batch, 35))


def translation(length: int, recomputes: bool, batch: int) -> Step:
    """`length` positions of source and target; the tutorial's sizes, the paper does not say."""
    model = models.Seq2Seq(recomputes=recomputes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def train_step(source: Tensor, target: Tensor, labels: Tensor, sampled: Tensor) -> Tensor:
        loss = model.loss(model(source, target), labels, sampled)
        return clipped(optimizer, loss, 5.0)

    example = (*(tokens(batch, length) for _ in range(3)), torch.empty(512, dtype=torch.int64))
    return train_step, example


def _vdnn() -> dict[str, Family]:
    """Its VGG-16 is vgg-e-64, -128, -256 of `trainings.py`."""
    deep = {
        f"vgg-{count}": images(f"VGG-{count}", partial(models.deep_vgg, count), (32,))
        for count in (116, 216, 316, 416)
    }
    return {
        "alexnet": images("AlexNet", models.alexnet, (128,)),
        "overfeat": images("OverFeat, accurate", models.overfeat_accurate, (128,), 221),
        "googlenet": images("GoogLeNet", models.googlenet, (128,)),
        **deep,
    }


def _vdnnpp() -> dict[str, Family]:
    """Its VGG-16 is configuration D, which Layrub trains too."""
    return {
        "vdnnpp-demo": images("Pairs of 1x1 and 5x5", models.vdnnpp_demo, (256,)),
        "alexnet-227": images("AlexNet for 227x227", models.alexnet_227, (128, 256), 227),
        "vgg-d": images("VGG-D", models.vgg16, (16, 32, 64, 240)),
    }


def _layrub() -> dict[str, Family]:
    """The usual batch, and the largest one in 12 GB."""
    normalising = partial(models.googlenet, normalises=True)
    return {
        "caffe-alexnet": images("Caffe's AlexNet", models.caffe_alexnet, (128, 2100), 227),
        "caffenet": images("CaffeNet", models.caffenet, (256,), 227),
        "googlenet-lrn": images("GoogLeNet, normalising", normalising, (32,)),
        "resnet-34": images("ResNet-34", models.resnet34, (32, 416)),
        "lenet": images("LeNet", models.lenet, (5000,), 28, 1),
        "cifar10-quick": images("Caffe's Cifar10_quick", models.cifar10_quick, (5000,), 32),
        "wrn-10-34": images("WRN-10-34", partial(models.wide_resnet, 10, 34), (128,), 32),
        "wrn-28-10": images("WRN-28-10", models.wide_resnet, (128, 1376), 32),
        "resnet-56": images("ResNet-56", models.cifar_resnet, (256, 5000), 32),
    }


def _deep_resnets() -> dict[str, Family]:
    """TF-swap and Layrub. ResNet-50 at 12 GB: 144 without TF-swap, 272 and 664 with them."""
    depths = (50, 101, 152, 200, 1001, 1172, 1304, 1484, 1505, 1511, 1517, 2000)
    return {
        f"resnet-v1-{layers}": images(
            f"ResNet-{layers} with early strides",
            partial(models.deep_resnet, layers),
            (32, 144, 272, 664) if layers == 50 else (32,),
        )
        for layers in depths
    }


def _tf_swap() -> dict[str, Family]:
    """Its largest batches without and with; `-by-hand`: the model keeps less by itself."""
    what = "DCGAN's {} step, {{}} images of 64x64, Adam"  # The paper does not say how large.
    found = {
        "inception-v3": Family("Inception-V3, {} images of 299x299, SGD", inception, (208, 548)),
        "dcgan-d": Family(
            what.format("discriminator"), partial(dcgan, "discriminator"), (24, 48)
        ),
        "dcgan-g": Family(what.format("generator"), partial(dcgan, "generator"), (24, 48)),
    }  # fmt: skip
    depths = {1: (1800, 3000), 4: (750, 1500), 8: (350, 900), 16: (75, 280)}
    lengths = {50: (350, 1100), 100: (90, 550), 200: (20, 230), 400: (2, 60)}
    for end, note, recomputes in (("", "", False), ("-by-hand", ", less kept by hand", True)):
        for layers, batches in depths.items():
            what = f"LSTM model, {layers} layers of width 1500, {{}} x 35 tokens, SGD{note}"
            step = partial(language_model, layers, recomputes)
            found[f"tf-lm-{layers}{end}"] = Family(what, step, batches)
        for length, batches in lengths.items():
            what = f"Translation with attention, {{}} x {length} tokens, SGD{note}"
            step = partial(translation, length, recomputes)
            found[f"tf-nmt-{length}{end}"] = Family(what, step, batches)
    return found


FAMILIES: dict[str, Family] = {
    **_vdnn(), **_vdnnpp(), **_layrub(), **_deep_resnets(), **_tf_swap()
}  # fmt: skip
PAPERS: dict[str, Training] = {
    f"{name}-{batch}": Training(family.what.format(batch), partial(family.make, batch))
    for name, family in FAMILIES.items()
    for batch in family.batches
}
ALL = {**TRAININGS, **PAPERS}


def main() -> int:
    """Writes the programs that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="+", metavar="NAME", choices=list(PAPERS))
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    args = parser.parse_args()
    write_programs(args.names, PAPERS, args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
