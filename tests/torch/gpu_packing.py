"""Our operators on a GPU beside those on the CPU."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

GPU = torch.device("cuda", 0)


def bytes_of(tensor: Tensor) -> bytes:
    """Of its elements, wherever they are."""
    return bytes(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())


def packing() -> dict[str, Any]:
    """Our operators on both devices."""
    ops = torch.ops.fitstep
    torch.manual_seed(5)
    differs = []

    def compare(name: str, op: Callable[..., Tensor], *args: Any) -> Tensor:
        on_cpu = op(*args)
        on_gpu = op(*(a.to(GPU) if isinstance(a, Tensor) else a for a in args))
        same = on_gpu.device == GPU and on_gpu.stride() == on_cpu.stride()
        if not same or bytes_of(on_gpu) != bytes_of(on_cpu):
            differs.append(name)
        return on_cpu

    special = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-45, -1e-45])
    for dtype, size in itertools.product((torch.float32, torch.float64), (1, 7, 8, 4099)):
        x = torch.randn(size, dtype=dtype)
        x[: min(size, 7)] = special[:size].to(dtype)
        gradient = torch.randn(size, dtype=dtype)
        for nan_counts in (False, True):
            bits = compare(f"pack_signs {dtype} {size}", ops.pack_signs, x, nan_counts)
        compare(f"threshold {dtype} {size}", ops.threshold_backward_packed, gradient, bits, 0)
        leaky = ops.leaky_relu_backward_packed
        compare(f"leaky {dtype} {size}", leaky, gradient, bits, 0.1, False)
        mask = compare(f"pack_bools {dtype} {size}", ops.pack_bools, x > 0)
        dropout = ops.native_dropout_backward_packed
        compare(f"dropout {dtype} {size}", dropout, gradient, mask, 1.25)
    formats = (torch.contiguous_format, torch.channels_last)
    windows = (([2], [2], [0], [1]), ([3], [2], [1], [1]), ([3, 2], [1, 2], [1, 0], [2, 1]))
    for dtype, form, window in itertools.product((torch.float32, torch.float64), formats, windows):
        images = torch.randn(2, 3, 13, 12, dtype=dtype)
        images[torch.rand(images.shape) < 0.1] = float("nan")
        images[torch.rand(images.shape) < 0.1] = -float("inf")
        images = images.contiguous(memory_format=form)
        for part in range(2):
            compare(
                f"max_pool {dtype} {form} {window} {part}",
                lambda *args, part=part: ops.max_pool2d_with_codes(*args)[part],
                *(images, *window, False, form == torch.channels_last),
            )
        pooled, indices = torch.ops.aten.max_pool2d_with_indices(images, *window)
        name = f"pool {dtype} {form} {window}"
        codes = compare(name, ops.pack_pool_indices, indices, 13, 12, *window)
        gradient = torch.randn_like(pooled)
        back = ops.max_pool2d_backward_packed
        compare(f"{name}, backward", back, gradient, images, *window, False, codes)
    return {"differs": differs, "report": {"violations": 0}}
