"""Undo: what a preview of a step does to Python state is put back.

    entries of every container within reach   by saved entries; the containers stay the same
    gradients, version counters               by saved values
    numpy arrays, bytearrays, ctypes' data    by saved bytes
    generators                                by saved states
    iterators                                 held: nothing could put back what they gave
    files, progress bars, trackers            muted: nothing could take back what was written

What cannot be seen from the step function is not undone; `compile` finds that by a recording more,
which must be the first one's equal.
"""

from __future__ import annotations

import array
import contextlib
import copy
import ctypes
import functools
import io
import os
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from . import _core
from .ambient import ambient, set_ambient
from .errors import CaptureError, user_location
from .muted import Muted, is_output
from .state import Reach
from .state.nodes import is_leaf
from .state.rng import GeneratorStates

_CTYPES = (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)


_READS = ("read", "readline", "readlines", "readinto")  # Of open files.


class HeldIterator:
    """Stands for an iterator while a step is previewed, as nothing could put back what it gave."""

    def __init__(self, real: object) -> None:
        self._real = real

    def __iter__(self) -> HeldIterator:
        return self

    def __next__(self) -> object:
        raise CaptureError(
            f"the step takes its data from an iterator itself (a {type(self._real).__name__}), and "
            "compile would use up its first values",
            where=user_location(),
            todo="draw the batch before the step and pass it as an argument: step(*next(iterator))",
        )

    def __getattr__(self, name: str) -> object:
        if name in ("send", "throw", "close", *_READS):  # They move it, too.
            return lambda *_args: self.__next__()
        if name == "_real":  # Asked by copies, before they have one.
            raise AttributeError(name)
        return getattr(self._real, name)


def _is_iterator(value: object) -> bool:
    kind = type(value)
    if isinstance(value, torch.nn.Module) or not hasattr(kind, "__next__"):
        return False
    return not isinstance(value, HeldIterator | Muted)


def stand_in(value: Any) -> Any:
    """What takes the place of a value while a step is previewed; most values stay."""
    if type(value) in (io.StringIO, io.BytesIO) and not value.closed:
        copied = type(value)(value.getvalue())
        copied.seek(value.tell())
        return copied
    if is_output(value):
        return Muted(value)
    if isinstance(value, tuple) and value and type(value).__module__ != "torch":
        return _stand_in_tuple(value)
    if not _is_iterator(value):
        return value
    if type(value).__module__ in ("itertools", "builtins"):
        with contextlib.suppress(Exception):  # Generators, for one, have no copies.
            return copy.deepcopy(value)
    return HeldIterator(value)


def _stand_in_tuple(value: tuple[Any, ...]) -> Any:
    inner = [stand_in(item) for item in value]
    if all(a is b for a, b in zip(value, inner, strict=True)):
        return value
    make = getattr(type(value), "_make", None)  # Of a namedtuple.
    return make(inner) if make is not None else tuple(inner)


