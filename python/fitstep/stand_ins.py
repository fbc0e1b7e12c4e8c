"""What takes the place of values within reach while a step is previewed.

open files, progress bars, trackers     take nothing
iterators                               give nothing
queues, connections, archives           take nothing; asked for something they end the preview
text in memory, hashes                  copies
"""

from __future__ import annotations

import contextlib
import copy
import io
import types
from typing import Any

import torch

from .errors import CaptureError, user_location
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
    | {"multiprocessing.shared_memory", "asyncio.queues", "subprocess", "_pickle"}
)


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

    def __len__(self) -> int:
        return len(self._real)  # type: ignore[arg-type]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._real(*args, **kwargs)  # type: ignore[operator]

    def __getattr__(self, name: str) -> object:
        if name in ("send", "throw", "close", *_READS):  # They move it, too.
            return lambda *_args: self.__next__()
        if name == "_real":  # Asked by copies, before they have one.
            raise AttributeError(name)
        return getattr(self._real, name)


class Outside:
    """Stands for an object that others see or change, too: a queue, a connection, an archive,
    another process. What is put there nobody gets; where the step gets something, or does anything
    else with it, the preview ends."""

    def __init__(self, real: object) -> None:
        self._real = real

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._real)

    def __getattr__(self, name: str) -> Any:
        if name == "_real":  # Asked by copies, before they have one.
            raise AttributeError(name)
        if name in ("put", "put_nowait", "task_done", "send"):
            return _ignore
        found = getattr(self._real, name)
        if name in ("qsize", "empty", "full"):
            return found
        return self._leave if callable(found) else self._leave()

    def _leave(self, *_args: object, **_kwargs: object) -> Any:
        raise LeavesTheProcess(type(self._real).__name__)

    __enter__ = __exit__ = __iter__ = __len__ = __getitem__ = __setitem__ = __call__ = _leave


def _ignore(*_args: object, **_kwargs: object) -> None:
    pass


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
    if isinstance(value, _METHODS):
        owner = value.__self__
        held = owner if isinstance(owner, types.ModuleType) else stand_in(owner)
        return value if held is owner else getattr(held, value.__name__)
    if is_output(value):
        return Muted(value)
    if type(value).__module__ in _OUTSIDE:
        return Outside(value)
    if type(value).__module__ in _COPIED:  # Written in C: nobody could put back what they took in.
        return value.copy() if hasattr(value, "copy") else value
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
