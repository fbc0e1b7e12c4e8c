"""Access to an arena: one call at a time, and none in a forked process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from ..errors import FitstepError


class Access:
    """Says who may use the arena of one session now."""

    def __init__(self) -> None:
        self.is_closed = False
        self._is_forsaken = False  # This process was forked from the one with the arena.
        self._is_ending = False  # This process is ending.
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raises FitstepError if no step can run in the arena any more."""
        if self._is_forsaken:
            raise FitstepError(
                "this step was compiled in the parent process; this process was forked from it and "
                "does not have the step's memory",
                todo="start this process with the method 'spawn', and compile the step function "
                "in it; in a forked process PyTorch's own threads may hang",
            )
        if self._is_ending:
            raise FitstepError("the process is ending", todo="join() threads that run steps first")
        if self.is_closed:
            raise FitstepError(
                "this compiled step was closed, or another one that shares its model was",
                todo="compile the step function again",
            )

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """In its body nobody else runs, compiles or closes a step of this arena. Raises
        FitstepError if another thread or an outer call does so already."""
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
        """Like `alone`, to close the arena; also as the process ends, and in a forked process."""
        is_over = self._is_forsaken or self._is_ending  # Then no other call will come.
        with contextlib.nullcontext() if is_over else self.alone():
            self.is_closed = True
            yield

    def forsake(self) -> None:
        """To be called in a forked process, which has no copy of the arena."""
        self._is_forsaken = True

    def end(self) -> None:
        """To be called as the process ends: waits for a running step, and lets no other begin."""
        if not self._is_forsaken:  # In a forked process nobody would release the lock.
            self._is_ending = True
            self._lock.acquire()
