"""Following: the user's function runs as always, and only the kernels are ours.

    Python calls an operator ──> the follower records it, or runs it where its bytes are known
    Python asks for a value  ──> what is recorded runs first
    Python draws a state     ──> torch.get_rng_state() becomes an operator of the program

One step is followed at a time in a process.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from . import _core
from .errors import CaptureError, user_location
from .patches import Patches, watch_generators
from .seen_memory import Arrays
from .sources import Sources
from .todo import todo_for

if TYPE_CHECKING:
    from typing_extensions import Self

_T = TypeVar("_T")

_core.note_pytorchs_folder(os.path.dirname(torch.__file__))
_registered = -1  # Kernels written in Python, when operators were looked at last.
_lock = threading.RLock()
_active: list[Following] = []  # Of the thread that has the lock.


def one_at_a_time() -> Any:
    """A lock that the thread which follows a step has."""
    return _lock


def current() -> Following | None:
    """The following under way on this thread."""
    if not _active or _active[-1].thread != threading.get_ident():
        return None
    return _active[-1]


def end_in_child() -> None:
    """In a forked process: nobody follows what it calls."""
    while _active:
        _active.pop().leave()


def _living(reference: Callable[[], _T | None]) -> _T:
    it = reference()
    assert it is not None
    return it


def is_asked_for_values(name: str) -> bool:
    """Of what is recorded; or whether what has this name is a custom operator."""
    return "::" not in name or _core.has_own_name(name)


def _look_at_operators() -> None:
    """Who has a kernel that is not PyTorch's is looked up once; if there are more now, again."""
    global _registered
    now = len(getattr(torch.library, "_impls", ()))
    if now != _registered:
        _registered = now
        _core.look_at_operators_again()


class _Door:
    """What the C++ follower calls. Does not keep the following alive."""

    def __init__(self, following: Following) -> None:
        self._following = weakref.ref(following)

    def _of(self) -> Following:
        return _living(self._following)

    def flush(self, name: str) -> bool:
        return self._of().flush(name)

    def source(self) -> tuple[str, str, int]:
        return self._of().sources.now()

    def collect(self, is_young: bool) -> None:
        gc.collect(1 if is_young else 2)

    def refuse(self, name: str, why: str) -> None:
        self._of().refuse(name, why)


class Ended(NamedTuple):
    """What was recorded of one segment, or followed in a known one."""

    segment: Any  # _core.Segment; None where nothing was called.
    is_new: bool
    changed: list[Any]  # Numbers that are not the known segment's.
    externals: list[torch.Tensor]  # In the order of segment.externals().
    survivors: list[tuple[int, torch.Tensor]]  # By storage on the tape.
    seeded: list[tuple[Any, bytes, bytes]]  # Generators set behind a draw: for it, and since.
    generators: list[tuple[Any, Any]]  # Of the known segment, and of this call.
    held: list[torch.Tensor | None]  # Copies of externals that numpy has.
    lent_writes: list[tuple[torch.Tensor, torch.Tensor]]  # What of these is written: there, here.
    starts: list[Any]  # In an audit, _core.PartCopy or None: written externals, as they were.
    drawn: list[tuple[Any, bytes, bytes]]  # In an audit: generators, before and behind.
    has_raised: bool  # In an audit: a kernel, which may have written half of what it writes.
    overwritten: torch.Tensor | None  # By a numpy array, before operators have read it.


