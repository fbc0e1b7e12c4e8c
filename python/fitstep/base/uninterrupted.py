"""Delays signals until the end of a step, so that no handler sees half a step. A second Ctrl-C
while the plan runs stops the step, and StepFailed says what is lost.

SIGTERM, for example      noted                     ...   its handler is called
step                    |==== parameters, state, schedules ====|
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading

# signal.getsignal() takes 20 times as long, because it makes an enum of each result; every step
# calls it once for each signal.
from _signal import getsignal  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from ..errors import StepFailed

# Faults of the process itself cannot be delayed.
_AT_ONCE = {signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE}
_AT_ONCE |= {signal.SIGILL}
_SIGNALS = tuple(sorted(int(number) for number in signal.valid_signals() - _AT_ONCE))

# SENDING: (owner, name, function) of each function that sends a signal.
_SENDERS = ((signal, "raise_signal"), (signal, "pthread_kill"), (os, "kill"), (os, "killpg"))
SENDING = tuple((owner, name, getattr(owner, name)) for owner, name in _SENDERS)

Handler = Callable[[int, FrameType | None], Any]


@contextlib.contextmanager
def uninterrupted() -> Iterator[bool]:
    """Delays all signals with a Python handler until the body has ended, then calls each handler
    once. Yields whether Ctrl-C acts on this thread: the main thread, unless SIGINT is ignored.

    If the body raises StepFailed and a handler raises, too (as on Ctrl-C), StepFailed is raised
    with a note: code that saves a checkpoint on KeyboardInterrupt would save half a step.
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
        finally:  # A handler that was called meanwhile may have raised.
            held.give_back()
            _stack.remove(held)
            held.act(failure)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """In the body of uninterrupted(), before anything has changed: signals act at once, also those
    that came before."""
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
    """In the body of uninterrupted(), while the step itself sends a signal: the handler is called
    at once, because the step may need what the handler does."""
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
    """Notes signals while `is_holding`; otherwise calls the original handlers at once."""

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self.frames: dict[int, FrameType | None] = {}  # By signal that came: the frame it came in.
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
        """Calls the handler of each noted signal, even if another handler raises. With a `failure`
        an error of a handler becomes a note of the failure."""
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
    """Replaces a handler during a step. signal.getsignal() still returns the original."""

    def __init__(self, held: _Held, handler: Handler) -> None:
        self.held, self.handler = held, handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.held.is_holding:
            self.held.frames.setdefault(number, _outside(frame))
        else:
            self.handler(number, frame)


def _show_handlers() -> None:
    """Makes signal.signal() and getsignal() return original handlers, by the function of module
    signal through which both pass their results."""
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
    """The frame that runs the program, if a kernel written in Python was interrupted: the kernel's
    own frame would keep its arguments alive."""
    found = at = frame
    while at is not None:
        if at.f_code in RUN_PROGRAMS:
            found = at
        at = at.f_back
    return found


RUN_PROGRAMS: list[CodeType] = []  # Code of functions that run programs.
_stack: list[_Held] = []  # On the main thread, the innermost last.
