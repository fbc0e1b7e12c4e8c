"""Settings of torch that change the bits of kernels: threads, determinism, precision and others.

A program is for the settings that it was made under. If a step changes a setting, the operators
that were called before run first (`setting_doors`). Autograd, autocast and the choice of an
attention kernel are no such settings: they act when an operator is called, not when it runs.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..errors import CaptureError

_C: Any = torch._C
_LEAST = 5e-324  # The smallest float above 0.


def _get_deterministic() -> tuple[bool, bool]:
    return _C._get_deterministic_algorithms(), _C._get_deterministic_algorithms_warn_only()


def _set_deterministic(wanted: tuple[bool, bool]) -> None:
    _C._set_deterministic_algorithms(wanted[0], warn_only=wanted[1])


def _get_matmul_precision() -> str:
    with contextlib.suppress(RuntimeError):  # fp32_precision differs between backends.
        return str(_C._get_float32_matmul_precision())
    return ""


def _flushes_denormals() -> bool:
    return not _LEAST > 0.0  # torch has no getter for set_flush_denormal().


_SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (_C.get_num_threads, _C.set_num_threads),
    (_get_deterministic, _set_deterministic),
    (
        _C._get_deterministic_fill_uninitialized_memory,
        _C._set_deterministic_fill_uninitialized_memory,
    ),
    (_C._get_mkldnn_enabled, _C._set_mkldnn_enabled),
    (_C._get_mkldnn_deterministic, _C._set_mkldnn_deterministic),
    (_C._get_nnpack_enabled, _C._set_nnpack_enabled),
    (_C._get_cudnn_enabled, _C._set_cudnn_enabled),
    (_C._get_cudnn_benchmark, _C._set_cudnn_benchmark),
    (_C._get_cudnn_deterministic, _C._set_cudnn_deterministic),
    (_get_matmul_precision, _C._set_float32_matmul_precision),
    (torch.get_default_dtype, _C._set_default_dtype),
    (_flushes_denormals, _C.set_flush_denormal),
)
_PRECISIONS = tuple(
    (backend, of) for backend in ("mkldnn", "cuda") for of in ("matmul", "conv", "rnn")
)
_DOORS = (
    *("_set_default_dtype", "_set_default_tensor_type"),
    *("_set_blas_", "_set_cpu_allow_", "_set_cublas_", "_set_cudnn_", "_set_deterministic_"),
    *("_set_float32_", "_set_fp32_", "_set_linalg_", "_set_math_sdp_", "_set_miopen_"),
    *("_set_mkldnn_", "_set_nnpack_", "_set_onednn_", "_set_qengine", "_set_sm_carveout_"),
    *("set_flush_denormal", "set_num_threads"),
)


def ambient() -> tuple[object, ...]:
    """The settings now. Under equal tuples kernels have equal bits."""
    precisions = (_C._get_fp32_precision_getter(*one) for one in _PRECISIONS)
    return (*(get() for get, _ in _SETTINGS), *precisions)


def set_ambient(wanted: tuple[object, ...]) -> None:
    """Sets what differs from `wanted`, except precisions of single backends."""
    for (get, put), value in zip(_SETTINGS, wanted, strict=False):
        if get() != value:
            put(value)


@contextmanager
def under(wanted: tuple[object, ...]) -> Iterator[None]:
    """In its body settings are as `wanted`. Raises CaptureError if one cannot be set."""
    before = ambient()
    set_ambient(wanted)
    try:
        if ambient() != wanted:
            raise CaptureError(
                "the step sets the precision of a backend (fp32_precision) while it runs",
                todo="set it before compile, and do not change it in the step",
            )
        yield
    finally:
        set_ambient(before)


@functools.cache
def setting_doors() -> tuple[tuple[Any, str, Callable[..., Any]], ...]:
    """(owner, name, function) of each function by which Python changes such a setting."""
    names = [(_C, name) for name in dir(_C) if name.startswith(_DOORS)]
    names += [(torch, "set_num_threads"), (torch, "set_flush_denormal")]
    return tuple((owner, name, getattr(owner, name)) for owner, name in names)
