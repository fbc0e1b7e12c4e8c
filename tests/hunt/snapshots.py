"""Snapshots of everything that a training may leave behind, and how two of them differ.

A snapshot is made of tuples, strings and numbers alone, so equal snapshots are equal to the bit:
-0.0 is not 0.0, 1 is not 1.0, a NaN is itself, and a float is no tensor.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import enum
import io
import struct
from typing import Any

import numpy as np
import torch

SHOWN = 4  # Differences that are named; more are only counted.


class Writes(int):
    """How often a tensor has been written."""


def snapshot(value: Any) -> Any:
    """The value as nested tuples (kind, content)."""
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if isinstance(value, torch.nn.Module):
        return of_module(value)
    if isinstance(value, torch.optim.Optimizer | torch.optim.lr_scheduler.LRScheduler):
        return type(value).__name__, snapshot(strip(value.state_dict()))
    if isinstance(value, torch.amp.GradScaler):
        return "GradScaler", snapshot(value.state_dict())
    if isinstance(value, torch.Generator):
        return "Generator", snapshot(value.get_state())
    if isinstance(value, np.ndarray | np.generic):
        return type(value).__name__, str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, float | complex) and type(value) in (float, complex):
        return type(value).__name__, repr(value), pack(value)
    if value is None or isinstance(value, bool | int | str | bytes | bytearray | enum.Enum):
        return type(value).__name__, repr(value)
    return of_collection(value)


def of_collection(value: Any) -> Any:
    """Containers, and objects by their attributes."""
    name = type(value).__name__
    if isinstance(value, dict):
        return name, tuple((repr(key), snapshot(item)) for key, item in value.items())
    if isinstance(value, set | frozenset):
        return name, tuple(sorted(repr(item) for item in value))
    if isinstance(value, list | tuple | collections.deque):
        return name, tuple((str(i), snapshot(item)) for i, item in enumerate(value))
    if isinstance(value, array.array):
        return name, value.typecode, value.tobytes()
    if isinstance(value, io.StringIO):
        return name, value.getvalue()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return name, tuple((f.name, snapshot(getattr(value, f.name))) for f in fields)
    if isinstance(value, torch.dtype | torch.device | torch.Size | type | range | slice):
        return name, str(value)
    if hasattr(value, "__dict__"):
        return name, tuple((key, snapshot(item)) for key, item in vars(value).items())
    raise TypeError(f"no snapshot of a {name}")


def of_tensor(tensor: torch.Tensor) -> Any:
    """Type, geometry, how often it was written, and bytes. A parameter that is returned may come
    back as a plain tensor."""
    kind = "Tensor" if isinstance(tensor, torch.nn.Parameter) else type(tensor).__name__
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        return (type(tensor).__name__,)
    writes = Writes(-1 if tensor.is_inference() else tensor._version)
    tensor = tensor.detach()
    if tensor.layout is torch.sparse_csr:
        parts = (tensor.crow_indices(), tensor.col_indices(), tensor.values())
        return kind, "compressed rows", *map(of_tensor, parts)
    if tensor.is_sparse:
        tensor = tensor.coalesce()
        return kind, "sparse", of_tensor(tensor.indices()), of_tensor(tensor.values())
    where = zip(tensor.shape, tensor.stride(), strict=True)
    strides = () if tensor.numel() == 0 else tuple(s for n, s in where if n > 1)
    content = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    shown = str(tensor.flatten()[:2].tolist())
    data = bytes(content.tolist())
    return kind, str(tensor.dtype), tuple(tensor.shape), strides, writes, data, shown


def of_module(module: torch.nn.Module) -> Any:
    """Parameters with their flags and hooks, buffers, and the parts' modes and hooks."""
    parameters = tuple(
        (name, ("Parameter", (("data", of_tensor(p)), ("grad?, hooks", of_leaf(p)))))
        for name, p in module.named_parameters(remove_duplicate=False)
    )
    buffers = tuple(
        (name, of_tensor(b)) for name, b in module.named_buffers(remove_duplicate=False)
    )
    parts = tuple((name, (part.training, *hooks(part))) for name, part in module.named_modules())
    return "Module", (*parameters, *buffers, ("parts", ("parts", parts)))


def of_leaf(p: torch.Tensor) -> tuple[bool, int, int]:
    """Whether a parameter is trained, and how many hooks it has."""
    if isinstance(p, torch.nn.parameter.UninitializedTensorMixin):
        return False, 0, 0
    after = getattr(p, "_post_accumulate_grad_hooks", None)
    return p.requires_grad, len(p._backward_hooks or ()), len(after or ())


def hooks(part: torch.nn.Module) -> list[int]:
    """How many hooks a module has, of the usual kinds."""
    kinds = [part._forward_hooks, part._forward_pre_hooks, part._backward_hooks]
    return [len(kind) for kind in kinds]


def strip(state: Any) -> Any:
    """A state dict without functions and without objects that hold the optimizer."""
    if isinstance(state, dict):
        return {key: strip(item) for key, item in state.items() if not callable(item)}
    if isinstance(state, list):
        return [strip(item) for item in state if not callable(item)]
    return state


def pack(value: complex) -> bytes:
    """The bits of a number."""
    return struct.pack("<dd", complex(value).real, complex(value).imag)


def without_writes(taken: Any) -> Any:
    """The snapshot without how often tensors were written, which an error leaves as it is."""
    if not isinstance(taken, tuple):
        return taken
    return tuple(without_writes(item) for item in taken if not isinstance(item, Writes))


def differences(wanted: Any, got: Any) -> list[str]:
    """In words, where two snapshots differ; at most `SHOWN` places."""
    found: list[str] = []
    _walk("", wanted, got, found)
    more = len(found) - SHOWN
    return found[:SHOWN] + ([f"and {more} more"] if more > 0 else [])


def _walk(place: str, wanted: Any, got: Any, found: list[str]) -> None:
    if wanted == got:
        return
    if _is_named(wanted) and _is_named(got) and wanted[0] == got[0]:
        old, new = dict(wanted[1]), dict(got[1])
        if list(old) == list(new):
            for key in old:
                _walk(f"{place}.{key}" if place else str(key), old[key], new[key], found)
            return
        keys = sorted(map(str, old.keys() ^ new.keys())) or "their order"
        found.append(f"{place}: entries {keys} ({len(old)} wanted, {len(new)} found)")
        return
    found.append(f"{place or 'value'}: {_shown(wanted)} wanted, {_shown(got)} found")


def _is_named(snap: Any) -> bool:
    """Whether a snapshot is (kind, ((name, snapshot), ...))."""
    return (
        isinstance(snap, tuple)
        and len(snap) == 2
        and isinstance(snap[1], tuple)
        and all(isinstance(entry, tuple) and len(entry) == 2 for entry in snap[1])
    )


def _shown(snap: Any) -> str:
    """A snapshot in a few words: a tensor without its bytes."""
    if isinstance(snap, tuple):
        return "(" + ", ".join(_shown(s) for s in snap if not isinstance(s, bytes))[:120] + ")"
    return str(snap)[:80]
