"""The training steps that papers on memory measure: vDNN, vDNN++, TF-swap, Layrub.

At the papers' batch sizes; where a paper varies the size, at its ends. `capture.py NAME` writes
them like those of `trainings.py`, but only by name: some are large, and none is stored here.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from trainings import Step, Training, classification, dcgan, inception, tokens

from fitstep import zoo


def clipped(optimizer: torch.optim.Optimizer, loss: Tensor, norm: float) -> Tensor:
    """One step of the tutorials' SGD: the gradients' norm is at most `norm`."""
    optimizer.zero_grad()
    loss.backward()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(parameters, norm)
    optimizer.step()
    return loss


def language_model(layers: int, batch: int, recomputes: bool) -> Step:
    """The tutorial's large size; which one the paper took is not said."""
    model = zoo.PTBModel(width=1500, layers=layers, recomputes=recomputes)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def train_step(inputs: Tensor, targets: Tensor) -> Tensor:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        return clipped(optimizer, loss, 10.0)

    return train_step, (tokens(batch, 35), tokens(batch, 35))


def translation(length: int, batch: int, recomputes: bool) -> Step:
    """`length` positions of source and target; the tutorial's sizes, the paper does not say."""
    model = zoo.Seq2Seq(recomputes=recomputes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def train_step(source: Tensor, target: Tensor, labels: Tensor, sampled: Tensor) -> Tensor:
        loss = model.loss(model(source, target), labels, sampled)
        return clipped(optimizer, loss, 5.0)

    example = (*(tokens(batch, length) for _ in range(3)), torch.empty(512, dtype=torch.int64))
    return train_step, example


def image_training(
    name: str, net: Callable[[], nn.Module], batch: int, side: int, channels: int = 3
) -> dict[str, Training]:
    """One entry, `name`-`batch`: SGD with momentum."""

    def make() -> Step:
        return classification(net(), torch.empty(batch, channels, side, side))

    return {f"{name}-{batch}": Training(f"{name}, {batch} images of {side}x{side}, SGD", make)}


def _vdnn() -> dict[str, Training]:
    """Its VGG-16 is vgg-e-64, -128, -256 of `trainings.py`."""
    found = {
        **image_training("alexnet", zoo.alexnet, 128, 224),
        **image_training("overfeat", zoo.overfeat_accurate, 128, 221),
        **image_training("googlenet", zoo.googlenet, 128, 224),
    }
    for count in (116, 216, 316, 416):
        found |= image_training(f"vgg-{count}", partial(zoo.deep_vgg, count), 32, 224)
    return found


def _vdnnpp() -> dict[str, Training]:
    found = image_training("vdnnpp-demo", zoo.vdnnpp_demo, 256, 224)
    for batch in (128, 256):
        found |= image_training("alexnet-227", zoo.alexnet_227, batch, 227)
    for batch in (16, 64):
        found |= image_training("vgg-d", zoo.vgg16, batch, 224)
    return found


def _layrub() -> dict[str, Training]:
    """The usual batch, and the largest one in 12 GB."""
    found = {
        **image_training("caffenet", zoo.caffenet, 256, 227),
        **image_training("googlenet-lrn", partial(zoo.googlenet, normalises=True), 32, 224),
        **image_training("lenet", zoo.lenet, 5000, 28, 1),
        **image_training("cifar10-quick", zoo.cifar10_quick, 5000, 32),
    }
    for batch in (128, 2100):
        found |= image_training("caffe-alexnet", zoo.caffe_alexnet, batch, 227)
    for batch in (32, 240):
        found |= image_training("vgg-d", zoo.vgg16, batch, 224)
    for batch in (32, 416):
        found |= image_training("resnet-34", zoo.resnet34, batch, 224)
    for batch in (128, 1376):
        found |= image_training("wrn-28-10", zoo.wide_resnet, batch, 32)
    for batch in (256, 5000):
        found |= image_training("resnet-56", zoo.cifar_resnet, batch, 32)
    return found


def _deep_resnets() -> dict[str, Training]:
    """TF-swap and Layrub. ResNet-50 at 12 GB: 144 without TF-swap, 272 and 664 with them."""
    depths = (50, 101, 152, 200, 1001, 1172, 1304, 1484, 1505, 1511, 1517, 2000)
    found: dict[str, Training] = {}
    for layers, batch in [*((n, 32) for n in depths), (50, 144), (50, 272), (50, 664)]:
        found |= image_training(f"resnet-v1-{layers}", partial(zoo.deep_resnet, layers), batch, 224)
    return found


def _tf_swap() -> dict[str, Training]:
    """The largest batches without and with it; the size of the GAN's images is not said."""
    found: dict[str, Training] = {}
    for batch in (208, 548):
        what = f"Inception-V3, {batch} images of 299x299, SGD"
        found[f"inception-v3-{batch}"] = Training(what, partial(inception, batch))
    for batch in (24, 48):
        for part in ("discriminator", "generator"):
            what = f"DCGAN's {part} step, {batch} images of 64x64, Adam"
            found[f"dcgan-{part[0]}-{batch}"] = Training(what, partial(dcgan, part, batch))
    return found


def _sequences() -> dict[str, Training]:
    """TF-swap's; `-by-hand`: the model keeps less by itself."""
    found: dict[str, Training] = {}
    for recomputes in (False, True):
        end, by_hand = ("-by-hand", ", less kept by hand") if recomputes else ("", "")
        for layers in (1, 4, 8, 16):
            what = f"LSTM model, {layers} layers of width 1500, 64 x 35 tokens, SGD{by_hand}"
            step = partial(language_model, layers, 64, recomputes)
            found[f"tf-lm-{layers}{end}"] = Training(what, step)
        for length in (50, 100, 200, 400):
            what = f"Translation with attention, 64 x {length} tokens, SGD{by_hand}"
            step = partial(translation, length, 64, recomputes)
            found[f"tf-nmt-{length}{end}"] = Training(what, step)
    return found


PAPERS: dict[str, Training] = {
    **_vdnn(), **_vdnnpp(), **_layrub(), **_deep_resnets(), **_tf_swap(), **_sequences()
}  # fmt: skip
