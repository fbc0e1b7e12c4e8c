"""The models that the tests and the benchmark train, each with batches and a loss.

A subject comes in two sizes: "tiny", the same shape in a fraction of a second per step, and "full",
the size that the benchmark's table is about.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fitstep_kit import models

Batch = tuple[Tensor, ...]
Loss = Callable[..., Tensor]

BATCHES = 3  # Distinct batches; step i uses batch i modulo this.


@dataclass
class Subject:
    """A model with what it is trained on."""

    model: nn.Module
    batches: list[Batch]
    loss: Loss  # Of the model and a batch's tensors.


def classification_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy of the last dimension's logits, for images and for tokens."""
    logits = model(inputs)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def segmentation_loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy per pixel."""
    return F.cross_entropy(model(inputs), targets)


def image_batches(count: int, side: int, classes: int, format_: torch.memory_format) -> list[Batch]:
    """Noise images with labels, drawn from a generator of their own."""
    random = torch.Generator().manual_seed(7)
    return [
        (
            torch.randn(count, 3, side, side, generator=random).contiguous(memory_format=format_),
            torch.randint(0, classes, (count,), generator=random),
        )
        for _ in range(BATCHES)
    ]


def token_batches(count: int, length: int, vocab: int) -> list[Batch]:
    """Random tokens; the target of each is the next one."""
    random = torch.Generator().manual_seed(7)
    rows = [torch.randint(0, vocab, (count, length + 1), generator=random) for _ in range(BATCHES)]
    return [(row[:, :-1].contiguous(), row[:, 1:].contiguous()) for row in rows]


def mlp(tiny: bool) -> Subject:
    """Three linear layers."""
    side, count = (8, 512) if tiny else (32, 2048)
    hidden = [256, 256, 128] if tiny else [1024, 1024, 1024]
    widths = [3 * side * side, *hidden, 10]
    batches = image_batches(count, side, 10, torch.contiguous_format)
    return Subject(models.MLP(widths), batches, classification_loss)


def vgg16(tiny: bool) -> Subject:
    """Without batch norm, with dropout."""
    model = models.vgg16(10, 0.0625, 32) if tiny else models.vgg16()
    batches = image_batches(16 if tiny else 32, 32 if tiny else 64, 10, torch.contiguous_format)
    return Subject(model, batches, classification_loss)


def resnet18(tiny: bool) -> Subject:
    """Batch norm and shortcuts."""
    batches = image_batches(16 if tiny else 32, 32 if tiny else 64, 10, torch.contiguous_format)
    return Subject(models.resnet18(10, 8 if tiny else 64), batches, classification_loss)


def _resnet50(tiny: bool, format_: torch.memory_format) -> Subject:
    model = models.resnet50(10, 4 if tiny else 64)
    model = model.to(memory_format=format_)  # type: ignore[call-overload]
    batches = image_batches(8 if tiny else 16, 32 if tiny else 64, 10, format_)
    return Subject(model, batches, classification_loss)


def resnet50_nchw(tiny: bool) -> Subject:
    """PyTorch's default layout."""
    return _resnet50(tiny, torch.contiguous_format)


def resnet50_channels_last(tiny: bool) -> Subject:
    """The layout that CPUs prefer."""
    return _resnet50(tiny, torch.channels_last)


def unet(tiny: bool) -> Subject:
    """Skip connections across the whole step."""
    side, count = (32, 4) if tiny else (64, 8)
    random = torch.Generator().manual_seed(7)
    batches: list[Batch] = [
        (
            torch.randn(count, 3, side, side, generator=random),
            torch.randint(0, 2, (count, side, side), generator=random),
        )
        for _ in range(BATCHES)
    ]
    return Subject(models.UNet(width=4 if tiny else 32), batches, segmentation_loss)


def _gpt(tiny: bool, checkpointed: bool) -> Subject:
    shape = (
        {"context": 64, "width": 32, "layers": 3, "heads": 4}
        if tiny
        else {"context": 128, "width": 256, "layers": 6, "heads": 8}
    )
    model = models.GPT(vocab=64 if tiny else 256, checkpointed=checkpointed, **shape)
    return Subject(
        model,
        token_batches(8 if tiny else 16, shape["context"], 64 if tiny else 256),
        classification_loss,
    )


def gpt(tiny: bool) -> Subject:
    """Fused attention, dropout, tied weights."""
    return _gpt(tiny, checkpointed=False)


def gpt_checkpointed(tiny: bool) -> Subject:
    """The same with torch.utils.checkpoint around every layer."""
    return _gpt(tiny, checkpointed=True)


def lstm(tiny: bool) -> Subject:
    """Two nn.LSTM layers with dropout between them."""
    model = models.LSTMLanguageModel(64, 24) if tiny else models.LSTMLanguageModel(256, 256)
    batches = token_batches(16, 32, 64) if tiny else token_batches(32, 64, 256)
    return Subject(model, batches, classification_loss)


SUBJECTS: dict[str, Callable[[bool], Subject]] = {
    "mlp": mlp,
    "vgg16": vgg16,
    "resnet18": resnet18,
    "resnet50_nchw": resnet50_nchw,
    "resnet50_channels_last": resnet50_channels_last,
    "unet": unet,
    "gpt": gpt,
    "gpt_checkpointed": gpt_checkpointed,
    "lstm": lstm,
}
