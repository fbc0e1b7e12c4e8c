"""Quiet while a step is previewed: nothing that it prints, logs or writes may be seen.

A preview does not know the values of tensors, and all that it does is undone; what has been written
to the world could not be.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# Packages whose objects only take notes: nothing that they return is a number of a step.
_TRACKERS = frozenset(
    {"tqdm", "tensorboard", "tensorboardX", "wandb", "mlflow", "comet_ml", "aim", "neptune"}
    | {"clearml", "rich", "_csv", "csv"}
)
_WRITES = frozenset({"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link"})
_WORLD = _WRITES | {"subprocess.Popen", "os.system", "os.exec", "socket.connect", "shutil.move"}
_previewing: list[int] = []  # Threads.
_is_hooked = False


class LeavesTheProcess(BaseException):
    """The step was about to change the world: the preview ends here. No user code catches it."""


class Muted:
    """Stands for an object that takes notes: whatever is called does nothing."""

    def __init__(self, real: object) -> None:
        object.__setattr__(self, "_real", real)

    def __getattr__(self, name: str) -> Any:
        if name == "_real":  # Asked by copies, before they have one.
            raise AttributeError(name)
        found = getattr(self._real, name)
        return (lambda *_args, **_kwargs: Muted(found)) if callable(found) else found

    def __setattr__(self, _name: str, _value: object) -> None:
        pass

    def __call__(self, *_args: Any, **_kwargs: Any) -> Muted:
        return self

    def __enter__(self) -> Muted:
        return self

    def __exit__(self, *_args: object) -> None:
        pass


def is_output(value: object) -> bool:
    """Whether an object only takes notes: a file that is written, a progress bar, a tracker."""
    kind = type(value)
    if isinstance(value, type | Muted) or (callable(value) and not hasattr(kind, "write")):
        return False
    if isinstance(value, io.IOBase):
        return value.closed or value.writable()
    home = kind.__module__
    is_writer = home.startswith("torch.utils.tensorboard")
    return is_writer or home.partition(".")[0] in _TRACKERS


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """In its body, what this thread prints or logs goes nowhere, and LeavesTheProcess is raised
    where it would write to a file, start a process, open a connection, or start or wake a thread:
    nobody follows what another thread does."""
    global _is_hooked
    if not _is_hooked:
        sys.addaudithook(_on_event)  # There is no way to take one away: it looks at `_previewing`.
        _is_hooked = True
    handle = logging.Logger.callHandlers
    thread = threading.get_ident()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        # Not logging.disable(): loggers remember whether they were enabled.
        logging.Logger.callHandlers = _drop  # type: ignore[assignment, method-assign]
        _previewing.append(thread)
        threads = [(owner, name, getattr(owner, name)) for owner, name in thread_doors()]
        for owner, name, original in threads:
            setattr(owner, name, _leaving(original))
        try:
            yield
        finally:
            _previewing.remove(thread)
            logging.Logger.callHandlers = handle  # type: ignore[method-assign]
            for owner, name, original in threads:
                setattr(owner, name, original)


def thread_doors() -> Iterator[tuple[Any, str]]:
    """What starts threads, by the names under which Python's libraries call it; and what wakes."""
    for owner in (_thread, threading):
        for name in ("start_new_thread", "_start_new_thread", "_start_joinable_thread"):
            if hasattr(owner, name):
                yield owner, name
    yield threading.Condition, "notify"  # Of queues, events and barriers, too.
    yield ThreadPoolExecutor, "submit"


def wakes_nobody(door: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether no thread waits behind it."""
    return door.__name__ == "notify" and not args[0]._waiters


def _leaving(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def door(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() in _previewing and not wakes_nobody(original, args):
            raise LeavesTheProcess(original.__name__)
        return original(*args, **kwargs)

    return door


def _drop(_logger: logging.Logger, _record: logging.LogRecord) -> None:
    pass


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if not _previewing or threading.get_ident() not in _previewing:
        return
    if event == "open":
        mode = args[1] if len(args) > 1 else ""
        if not isinstance(mode, str) or not set(mode) & set("wax+"):
            return
        if isinstance(args[0], int) or str(args[0]).startswith("/dev/"):
            return
    elif event not in _WORLD:
        return
    raise LeavesTheProcess(event)
