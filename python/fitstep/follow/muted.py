"""Mutes a preview: nothing that the step prints, logs, writes or sends may reach the world.

A preview computes no tensor values and is undone afterwards. A line on a terminal, a file or a
message to another process could not be undone.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import functools
import io
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from .. import _core

# Packages whose objects only record what they are given; a step uses no number from them.
_TRACKERS = frozenset(
    {"tqdm", "tempfile", "codecs", "csv", "_csv", "rich", "tensorboard", "tensorboardX", "wandb"}
    | {"mlflow", "comet_ml", "aim", "neptune", "clearml"}
)
_WRITES = frozenset(
    {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
    | {"os.chmod", "os.chown", "shutil.move", "sqlite3.connect"}
)
_PROCESSES = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.kill"}
    | {"os.killpg", "signal.pthread_kill"}
)
_WORLD = _WRITES | _PROCESSES | {"socket.connect", "socket.sendto", "builtins.breakpoint"}
_WORLD |= {"sys.setprofile"}  # The profile function would see the preview.
_OF_FILES = frozenset({"tell", "fileno", "isatty", "readable", "writable", "seekable"})
_NEW_LOGGER = (True, False, logging.NOTSET)  # Propagates, is disabled, level.
_LOGS = (
    *((logging.Logger, "handle"), (logging.Logger, "callHandlers"), (logging.Handler, "handle")),
    *((logging.StreamHandler, "emit"), (logging.FileHandler, "emit")),
)
_STREAMS = ("stdout", "stderr", "__stdout__", "__stderr__")
_previewing: list[int] = []  # Ids of the threads that preview.
_is_hooked = False


class LeavesTheProcess(BaseException):
    """The step was about to act outside the process: the preview stops here. A BaseException, so
    that user code does not catch it."""


class Muted:
    """Replaces a file, progress bar or tracker: on the thread that previews, calls do nothing;
    other threads reach the real object."""

    def __init__(self, real: object, *, is_part: bool = False) -> None:
        object.__setattr__(self, "_real", real)
        object.__setattr__(self, "_is_part", is_part)  # This is an unknown element of `real`.
        object.__setattr__(self, "_thread", threading.get_ident())

    def _is_mine(self) -> bool:
        return bool(threading.get_ident() == self._thread)

    def __getattr__(self, name: str) -> Any:
        if name in ("_real", "_is_part", "_thread"):  # copy.copy() asks before they are set.
            raise AttributeError(name)
        found = _drop if self._is_part else getattr(self._real, name)
        if name in _OF_FILES or not self._is_mine():
            return found
        if is_output(found):  # The buffer of a text file.
            return Muted(found)
        if name == "write":
            return len
        return (lambda *_args, **_kwargs: Muted(found)) if callable(found) else found

    def __setattr__(self, name: str, value: object) -> None:
        if not self._is_mine():
            setattr(self._real, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self if self._is_mine() else self._real(*args, **kwargs)

    def __getitem__(self, key: object) -> Any:
        return Muted(self._real, is_part=True) if self._is_mine() else self._real[key]

    def __setitem__(self, key: object, value: object) -> None:
        if not self._is_mine():
            self._real[key] = value

    def __delitem__(self, key: object) -> None:
        if not self._is_mine():
            del self._real[key]

    def __len__(self) -> int:
        return len(self._real)

    def __bool__(self) -> bool:
        return bool(self._real)

    def __iter__(self) -> Iterator[Any]:
        if not self._is_mine():
            return iter(self._real)
        raise LeavesTheProcess(type(self._real).__name__)  # It would use up the bar's iterator.

    def __enter__(self) -> Any:
        return self if self._is_mine() else self._real.__enter__()

    def __exit__(self, *args: object) -> Any:
        return None if self._is_mine() else self._real.__exit__(*args)


def is_output(value: object) -> bool:
    """Whether an object only records what it is given: a writable file, progress bar, tracker."""
    kind = type(value)
    if isinstance(value, type | Muted) or (callable(value) and not hasattr(kind, "write")):
        return False
    if isinstance(value, io.IOBase):
        return value.closed or value.writable()
    home = kind.__module__ or ""  # Classes of ctypes may have no module.
    is_writer = home.startswith(("torch.utils.tensorboard", "torch.profiler"))
    return is_writer or home.partition(".")[0] in _TRACKERS


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """In its body, what this thread prints or logs is dropped. LeavesTheProcess is raised if the
    thread writes to a file, starts a process, opens a connection, or starts or wakes a thread,
    whose operators nobody would follow."""
    global _is_hooked
    if not _is_hooked:
        _core.listen_to_events([*_WORLD, "open"], _previewing, _on_event)
        _is_hooked = True
    write = os.write
    thread = threading.get_ident()
    with (
        _streams_replaced(),
        _no_warnings(),
        _loggers_kept(),
    ):
        os.write = lambda file, data: (
            memoryview(data).nbytes if _is_previewing() else write(file, data)
        )
        _previewing.append(thread)
        doors = (*thread_doors(), *_world_doors())
        # logging.disable() would change what loggers cache about being enabled.
        replaced = [(*door, _leaving) for door in doors] + [(*door, _dropping) for door in _LOGS]
        threads = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
        for (owner, name, original), (*_, make) in zip(threads, replaced, strict=True):
            setattr(owner, name, make(original))
        try:
            yield
        finally:
            _previewing.remove(thread)
            os.write = write
            for owner, name, original in threads:
                setattr(owner, name, original)


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """In its body Python shows no warning and does not mark it as shown, so that a warning that is
    shown once is shown by a real call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _Sink(io.TextIOWrapper):
    """Replaces stdout or stderr: drops what the thread that previews writes."""

    def __init__(self, real: Any) -> None:
        super().__init__(io.BytesIO(), encoding=getattr(real, "encoding", None) or "utf-8")
        self._of = real

    def fileno(self) -> int:
        return int(self._of.fileno())

    def write(self, text: str) -> Any:
        return super().write(text) if _is_previewing() else self._of.write(text)

    def __getattr__(self, name: str) -> Any:
        if name == "_of":  # copy.copy() asks before it is set.
            raise AttributeError(name)
        found = getattr(self._of, name)
        return Muted(found) if is_output(found) else found

    def flush(self) -> None:
        if not _is_previewing():
            self._of.flush()


