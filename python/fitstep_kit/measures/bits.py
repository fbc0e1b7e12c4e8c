"""Bit patterns of a training run, for comparing two runs: equal bits, not close numbers.

A fingerprint is a dict from a readable name to a hash of dtype, shape and the elements' bytes, so
0.0 and -0.0 differ, two NaNs of equal bits do not, and a failed comparison can name the tensor.
"""

import ctypes
import hashlib
import struct
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

Fingerprint = dict[str, str]


def fingerprint(**objects: object) -> Fingerprint:
    """The bits of modules, optimizers, schedulers, tensors and numbers, also in lists and dicts.

    Functions and other objects inside state dicts (a scheduler's lambda) have no bits: left out.
    """
    return dict(_entries("", objects))


def differences(ours: Fingerprint, theirs: Fingerprint) -> list[str]:
    """Names whose bits differ or that only one side has; empty for equal runs."""
    return sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))


def _entries(name: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, nn.Module):
        yield from _entries(name, dict(value.named_parameters(remove_duplicate=False)))
        yield from _entries(name, dict(value.named_buffers(remove_duplicate=False)))
    elif isinstance(value, Optimizer | LRScheduler):
        yield from _entries(name, value.state_dict())
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entries(f"{name}/{key}" if name else str(key), item)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _entries(f"{name}/{i}", item)
    elif isinstance(value, Tensor):
        yield name, _tensor_bits(value)
    elif isinstance(value, float):
        yield name, struct.pack("<d", value).hex()
    elif value is None or isinstance(value, bool | int | str):
        yield name, repr(value)


def _tensor_bits(tensor: Tensor) -> str:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    if flat.numel() > 0:  # By address: a step takes memory that numpy has seen for numpy's, too.
        digest.update((ctypes.c_char * flat.numel()).from_address(flat.data_ptr()))
    return digest.hexdigest()
