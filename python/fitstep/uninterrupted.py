"""Signals during a step wait for its end: half a step is no state to stop in. A second Ctrl-C while
the plan runs does stop it, and StepFailed says what that leaves.

handler of SIGTERM, say    a note is taken        ...    the handler is called
step                    |==== parameters, state, schedules ====|
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading

# What stands behind `signal`, whose getsignal() makes an enum of each answer and takes 20 times as
# long: there is one for each signal in every step.
from _signal import getsignal  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from .errors import StepFailed

# Faults of the process itself cannot wait.
_AT_ONCE = {signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE}
_AT_ONCE |= {signal.SIGILL}
_SIGNALS = tuple(sorted(int(number) for number in signal.valid_signals() - _AT_ONCE))

# What sends a signal: the owner, the name, and the function.
_SENDERS = ((signal, "raise_signal"), (signal, "pthread_kill"), (os, "kill"), (os, "killpg"))
SENDING = tuple((owner, name, getattr(owner, name)) for owner, name in _SENDERS)

Handler = Callable[[int, FrameType | None], Any]


@contextlib.contextmanager
def uninterrupted() -> Iterator[bool]:
    """Keeps all signals back that have a handler in Python while the body runs, and lets each act
    once afterwards. The body is given whether Ctrl-C acts on this thread: on the main one, unless
    SIGINT is ignored.

    StepFailed is not hidden by what a handler raises, the KeyboardInterrupt of a Ctrl-C or else:
    who saves a checkpoint at that would save half a step. It has a note instead.
    """
    if threading.current_thread() is not threading.main_thread():
        yield False
        return
    held = _Held()
    _stack.append(held)
    failure: StepFailed | None = None
    try:
        held.take()
        yield signal.SIGINT in held.handlers
    except StepFailed as error:
        failure = error
        raise
    finally:
        try:
            held.give_back()
        finally:  # A handler that came in between may have raised.
            held.give_back()
            _stack.remove(held)
            held.act(failure)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """In a body of uninterrupted(), where nothing has changed yet: signals act at once, also those
    that were kept back before."""
    if threading.current_thread() is not threading.main_thread() or not _stack:
        yield
        return
    held = _stack[-1]
    held.is_holding = False
    try:
        held.act(None)
        yield
    finally:
        held.is_holding = True


@contextlib.contextmanager
def acting_at_once() -> Iterator[None]:
    """In a body of uninterrupted(), where the step itself sends a signal: it goes on with what the
    handler has done, so that this one does not wait."""
    if threading.current_thread() is not threading.main_thread() or not _stack:
        yield
        return
    held = _stack[-1]
    before, held.is_holding = held.is_holding, False
    try:
        yield
    finally:
        held.is_holding = before


class _Held:
    """Notes what handlers are called for; from one moment on it calls them, so that they may come
    while they are being put back."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.frames: dict[int, FrameType | None] = {}  # Of the first of each.
        self.is_holding = True

    def take(self) -> None:
        for number in _SIGNALS:
            handler = getsignal(number)
            if callable(handler):
                self.handlers[number] = handler
                signal.signal(number, _Standing(self, handler))

    def give_back(self) -> None:
        self.is_holding = False
        for number, handler in self.handlers.items():
            now = getsignal(number)
            if type(now) is _Standing and now.held is self:
                signal.signal(number, handler)

    def act(self, failure: StepFailed | None) -> None:
        """Has each handler called that was, whatever others raise. With a failure it is that which
        is raised."""
        if not self.frames:
            return
        number = next(iter(self.frames))
        frame = self.frames.pop(number)
        try:
            self.handlers[number](number, frame)
        except BaseException as raised:
            if failure is None:
                raise
            failure.add_note(_note(number, raised))
        finally:
            self.act(failure)


class _Standing:
    """Stands where a handler stood. Who asks Python for the handler is told that one."""

    def __init__(self, held: _Held, handler: Handler) -> None:
        self.held, self.handler = held, handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.held.is_holding:
            self.held.frames.setdefault(number, _outside(frame))
        else:
            self.handler(number, frame)


def _show_handlers() -> None:
    """signal.signal() and getsignal() pass what they answer through a function of that module."""
    answer = signal._int_to_enum  # type: ignore[attr-defined]

    def shown(value: Any, kind: Any) -> Any:
        while type(value) is _Standing:
            value = value.handler
        return answer(value, kind)

    signal._int_to_enum = shown  # type: ignore[attr-defined]


_show_handlers()


def _note(number: int, raised: BaseException) -> str:
    if number == signal.SIGINT and isinstance(raised, KeyboardInterrupt):
        return "Ctrl-C was pressed while the step ran."
    return (
        f'A signal ("{signal.strsignal(number)}") came while the step ran, and its handler raised '
        f"{type(raised).__name__}."
    )


def _outside(frame: FrameType | None) -> FrameType | None:
    """Of a kernel's frame the one that runs the program: a kernel's would hold its arguments."""
    found = at = frame
    while at is not None:
        if at.f_code in RUN_PROGRAMS:
            found = at
        at = at.f_back
    return found


RUN_PROGRAMS: list[CodeType] = []  # Functions that do.
_stack: list[_Held] = []  # Of the main thread; the last is the innermost.
