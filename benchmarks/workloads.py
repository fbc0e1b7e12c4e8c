"""The two trainings that the memory and speed figures are about, and their small stand-ins.

    resnet50_nchw, resnet50_channels_last   32 images of 224x224, SGD with momentum
    gpt                                     12 layers, 8 x 512 tokens, width 512, vocabulary 256

`small` has the same ops on a fraction of the bytes, for trying the benchmarks themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from fitstep.zoo import GPT, resnet50
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
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return Workload(train_step, batches, model, optimizer)


def _resnet50(small: bool, format_: torch.memory_format) -> Workload:
    count, side, width = (4, 64, 16) if small else (32, 224, 64)
    model = resnet50(width=width).to(memory_format=format_)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    images = [torch.randn(count, 3, side, side).contiguous(memory_format=format_) for _ in "ab"]
    return _workload(model, optimizer, [(x, torch.randint(0, 1000, (count,))) for x in images])


def resnet50_nchw(small: bool) -> Workload:
    """PyTorch's default layout."""
    return _resnet50(small, torch.contiguous_format)


def resnet50_channels_last(small: bool) -> Workload:
    """The layout that CPUs prefer."""
    return _resnet50(small, torch.channels_last)


def gpt(small: bool) -> Workload:
    """Default AdamW, dropout, tied weights."""
    count, context, width, layers = (4, 64, 64, 4) if small else (8, 512, 512, 12)
    model = GPT(vocab=256, context=context, width=width, layers=layers, heads=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    rows = [torch.randint(0, 256, (count, context + 1)) for _ in "ab"]
    return _workload(
        model, optimizer, [(row[:, :-1].contiguous(), row[:, 1:].contiguous()) for row in rows]
    )


WORKLOADS: dict[str, Callable[[bool], Workload]] = {
    "resnet50_nchw": resnet50_nchw,
    "resnet50_channels_last": resnet50_channels_last,
    "gpt": gpt,
}


def build(name: str, small: bool) -> Workload:
    """A fresh copy; two builds have equal bits."""
    torch.manual_seed(0)
    workload = WORKLOADS[name](small)
    torch.manual_seed(1)
    return workload
