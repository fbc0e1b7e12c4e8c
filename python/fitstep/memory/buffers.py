"""Saves and restores memory that Python writes in place: arrays, bytearrays, ctypes objects.

A preview may write to such memory, and the first call will write again, so the content is saved
before the preview and restored after it.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..state import Node
from ..state.forms import Entry
from ..state.nodes import is_array, is_numpy_scalar

_CTYPES = (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)


def find_buffers(all_entries: Iterable[tuple[Node, list[Entry]]]) -> Iterator[tuple[Any, Any]]:
    """(buffer, content) of every buffer in the entries, each once."""
    seen = set()
    for _node, entries in all_entries:
        for _key, held in entries:
            for value in _buffers_in(held):
                if id(value) in seen:
                    continue
                seen.add(id(value))
                with contextlib.suppress(TypeError, ValueError, BufferError):
                    yield value, content_of(value)


def _of_process(value: Any) -> Any:
    """The ctypes object in a multiprocessing.Value or Array; other values as they are."""
    if type(value).__module__ != "multiprocessing.sharedctypes":
        return value
    return value.get_obj() if hasattr(value, "get_obj") else value


def _buffers_in(held: Any) -> Iterator[Any]:
    """The objects in or behind a value whose memory can be written in place."""
    if isinstance(held, memoryview | pickle.PickleBuffer):
        view = memoryview(held)
        known = (bytearray, array.array, *_CTYPES)
        if not (isinstance(view.obj, known) or is_array(view.obj)):
            if not view.readonly:  # For example a mapped file.
                yield view
            return
        held = view.obj
    value = held.base if type(held) is np.flatiter else _of_process(held)
    if isinstance(value, tuple):
        for item in value:
            yield from _buffers_in(item)
    elif is_array(value):
        mask = getattr(value, "_mask", None)  # A masked array has a mask beside its data.
        if mask is not None and is_array(mask):
            yield from _buffers_in(mask)
            value = value.data
        if value.flags.writeable:
            yield value
        if value.base is not None:
            yield from _buffers_in(value.base)
    elif is_numpy_scalar(type(value)):
        if is_array(value.base):  # A row of a structured array is a view.
            yield from _buffers_in(value.base)
    elif isinstance(value, (bytearray, array.array, *_CTYPES)):
        yield value
    if isinstance(value, ctypes._Pointer | ctypes.Structure):
        yield from _pointed_to(value._objects)


def _pointed_to(objects: Any) -> Iterator[Any]:
    """The objects that a ctypes pointer keeps alive."""
    for one in objects.values() if isinstance(objects, dict) else (objects,):
        if isinstance(one, dict):
            yield from _pointed_to(one)
        elif isinstance(one, _CTYPES):
            yield one


def content_of(buffer: Any) -> Any:
    if is_array(buffer):
        return buffer.copy()
    return buffer.tobytes() if hasattr(buffer, "tobytes") else bytes(buffer)


def as_bytes(content: Any) -> bytes:
    """The bytes of a result of content_of()."""
    return bytes(content.tobytes() if is_array(content) else content)


def write(buffer: Any, content: Any) -> None:
    if is_array(content):
        if not buffer.flags.writeable:
            buffer.setflags(write=True)
        if buffer.dtype != content.dtype:
            buffer.dtype = content.dtype
        if buffer.shape != content.shape and buffer.flags.owndata:
            buffer.resize(content.shape, refcheck=False)
        elif buffer.shape != content.shape:
            buffer.shape = content.shape
        if content.dtype.hasobject or buffer.tobytes() != content.tobytes():
            buffer[...] = content
    elif isinstance(buffer, (memoryview, *_CTYPES)):
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