@contextlib.contextmanager
def _streams_replaced() -> Iterator[None]:
    names = [name for name in _STREAMS if getattr(sys, name) is not None]
    before = {name: getattr(sys, name) for name in names}
    for name, real in before.items():
        setattr(sys, name, _Sink(real))
    try:
        yield
    finally:
        for name, real in before.items():
            setattr(sys, name, real)


@contextlib.contextmanager
def _loggers_kept() -> Iterator[None]:
    """After its body all loggers have the handlers, filters and settings that they had before."""
    before = {one: (one.handlers[:], one.filters[:], _settings_of(one)) for one in _loggers()}
    references: Any = vars(logging)["_handlerList"]
    handlers = [one for reference in references if (one := reference()) is not None]
    settings = [(one, one.level, one.formatter, one.filters[:]) for one in handlers]
    try:
        yield
    finally:
        for handler, level, formatter, filters in settings:
            handler.level, handler.formatter, handler.filters[:] = level, formatter, filters
        for one in _loggers():
            one.handlers[:], one.filters[:], was = before.get(one, ([], [], _NEW_LOGGER))
            if _settings_of(one) != was:
                one.propagate, one.disabled, level = was
                one.setLevel(level)


def _settings_of(logger: logging.Logger) -> tuple[bool, bool, int]:
    return logger.propagate, logger.disabled, logger.level


def _loggers() -> Iterator[logging.Logger]:
    yield logging.root
    for one in list(logging.root.manager.loggerDict.values()):
        if isinstance(one, logging.Logger):
            yield one


def _world_doors() -> Iterator[tuple[Any, str]]:
    """(owner, name) of functions that act on the world without a Python audit event."""
    yield atexit, "register"
    yield signal, "signal"
    yield signal, "raise_signal"
    if "asyncio" in sys.modules and sys.modules["asyncio"]._get_running_loop() is not None:
        for name in ("call_soon", "call_later", "call_at"):
            yield sys.modules["asyncio"].BaseEventLoop, name
    yield torch.serialization._open_zipfile_writer_file, "__init__"
    if "safetensors.torch" in sys.modules:
        yield sys.modules["safetensors.torch"], "serialize_file"


def _is_previewing() -> bool:
    return threading.get_ident() in _previewing


def thread_doors() -> Iterator[tuple[Any, str]]:
    """(owner, name) of functions that start threads or wake them."""
    for owner in (_thread, threading):
        for name in ("start_new_thread", "_start_new_thread", "_start_joinable_thread"):
            if hasattr(owner, name):
                yield owner, name
    yield threading.Thread, "start"  # A failed start would stay in threading's list.
    yield threading.Condition, "notify"  # Queues, events and barriers use it, too.
    yield ThreadPoolExecutor, "submit"


def wakes_nobody(door: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether the call is a notify() for which no thread waits."""
    return door.__name__ == "notify" and not args[0]._waiters


def _leaving(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def door(*args: Any, **kwargs: Any) -> Any:
        if _is_previewing() and not wakes_nobody(original, args):
            raise LeavesTheProcess(original.__name__)
        return original(*args, **kwargs)

    return door


def _dropping(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def log(*args: Any, **kwargs: Any) -> Any:
        return None if _is_previewing() else original(*args, **kwargs)

    return log


def _drop(*_args: object) -> None:
    pass


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if not _is_previewing():
        return
    if event == "open":
        mode, flags = (*args[1:], "", 0)[:2]
        changes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
        is_written = set(mode) & set("wax+") if isinstance(mode, str) else flags & changes
        if not is_written:
            return
        if isinstance(args[0], int) or str(args[0]).startswith("/dev/"):
            return
    raise LeavesTheProcess(event)
