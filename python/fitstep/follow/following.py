"""Following: while the user's function runs, its operators are recorded instead of run.

    an operator is called      ──> recorded; run at once if the bytes it reads are known
    Python asks for a value    ──> what is recorded runs first
    Python reads an RNG state  ──> torch.get_rng_state() becomes an operator of the program

A process follows one step at a time.
"""

from __future__ import annotations

import functools
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

from .. import _core
from ..base.sources import Sources
from ..base.todo import todo_for
from ..errors import CaptureError, user_location
from ..memory.seen_memory import Arrays
from .patches import Patches, watch_generators

if TYPE_CHECKING:
    from typing_extensions import Self

_T = TypeVar("_T")

_core.note_pytorchs_folder(os.path.dirname(torch.__file__))
_registered = -1  # Number of kernels written in Python when operators were last looked up.
_lock = threading.RLock()
_active: list[Following] = []  # Followings of the thread that has the lock, the innermost last.


def one_at_a_time() -> Any:
    """The lock that a thread holds while it follows a step."""
    return _lock


def current() -> Following | None:
    """The following that is active on this thread, or None."""
    if not _active or _active[-1].thread != threading.get_ident():
        return None
    return _active[-1]


def end_in_child() -> None:
    """Ends all followings in a forked process."""
    while _active:
        _active.pop().leave()


def _living(reference: Callable[[], _T | None]) -> _T:
    it = reference()
    assert it is not None
    return it


def is_asked_for_values(name: str) -> bool:
    """Whether a segment that ends at `name` ends because a value is needed. False for a custom
    operator, which runs between segments."""
    return "::" not in name or _core.has_own_name(name)


def _look_at_operators() -> None:
    """Looks up which operators have kernels that are not PyTorch's, if kernels were registered."""
    global _registered
    now = len(getattr(torch.library, "_impls", ()))
    if now != _registered:
        _registered = now
        _core.look_at_operators_again()


class _Door:
    """The callbacks of the C++ follower. Does not keep the following alive."""

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
    """A segment that has ended: newly recorded, or followed along a known one."""

    segment: Any  # _core.Segment; None if no operator was called.
    is_new: bool  # No known segment was like it.
    changed: list[Any]  # Numbers that differ from the known segment's.
    externals: list[torch.Tensor]  # In the order of segment.externals().
    survivors: list[tuple[int, torch.Tensor]]  # (storage on the tape, result that is still held).
    seeded: list[tuple[Any, bytes, bytes]]  # (generator set after a draw, state for the run, now).
    generators: list[tuple[Any, Any]]  # (generator of the known segment, generator of this call).
    held: list[torch.Tensor | None]  # Copies of externals whose memory numpy has.
    lent_writes: list[tuple[torch.Tensor, torch.Tensor]]  # (written tensor of numpy's, its copy).
    starts: list[Any]  # In an audit: _core.PartCopy of each external that is written, or None.
    drawn: list[tuple[Any, bytes, bytes]]  # In an audit: (generator, state before, state after).
    has_raised: bool  # In an audit: a kernel raised and may have written half of its results.
    overwritten: torch.Tensor | None  # A numpy array wrote it before operators had read it.


