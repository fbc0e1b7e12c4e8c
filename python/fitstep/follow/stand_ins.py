"""Replacements (stand-ins) for values within reach while a step is previewed.

open files, progress bars, trackers     ignore what is written
iterators                               copies if possible; others raise when they are advanced
queues, connections, archives           ignore what is put; a read stops the preview
text in memory, hashes                  copies
"""

from __future__ import annotations

import contextlib
import copy
import io
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..errors import CaptureError, user_location
from .muted import LeavesTheProcess, Muted, is_output

_READS = ("read", "readline", "readlines", "readinto")  # Of open files.
_COPIED = frozenset(
    {"_hashlib", "_blake2", "_md5", "_sha1", "_sha2", "_sha256", "_sha3", "_sha512", "hmac", "zlib"}
)
_METHODS = (types.BuiltinMethodType, types.MethodType, types.MethodWrapperType)
_OUTSIDE = frozenset(
    {"queue", "_queue", "sqlite3", "_sqlite3", "zipfile", "tarfile", "shelve", "_dbm", "_gdbm"}
    | {"dbm.dumb", "socket", "_socket", "h5py._hl.files", "h5py._hl.group", "h5py._hl.dataset"}
    | {f"multiprocessing.{one}" for one in ("connection", "managers", "pool", "queues")}
    | {f"multiprocessing.{one}" for one in ("shared_memory", "synchronize")}
    | {
        "asyncio.unix_events",
        "uvloop",
        "asyncio.queues",
        "concurrent.futures._base",
        "mmap",
        "sched",
        "subprocess",
        "_pickle",
    }
)


class _StandIn:
    """Acts on the thread that created it; other threads reach the real object."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._thread = threading.get_ident()

    def _is_mine(self) -> bool:
        return threading.get_ident() == self._thread


class HeldIterator(_StandIn):
    """Replaces an iterator, because nothing could put back a value that a preview drew."""

    def __iter__(self) -> HeldIterator:
        return self

    def __next__(self) -> object:
        if not self._is_mine():
            return next(self._real)
        raise CaptureError(
            f"the step takes its data from an iterator itself (a {type(self._real).__name__}), and "
            "compile would use up its first values",
            where=user_location(),
            todo="call next() before the step and pass the batch: step(*next(iterator))",
        )

    def __len__(self) -> int:
        return len(self._real)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._real(*args, **kwargs)

    def __getattr__(self, name: str) -> object:
        if name in ("send", "throw", "close", *_READS) and self._is_mine():  # They advance it, too.
            return lambda *_args: self.__next__()
        if name in ("_real", "_thread"):  # copy.copy() asks before they are set.
            raise AttributeError(name)
        return getattr(self._real, name)


class Outside(_StandIn):
    """Replaces an object that other threads or processes use, too: a queue, a connection, an
    archive. Puts are ignored; a read or any other use stops the preview."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._real)

    def __getattr__(self, name: str) -> Any:
        if name in ("_real", "_thread"):  # copy.copy() asks before they are set.
            raise AttributeError(name)
        found = getattr(self._real, name)
        if name in ("qsize", "empty", "full") or not self._is_mine():
            return found
        if name in ("put", "put_nowait", "task_done", "send"):
            return _ignore
        return self._leave if callable(found) else self._leave()

    def _leave(self, *_args: object, **_kwargs: object) -> Any:
        raise LeavesTheProcess(type(self._real).__name__)


def _door(name: str) -> Callable[..., Any]:
    """A special method of Outside, which Python looks up on the class."""

    def call(outside: Outside, *args: Any, **kwargs: Any) -> Any:
        if outside._is_mine():
            outside._leave()
        return getattr(outside._real, name)(*args, **kwargs)

    return call


for _name in ("enter", "exit", "iter", "len", "getitem", "setitem", "delitem", "contains", "call"):
    setattr(Outside, f"__{_name}__", _door(f"__{_name}__"))


def _ignore(*_args: object, **_kwargs: object) -> None:
    pass


def _is_iterator(value: object) -> bool:
    kind = type(value)
    if kind is types.CoroutineType:
        return True
    if isinstance(value, torch.nn.Module | np.flatiter) or not hasattr(kind, "__next__"):
        return False
    return not isinstance(value, HeldIterator | Muted)


def stand_in(value: Any) -> Any:
    """The replacement of a value during a preview; most values are returned as they are."""
    if type(value) in (io.StringIO, io.BytesIO) and not value.closed:
        copied = type(value)(value.getvalue())
        copied.seek(value.tell())
        return copied
    if isinstance(value, _METHODS):
        owner = value.__self__
        held = owner if isinstance(owner, types.ModuleType) else stand_in(owner)
        return value if held is owner else getattr(held, value.__name__)
    if is_output(value):
        return Muted(value)
    if type(value).__module__ in _OUTSIDE:
        return Outside(value)
    top = (type(value).__module__ or "").partition(".")[0]
    if top == "pandas" and type(value).__name__ in ("DataFrame", "Series"):
        version = int(sys.modules["pandas"].__version__.partition(".")[0])
        return value.copy(deep=version < 3)  # pandas 3 copies on write.
    if type(value).__module__ == "xml.etree.ElementTree":
        return copy.deepcopy(value)
    if top == "PIL" and hasattr(value, "getpixel"):
        return value.copy()
    if type(value).__module__ in _COPIED:  # Written in C: their state cannot be put back.
        return value.copy() if hasattr(value, "copy") else value
    if isinstance(value, tuple) and value and type(value).__module__ != "torch":
        return _stand_in_tuple(value)
    if not _is_iterator(value):
        return value
    if type(value).__module__ in ("itertools", "builtins"):
        with contextlib.suppress(Exception):  # Generators, for example, cannot be copied.
            return copy.deepcopy(value)
    return HeldIterator(value)


def _stand_in_tuple(value: tuple[Any, ...]) -> Any:
    inner = [stand_in(item) for item in value]
    if all(a is b for a, b in zip(value, inner, strict=True)):
        return value
    make = getattr(type(value), "_make", None)  # A namedtuple has it.
    return make(inner) if make is not None else tuple(inner)