class Undo:
    """Everything within reach as it was when this was made."""

    def __init__(self, reach: Reach, arguments: Iterable[torch.Tensor] = ()) -> None:
        self._reach = reach
        self._entries = [(node, node.entries()) for node in reach.nodes]
        tensors = [*(place.tensor for place in reach.unique()), *arguments]
        tensors = [tensor for tensor in tensors if not tensor.is_inference()]
        self._grads = [(tensor, tensor.grad) for tensor in tensors if is_leaf(tensor)]
        self._versions = [(tensor, tensor._version) for tensor in tensors]
        self._data = [(tensor, tensor.detach()) for tensor in tensors]
        self._hooks = [
            (tensor, name, dict(getattr(tensor, name) or {}))
            for tensor in tensors
            for name in ("_backward_hooks", "_post_accumulate_grad_hooks")
        ]
        self._flags = [(tensor, tensor.requires_grad) for tensor in tensors if is_leaf(tensor)]
        self._generators = GeneratorStates(reach)
        self._misses = [cache.cache_info().misses for cache in reach.caches]
        self._buffers = list(self._find_buffers())
        self._environment = dict(os.environ)
        self._ambient, self._makes_grads = ambient(), torch.is_grad_enabled()
        self._folder = os.getcwd()

    def _find_buffers(self) -> Iterator[tuple[Any, bytes]]:
        seen = set()
        for _node, entries in self._entries:
            for _key, held in entries:
                value = _of_process(held.obj if isinstance(held, memoryview) else held)
                kinds = (bytearray, array.array, *_CTYPES)
                if id(value) in seen or not (isinstance(value, kinds) or _is_array(value)):
                    continue
                seen.add(id(value))
                with contextlib.suppress(TypeError, ValueError, BufferError):
                    data: Any = value
                    yield data, data.tobytes() if hasattr(data, "tobytes") else bytes(data)

    def hold(self) -> None:
        """Until `put_back`, iterators within reach give nothing, and files and trackers take
        nothing."""
        for node, entries in self._entries:
            held = [(k, stand_in(v)) for k, v in entries]
            if any(a[1] is not b[1] for a, b in zip(entries, held, strict=True)):
                node.form.restore(node.container, held)

    def put_back(self) -> None:
        """Everything is as it was. May be called again. What fails leaves nothing else out."""
        failed: Exception | None = None
        for part in (
            *(self._put_entries, self._put_grads, self._put_data, self._put_hooks),
            *(self._put_buffers, self._put_versions, self._put_process, self._put_caches),
        ):
            try:
                part()
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _put_entries(self) -> None:
        for node, was in self._entries:
            node.form.restore(node.container, was)

    def _put_grads(self) -> None:
        for tensor, flag in self._flags:
            if tensor.requires_grad != flag:
                tensor.requires_grad_(flag)
        for tensor, grad in self._grads:
            if tensor.grad is not grad:
                tensor.grad = grad

    def _put_data(self) -> None:
        for tensor, data in self._data:
            if not _core.has_storage(data):
                continue
            if tensor.data_ptr() != data.data_ptr() or tensor.shape != data.shape:
                tensor.data = data  # As it was before `.data =` or resize_().

    def _put_hooks(self) -> None:
        for tensor, name, was in self._hooks:
            hooks = getattr(tensor, name)
            if hooks is not None and dict(hooks) != was:
                hooks.clear()
                hooks.update(was)

    def _put_buffers(self) -> None:
        for buffer, content in self._buffers:
            _write(buffer, content)

    def _put_versions(self) -> None:
        moved = [(t, version) for t, version in self._versions if t._version != version]
        if moved:
            torch._C._autograd._unsafe_set_version_counter(
                tuple(t for t, _ in moved), tuple(version for _, version in moved)
            )

    def _put_process(self) -> None:
        if self._environment != dict(os.environ):
            os.environ.clear()
            os.environ.update(self._environment)
        if os.getcwd() != self._folder:
            os.chdir(self._folder)
        torch.set_grad_enabled(self._makes_grads)
        set_ambient(self._ambient)
        self._generators.restore()

    def _put_caches(self) -> None:
        for cache, misses in zip(self._reach.caches, self._misses, strict=True):
            if cache.cache_info().misses != misses:
                cache.cache_clear()  # It may hold hollow tensors, which nobody can take out of it.
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            torch.clear_autocast_cache()


def put_back(undo: Undo, *others: Any) -> None:
    """Undoes even when the user presses Ctrl-C meanwhile, and raises that afterwards."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            undo.put_back()
            for other in others:
                other()
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


@functools.cache
def _is_array_type(kind: type) -> bool:
    return any(base.__module__ == "numpy" and base.__name__ == "ndarray" for base in kind.__mro__)


def _is_array(value: object) -> bool:
    kind: Any = type(value)
    return bool(_is_array_type(kind))


def _of_process(value: Any) -> Any:
    """What is behind a multiprocessing.Value or Array."""
    if type(value).__module__ != "multiprocessing.sharedctypes":
        return value
    return value.get_obj() if hasattr(value, "get_obj") else value


def _write(buffer: Any, content: bytes) -> None:
    if isinstance(buffer, _CTYPES):
        if bytes(buffer) != content:
            memoryview(buffer).cast("B")[:] = content
    elif isinstance(buffer, bytearray):
        if bytes(buffer) != content:
            buffer[:] = content
    elif isinstance(buffer, array.array):
        if buffer.tobytes() == content:
            return
        if len(buffer) * buffer.itemsize == len(content):  # A tensor may share its memory.
            memoryview(buffer).cast("B")[:] = content
            return
        del buffer[:]
        buffer.frombytes(content)
    elif buffer.tobytes() != content:
        import numpy

        with contextlib.suppress(ValueError):  # Read-only ones are as they were.
            buffer[...] = numpy.frombuffer(content, buffer.dtype).reshape(buffer.shape)