class Following:
    """Follows one step function, call after call.

    `on_flush(name)` runs what is recorded; in a preview nothing can run, and it returns False.
    `where()` returns the device, the arena or None, and where the arena's homes end. Both are
    methods of objects that hold this one. They are kept weakly, so that no cycle keeps the arena.
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
        self.error: BaseException | None = None  # Stays if user code catches it.
        self.between: set[str] = set()  # Custom operators that ran between segments.
        self.was_touched = False
        self.is_running = False  # A program runs now.
        self._on_flush = weakref.WeakMethod(on_flush)
        self._where_of = weakref.WeakMethod(where)
        self._regions = 0
        self._hooks: list[Any] = []
        self.patches = Patches(self)
        self.arrays = Arrays()
        self._faults: Any = None
        self._threads: Any = None
        self._stance: Any = None
        self._compiled_at = ""  # First "file:line" that called torch.compile's code in the step.
        watch_generators(current)

    def listen(
        self, known: Callable[[], list[Any]], mode: _core.FollowMode, *, may_add: bool = True
    ) -> Self:
        """Returns a context: in its body operators of this thread are followed. With
        `may_add=False`, tensors move to the homes that a known segment expects."""
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
        self.was_touched = False  # If code touched hollow memory, nothing recorded may run.
        self._faults = _core.HollowFaults()
        self._hooks = [
            register_optimizer_step_pre_hook(self._enter_optimizer),
            register_optimizer_step_post_hook(self._leave_optimizer),
        ]
        if "torch._dynamo" in sys.modules:  # Compiled code calls no operators.
            self._stance = torch.compiler.set_stance("force_eager")
        self.patches.put()
        self._threads = torch.autograd.set_multithreading_enabled(False)
        self.core.start(self._known(), self._mode, self._may_add, *self._where())

    def _where(self) -> tuple[Any, Any, int]:
        return _living(self._where_of)()

    def tell(self) -> None:
        """Warns if the step called code of torch.compile, which runs eager here."""
        if self._compiled_at:
            warnings.warn(
                f"{self._compiled_at} calls code that torch.compile has compiled; in a fitstep "
                "step this code runs as eager PyTorch, with eager PyTorch's bits, not Inductor's",
                stacklevel=2,
            )

    def forget(self) -> None:
        """Drops the last call's error, whose traceback holds the step's tensors."""
        self.stepped, self.error = [], None
        self.patches.forget_pointers()

    def check_faults(self) -> None:
        """Sets `error` if code has touched hollow memory."""
        self.was_touched |= self._faults is not None and self._faults.take() > 0
        if self.was_touched and self.error is None:
            self.error = CaptureError(
                "a library reads or writes the memory of a tensor of the step without a PyTorch "
                "operator, so fitstep cannot know what it does",
                todo="register the call as an operator (torch.library.custom_op), or move it out "
                "of the step",
            )

    def _end(self) -> None:
        self.core.stop()
        for put in (self._threads, self._stance):
            if put is not None:
                put.__exit__(None, None, None)
        self._threads = self._stance = None
        self.patches.take_back()
        self._known = list
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self.check_faults()
        self._faults = None
        if self in _active:  # In a forked process it is not.
            _active.remove(self)
        if not self.is_preview:  # In a preview warnings are muted.
            self.tell()
        self.arrays.forget()

    # -- what Python does beside operators ----------------------------------------------------

    def _enter_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """A hook of PyTorch; returns the arguments with which `optimizer.step` is called."""
        if current() is not self:
            return None
        self.core.set_region(self._regions)
        if not any(optimizer is one for one in self.stepped):
            self.stepped.append(optimizer)
        leave = functools.partial(self._outside_region, self._regions)
        self._regions += 1
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": leave(kwargs["closure"])}
        if len(args) > 1 and callable(args[1]):  # The first argument is the optimizer.
            return (args[0], leave(args[1]), *args[2:]), kwargs
        return None

    def _outside_region(self, region: int, closure: Callable[..., _T]) -> Callable[..., _T]:
        """A closure of `optimizer.step`: what it calls is no update, and may be recomputed."""

        def call(*args: Any, **kwargs: Any) -> _T:
            self.core.set_region(-1)
            try:
                return closure(*args, **kwargs)
            finally:
                if current() is self:
                    self.core.set_region(region)

        return call

    def _leave_optimizer(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if current() is self:
            self.core.set_region(-1)

    def end_segment(self) -> Ended:
        """Ends the segment of the operators that were called since the last one."""
        return Ended(*self.core.end_segment())

    def flush(self, name: str) -> bool:
        """Runs what is recorded. Returns False in a preview. An error is raised again at the end of
        the call, in case user code catches it."""
        if self.error is not None:
            raise self.error
        if not is_asked_for_values(name):
            self.between.add(name.partition(".")[0])
        try:
            return _living(self._on_flush)(name)
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.core.set_where(*self._where())

    def refuse(self, name: str, why: str) -> None:
        """Raises CaptureError for an operator."""
        self.error = CaptureError(f"{name} {why}", where=user_location(), todo=todo_for(why))
        raise self.error

    def note(self, error: BaseException) -> None:
        """Has the error raised again at the end of the call, in case user code catches it."""
        self.error = self.error or error

    def leave(self) -> None:
        """Stops seeing operators and Python's calls; all else goes on."""
        self.core.stop()
        self.patches.take_back()

    def is_current(self) -> bool:
        return current() is self

    def is_asked(self) -> bool:
        """Whether the step function itself calls, not a kernel nor fitstep at a segment's end."""
        return current() is self and bool(_core.is_followed())

    def is_home(self, tensor: torch.Tensor) -> bool:
        homes = self._where()[1]
        return homes is not None and homes.place_of(_core.storage_begin(tensor)) is not None

    @property
    def is_preview(self) -> bool:
        """Whether this is a preview, in which recorded operators cannot run."""
        return bool(self._mode == _core.FollowMode.PREVIEW)

    def see_setting(self) -> None:
        """After a setting of kernels changed: follows the programs for the new settings."""
        self.core.set_known(self._known())

    def see_compiled(self, callback: Any) -> None:
        """Replaces torch._dynamo's question on entering compiled code; None means: run eager."""
        if callback not in (None, False) and not self._compiled_at:
            self._compiled_at = user_location() or "in the step"
