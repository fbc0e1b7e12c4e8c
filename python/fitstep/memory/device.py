"""The device that a step runs on: the one GPU of its tensors, or the CPU."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable
from typing import Any

import torch

from .. import _core
from ..errors import CaptureError, FitstepError

_ON_THE_CPU = torch.device("cpu")


def device_of(tensors: Iterable[tuple[str, torch.Tensor]]) -> torch.device:
    """The device of these (name, tensor) pairs. Beside a GPU some tensors may be on the CPU, as
    optimizers' step counts are, or on meta. Raises CaptureError for two GPUs, or for a device
    that is neither a CPU nor CUDA."""
    found, name = _ON_THE_CPU, ""
    for path, tensor in tensors:
        device = tensor.device
        if device.type in ("cpu", "meta") or device == found:
            continue
        if device.type != "cuda":
            raise CaptureError(
                f"{path} is on {device}",
                todo="fitstep runs on the CPU and on CUDA GPUs: move the whole model and the "
                "optimizer's state to one of them",
            )
        if name:
            raise CaptureError(
                f"{name} is on {found}, and {path} is on {device}",
                todo="keep everything that a step uses on one GPU",
            )
        found, name = device, path
    return found


def free_bytes_of(device: Any) -> int:
    """The bytes that are free now on a _core.Device; of a CPU as far as the system tells."""
    if not device.is_cpu():
        return int(device.memory_bytes())
    free_bytes = _core.free_memory_bytes()
    return sys.maxsize if free_bytes is None else free_bytes


@functools.cache
def open_device(device: torch.device) -> Any:
    """The _core.Device. Raises FitstepError if this build cannot use the device."""
    if device.type == "cpu":
        return _core.cpu_device()
    try:
        from .. import _cuda
    except ImportError as error:
        raise FitstepError(
            f"this build of fitstep has no GPU support ({error})",
            todo="install fitstep where the CUDA toolkit and your PyTorch with CUDA are, or move "
            "the model to the CPU",
        ) from None
    if torch.cuda.is_available():
        torch._C._cuda_clearCublasWorkspaces()  # Earlier kernels may have allocated some.
    before = _allocated_bytes(device)
    with torch.enable_grad():
        _warm_up(device)
    kept_bytes = _allocated_bytes(device) - before
    try:
        return _cuda.open_device(device.index or 0, kept_bytes)
    except RuntimeError as error:
        raise FitstepError(
            str(error), todo=f"check that torch.ones(1, device='{device}') works"
        ) from None


def _warm_up(device: torch.device) -> None:
    """Runs cuBLAS and cuDNN once, so that they allocate what they keep before there is an arena."""
    x = torch.ones(64, 64, device=device)
    images = torch.ones(2, 4, 16, 16, device=device, requires_grad=True)
    kernels = torch.ones(4, 4, 3, 3, device=device, requires_grad=True)
    torch.nn.functional.linear(x, x, x[0])
    torch.nn.functional.conv2d(images, kernels, padding=1).sum().backward()
    x @ x


def _allocated_bytes(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if torch.cuda.is_available() else 0


def settings_of(device: torch.device) -> tuple[object, ...]:
    """Settings and hardware that change times and workspaces of kernels on a GPU."""
    if device.type == "cpu":
        return ()
    cudnn = torch.backends.cudnn
    known: tuple[object, ...] = (
        cudnn.enabled,
        cudnn.benchmark,
        cudnn.deterministic,
        torch._C._get_fp32_precision_getter("cuda", "conv"),
        torch._C._get_fp32_precision_getter("cuda", "matmul"),
        *sorted((name, value) for name, value in os.environ.items() if "CUDNN" in name),
    )
    if torch.cuda.is_available():
        of = torch.cuda.get_device_properties(device)
        known += (of.name, of.total_memory, torch.version.cuda, cudnn.version())
    return known
