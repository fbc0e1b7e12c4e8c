"""The trainings that the memory and speed figures are about, and their small stand-ins.

    resnet50_nchw, resnet50_channels_last   32 images of 224x224, SGD with momentum; also with 16
    vgg16, unet                             16 images of 224x224, 4 images of 256x256
    gpt                                     12 layers, 8 x 512 tokens, width 512, vocabulary 256
    lstm                                    4 layers of 512, 32 x 128 tokens, vocabulary 256
    mlp                                     4 layers of 512, batch 64

`small` has the same ops on a fraction of the bytes, for trying the benchmarks themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from fitstep_kit.models import GPT, MLP, LSTMLanguageModel, UNet, resnet50, vgg16
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


@dataclass
class Workload:
    """A training: its step, its batches, everything that it changes."""

    train_step: Callable[..., Tensor]
    batches: list[Batch]
    model: nn.Module
    optimizer: torch.optim.Optimizer

    def batch(self, index: int) -> Batch:
        return self.batches[index % len(self.batches)]


def _workload(model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[Batch]) -> Workload:
    def train_step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        logits = model(inputs).flatten(0, -2)
        loss = F.cross_entropy(logits, targets.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return Workload(train_step, batches, model, optimizer)


def _images(
    model: nn.Module, count: int, side: int, format_: torch.memory_format = torch.contiguous_format
) -> Workload:
    """A classifier of 1000 classes."""
    model = model.to(memory_format=format_)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    images = [torch.randn(count, 3, side, side).contiguous(memory_format=format_) for _ in "ab"]
    return _workload(model, optimizer, [(x, torch.randint(0, 1000, (count,))) for x in images])


def _resnet50(small: bool, format_: torch.memory_format, images: int = 32) -> Workload:
    count, side, width = (4, 64, 16) if small else (images, 224, 64)
    return _images(resnet50(width=width), count, side, format_)


def resnet50_nchw(small: bool) -> Workload:
    """PyTorch's default layout."""
    return _resnet50(small, torch.contiguous_format)


def resnet50_channels_last(small: bool) -> Workload:
    """The layout that CPUs prefer."""
    return _resnet50(small, torch.channels_last)


def resnet50_16_nchw(small: bool) -> Workload:
    """Half the images."""
    return _resnet50(small, torch.contiguous_format, 16)


def resnet50_16_channels_last(small: bool) -> Workload:
    """Half the images."""
    return _resnet50(small, torch.channels_last, 16)


def vgg16_16(small: bool) -> Workload:
    """Large feature maps, large weights, dropout, pooling indices."""
    if small:
        return _images(vgg16(width=0.25, hidden=128), 2, 224)
    return _images(vgg16(), 16, 224)


def unet(small: bool) -> Workload:
    """Two classes per pixel."""
    count, side, width = (2, 32, 8) if small else (4, 256, 64)
    model = UNet(width=width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def train_step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    images = [torch.randn(count, 3, side, side) for _ in "ab"]
    batches = [(x, torch.randint(0, 2, (count, side, side))) for x in images]
    return Workload(train_step, batches, model, optimizer)


def _language(model: nn.Module, count: int, context: int) -> Workload:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    rows = [torch.randint(0, 256, (count, context + 1)) for _ in "ab"]
    return _workload(
        model, optimizer, [(row[:, :-1].contiguous(), row[:, 1:].contiguous()) for row in rows]
    )


def gpt(small: bool) -> Workload:
    """Default AdamW, dropout, tied weights."""
    count, context, width, layers = (4, 64, 64, 4) if small else (8, 512, 512, 12)
    return _language(
        GPT(vocab=256, context=context, width=width, layers=layers, heads=8), count, context
    )


def lstm(small: bool) -> Workload:
    """A language model whose backward pass reads a workspace of the forward pass."""
    count, context, width, layers = (4, 16, 32, 2) if small else (32, 128, 512, 4)
    return _language(LSTMLanguageModel(vocab=256, width=width, layers=layers), count, context)


def mlp(small: bool) -> Workload:
    """So small that the time of a step is that of its calls."""
    count = 8 if small else 64
    model = MLP()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    rows = [torch.randn(count, 784) for _ in "ab"]
    return _workload(model, optimizer, [(x, torch.randint(0, 10, (count,))) for x in rows])


WORKLOADS: dict[str, Callable[[bool], Workload]] = {
    "resnet50_nchw": resnet50_nchw,
    "resnet50_channels_last": resnet50_channels_last,
    "resnet50_16_nchw": resnet50_16_nchw,
    "resnet50_16_channels_last": resnet50_16_channels_last,
    "vgg16": vgg16_16,
    "unet": unet,
    "gpt": gpt,
    "lstm": lstm,
    "mlp": mlp,
}


def build(name: str, small: bool) -> Workload:
    """A fresh copy; two builds have equal bits."""
    torch.manual_seed(0)
    workload = WORKLOADS[name](small)
    torch.manual_seed(1)
    return workload