class Following:
    """One step function, followed from call to call.

    `on_flush(name)` runs what is recorded; it returns False in a preview, where nothing can run.
    `where()` is the device, the arena if it is open, and where its homes end. Both are methods of
    objects that hold this one, so that these, and the arena, end when nobody holds them any more.
    """

    def __init__(
        self,
        profile: Any,
        on_flush: Callable[[str], bool],
        where: Callable[[], tuple[Any, Any, int]],
    ) -> None:
        self.core = _core.Follower(profile, _Door(self))
        self.sources = Sources()
        self.thread = 0
        self.stepped: list[torch.optim.Optimizer] = []
        self.error: BaseException | None = None  # Also if user code has caught it.
        self.between: set[str] = set()  # Custom operators that ran between segments.
        self.was_touched = False
        self.is_running = False  # A program, and not Python.
        self._on_flush = weakref.WeakMethod(on_flush)
        self._where_of = weakref.WeakMethod(where)
        self._regions = 0
        self._hooks: list[Any] = []
        self.patches = Patches(self)
        self.arrays = Arrays()
        self._faults: Any = None
        self._stance: Any = None
        self._compiled_at = ""  # Where the step has called code that torch.compile has compiled.
        watch_generators(current)

    def listen(
        self, known: Callable[[], list[Any]], mode: _core.FollowMode, *, may_add: bool = True
    ) -> Self:
        """To be entered as a context: operators of this thread are followed in its body. Unless
        segments may be added, tensors change their homes where a known one is for others."""
        self._known, self._mode, self._may_add = known, mode, may_add
        return self

    def __enter__(self) -> Self:
        _lock.acquire()
        try:
            self._begin()
        except BaseException:
            self._end()
            _lock.release()
            raise
        return self

    def __exit__(self, *_args: object) -> None:
        try:
            self._end()
        finally:
            _lock.release()

    def _begin(self) -> None:
        _look_at_operators()
        _active.append(self)
        self.thread = threading.get_ident()
        self.stepped, self.error, self._regions = [], None, 0
        self.was_touched = False  # Somebody has read hollow memory: nothing recorded may run.
        self._faults = _core.HollowFaults()
        self._hooks = [
            register_optimizer_step_pre_hook(self._enter_optimizer),
            register_optimizer_step_post_hook(self._leave_optimizer),
        ]
        if "torch._dynamo" in sys.modules:  # Compiled code would not call operators.
            self._stance = torch.compiler.set_stance("force_eager")
        self.patches.put()
        self._threads = torch.autograd.set_multithreading_enabled(False)
        self.core.start(self._known(), self._mode, self._may_add, *self._where())

    def _where(self) -> tuple[Any, Any, int]:
        return _living(self._where_of)()

    def tell(self) -> None:
        """Warns of what has run otherwise than without fitstep."""
        if self._compiled_at:
            warnings.warn(
                f"{self._compiled_at} calls code that torch.compile has compiled; in a fitstep "
                "step it runs as eager PyTorch, with eager PyTorch's bits, not Inductor's",
                stacklevel=2,
            )

    def forget(self) -> None:
        """An error has the frames of the step, and these all its tensors."""
        self.stepped, self.error = [], None
        self.patches.forget_pointers()

    def check_faults(self) -> None:
        """Notes an error if somebody has touched hollow memory."""
        self.was_touched |= self._faults is not None and self._faults.take() > 0
        if self.was_touched and self.error is None:
            self.error = CaptureError(
                "a library reads or writes the memory of a tensor of the step by itself, past "
                "PyTorch's operators, so fitstep cannot know what it does",
                todo="make the call a registered operator (torch.library.custom_op), or leave it "
                "outside the step",
            )

    def _end(self) -> None:
        self.core.stop()
        self._threads.__exit__(None, None, None)
        if self._stance is not None:
            self._stance.__exit__(None, None, None)
            self._stance = None
        self.patches.take_back()
        self._known = list
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self.check_faults()
        self._faults = None
        if self in _active:  # Not in a forked process.
            _active.remove(self)
        if not self.is_preview:  # There nobody would hear it.
            self.tell()
        self.arrays.forget()

    # -- what Python does beside operators ----------------------------------------------------

    def _enter_optimizer(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if current() is not self:
            return
        self.core.set_region(self._regions)
        self._regions += 1
        if not any(optimizer is one for one in self.stepped):
            self.stepped.append(optimizer)

    def _leave_optimizer(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if current() is self:
            self.core.set_region(-1)

    def end_segment(self) -> Ended:
        """What was called since the last one ended."""
        return Ended(*self.core.end_segment())

    def flush(self, name: str) -> bool:
        """Runs what is recorded. Raises what running raises, and again at the end of the call."""
        if self.error is not None:
            raise self.error
        if not is_asked_for_values(name):
            self.between.add(name.partition(".")[0])
        try:
            return _living(self._on_flush)(name)
        except BaseException as error:
            self.error = error  # Raised again at the end, if user code catches it.
            raise
        finally:
            self.core.set_where(*self._where())

    def refuse(self, name: str, why: str) -> None:
        """Raises CaptureError for an operator."""
        self.error = CaptureError(f"{name} {why}", where=user_location(), todo=todo_for(why))
        raise self.error

    def note(self, error: BaseException) -> None:
        """Raised again at the end of the call, if user code catches it."""
        self.error = self.error or error

    def leave(self) -> None:
        """Ends nothing but that operators and Python's calls are seen."""
        self.core.stop()
        self.patches.take_back()

    def is_current(self) -> bool:
        """Whether it is under way on this thread."""
        return current() is self

    def is_asked(self) -> bool:
        """By the step function itself: not by a kernel, nor by what ends a segment."""
        return current() is self and bool(_core.is_followed())

    def is_home(self, tensor: torch.Tensor) -> bool:
        """Whether its storage is in the arena."""
        homes = self._where()[1]
        return homes is not None and homes.place_of(_core.storage_begin(tensor)) is not None

    @property
    def is_preview(self) -> bool:
        """Whether nothing that is recorded can run."""
        return bool(self._mode == _core.FollowMode.PREVIEW)

    def see_setting(self) -> None:
        """Settings of kernels have changed: other programs are for these."""
        self.core.set_known(self._known())

    def see_compiled(self, callback: Any) -> None:
        """Takes the place of what PyTorch asks on entering compiled code; None: run it eager."""
        if callback not in (None, False) and not self._compiled_at:
            self._compiled_at = user_location() or "in the step"
