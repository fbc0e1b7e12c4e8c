"""Who may use an arena now: nobody in a forked process, and one call at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from .errors import FitstepError


class Access:
    """To the arena of one session."""

    def __init__(self) -> None:
        self.is_closed = False
        self._is_forsaken = False  # In a process that was forked.
        self._is_ending = False  # In a process that ends.
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raises FitstepError if no step can run there any more."""
        if self._is_forsaken:
            raise FitstepError(
                "this step was compiled in another process, from which this one was forked; its "
                "memory is not here",
                todo="start this process with the method 'spawn' and compile the step function "
                "there; in a forked one PyTorch's own threads may hang",
            )
        if self._is_ending:
            raise FitstepError("the process ends", todo="join() threads that run steps before")
        if self.is_closed:
            raise FitstepError(
                "this compiled step was closed, or another one that shares its model was",
                todo="compile the step function again",
            )

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """The arena is the body's: no step runs, and none is compiled or closed. Raises
        FitstepError where that is under way."""
        if not self._lock.acquire(blocking=False):
            raise FitstepError(
                "a compiled step of this model is running already (in another thread, or the step "
                "calls itself)",
                todo="run one step at a time, and compile or close steps while none runs",
            )
        try:
            yield
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def last(self) -> Iterator[None]:
        """The same for who closes it, which may be as the process ends, or in a forked one."""
        is_over = self._is_forsaken or self._is_ending  # Then nobody else will come.
        with contextlib.nullcontext() if is_over else self.alone():
            self.is_closed = True
            yield

    def forsake(self) -> None:
        """In a forked process: the arena has stayed behind."""
        self._is_forsaken = True

    def end(self) -> None:
        """As the process ends: waits for the step that another thread runs. None begins then."""
        if not self._is_forsaken:  # There nobody would ever release the lock.
            self._is_ending = True
            self._lock.acquire()
