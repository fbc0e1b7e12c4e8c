"""Following: the user's function runs as always, and only the kernels are ours.

    Python calls an operator ──> the follower records it, or runs it where its bytes are known
    Python asks for a value  ──> what is recorded runs first
    Python draws a state     ──> torch.get_rng_state() becomes an operator of the program

One step is followed at a time in a process.
"""

from __future__ import annotations

import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from . import _core
from .ambient import setting_doors
from .errors import CaptureError, user_location
from .muted import thread_doors, wakes_nobody
from .sources import Sources
from .state.rng import GeneratorStates
from .state.walk import READERS
from .todo import todo_for

if TYPE_CHECKING:
    from typing_extensions import Self

_lock = threading.RLock()
_active: list[Following] = []  # Of the thread that has the lock.


def current() -> Following | None:
    """The following under way on this thread."""
    if not _active or _active[-1].thread != threading.get_ident():
        return None
    return _active[-1]


class _Door:
    """What the C++ follower calls. Does not keep the following alive."""

    def __init__(self, following: Following) -> None:
        self._following = weakref.ref(following)

    def _of(self) -> Following:
        following = self._following()
        assert following is not None
        return following

    def flush(self, name: str) -> bool:
        return self._of().flush(name)

    def source(self) -> tuple[str, str, int]:
        return self._of().sources.now()

    def collect(self) -> None:
        gc.collect()

    def refuse(self, name: str, why: str) -> None:
        self._of().refuse(name, why)

    def keep_generators(self, is_begin: bool) -> None:
        self._of().keep_generators(is_begin)


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
    starts: list[torch.Tensor | None]  # In an audit: written externals, as they were.
    drawn: list[tuple[Any, bytes, bytes]]  # In an audit: generators, before and behind.
    was_overwritten: bool  # By a numpy array, before operators have read it.


class Following:
    """One step function, followed from call to call.

    `on_flush(name)` runs what is recorded; it returns False in a preview, where nothing can run.
    `where()` is the device, the arena if it is open, and where its homes end.
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
        self.was_touched = False
        self.is_running = False  # A program, and not Python.
        self._on_flush = on_flush
        self._where = where
        self._regions = 0
        self._hooks: list[Any] = []
        self._undo: list[tuple[Any, str, Any, bool]] = []
        self._stand_ins: list[torch.Tensor] = []
        self._settings = [
            (owner, name, change, self._behind_setting(change))
            for owner, name, change in setting_doors()
        ]
        self._faults: Any = None
        self._stance: Any = None
        self._compiled_at = ""  # Where the step has called code that torch.compile has compiled.

    def listen(self, known: Callable[[], list[Any]], mode: _core.FollowMode) -> Self:
        """To be entered as a context: operators of this thread are followed in its body."""
        self._known, self._mode = known, mode
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
        self._end()
        _lock.release()

    def _begin(self) -> None:
        _active.append(self)
        self.thread = threading.get_ident()
        self.stepped, self.error, self._regions = [], None, 0
        self.was_touched = False  # Somebody has read hollow memory: nothing recorded may run.
        self._faults = _core.HollowFaults()
        self._hooks = [
            register_optimizer_step_pre_hook(self._enter_optimizer),
            register_optimizer_step_post_hook(self._leave_optimizer),
        ]
        self._patch()
        for owner, name, _, replacement in self._settings:
            setattr(owner, name, replacement)
        if "torch._dynamo" in sys.modules:  # Compiled code would not call operators.
            self._stance = torch.compiler.set_stance("force_eager")
            frames: Any = sys.modules["torch._dynamo.eval_frame"]
            if hasattr(frames, "_callback_from_stance"):
                self._replace(frames, "_callback_from_stance", self._see_compiled)
        self._threads = torch.autograd.set_multithreading_enabled(False)
        self.core.start(self._known(), self._mode, *self._where())

    def _see_compiled(self, callback: Any) -> None:
        """Takes the place of what PyTorch asks on entering compiled code; None: run it eager."""
        if callback not in (None, False) and not self._compiled_at:
            self._compiled_at = user_location() or "in the step"

    def tell(self) -> None:
        """Warns of what has run otherwise than without fitstep."""
        if self._compiled_at:
            warnings.warn(
                f"{self._compiled_at} calls code that torch.compile has compiled; in a fitstep "
                "step it runs as eager PyTorch, with eager PyTorch's bits, not Inductor's",
                stacklevel=2,
            )

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
        for owner, name, original, _ in self._settings:
            setattr(owner, name, original)
        for owner, name, original, had in reversed(self._undo):
            if had:
                setattr(owner, name, original)
            else:
                delattr(owner, name)
        self._undo, self._stand_ins = [], []
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self.check_faults()
        self._faults = None
        _active.remove(self)
        if self._mode != _core.FollowMode.PREVIEW:  # There nobody would hear it.
            self.tell()

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
        try:
            return self._on_flush(name)
        except BaseException as error:
            self.error = error  # Raised again at the end, if user code catches it.
            raise
        finally:
            self.core.set_where(*self._where())

    def keep_generators(self, is_begin: bool) -> None:
        """Around a trial of a kernel that may draw from any."""
        if is_begin:
            self._generators = GeneratorStates()
        else:
            self._generators.restore()

    def refuse(self, name: str, why: str) -> None:
        """Raises CaptureError for an operator."""
        self.error = CaptureError(f"{name} {why}", where=user_location(), todo=todo_for(why))
        raise self.error

    def _patch(self) -> None:
        for name in (*READERS, "__deepcopy__", "__reduce_ex__"):
            self._replace(torch.Tensor, name, self._with_bytes(getattr(torch.Tensor, name)))
        for owner in (torch, torch.Tensor):
            self._replace(owner, "tensor_split", self._behind_places(owner.tensor_split))
        for name, made_up in _NUMBERS.items():
            self._replace(torch.Tensor, name, self._number(getattr(torch.Tensor, name), made_up))
        state, set_state = torch.ops.fitstep.generator_state, torch.ops.fitstep.set_generator_state
        for module in (torch, torch.random):
            self._replace(module, "get_rng_state", lambda: state())
            self._replace(module, "set_rng_state", lambda new: set_state(new))
        for module in (torch.cuda, torch.cuda.random):
            self._replace(module, "get_rng_state", self._behind_all(module.get_rng_state))
        for owner, name in thread_doors():  # The other thread finds what was called so far.
            self._replace(owner, name, self._behind_all(getattr(owner, name)))

    def _replace(self, owner: Any, name: str, replacement: Any) -> None:
        self._undo.append((owner, name, getattr(owner, name), name in vars(owner)))
        setattr(owner, name, replacement)

    def _is_asked(self) -> bool:
        """By the step function itself: not by a kernel, nor by what ends a segment."""
        return current() is self and bool(_core.is_followed())

    def _behind_all(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The function, called when all that was called before has happened."""

        def function(*args: Any, **kwargs: Any) -> Any:
            if not self._is_asked() or wakes_nobody(original, args):
                return original(*args, **kwargs)
            self.flush(original.__name__)
            with self.core.not_followed():
                return original(*args, **kwargs)

        return function

    def _behind_setting(self, change: Callable[..., Any]) -> Callable[..., Any]:
        """`change`, called when what was called before has run under the old setting."""

        def function(*args: Any, **kwargs: Any) -> Any:
            if not self._is_asked():
                return change(*args, **kwargs)
            try:
                self.flush("")
            finally:
                result = change(*args, **kwargs)
                self.core.set_known(self._known())
            return result

        return function

    def _behind_places(self, split: Callable[..., Any]) -> Callable[..., Any]:
        """`tensor_split()`, which reads where to split past operators."""

        def function(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            places = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
            is_stale = self._is_asked() and not all(map(self.core.is_untouched, places))
            if is_stale and not self.flush("tensor_split"):
                return split(tensor, [1] * places[0].numel())
            return split(tensor, *args, **kwargs)

        return function

    def _number(self, original: Callable[..., Any], made_up: object) -> Callable[..., Any]:
        """The method that gives a tensor's number, also to who asks past operators, as does
        torch.tensor([loss, ...])."""

        def number(tensor: torch.Tensor, *args: Any) -> Any:
            is_past = current() is self and not _core.is_followed()
            is_stale = is_past and not self.core.is_untouched(tensor)
            if is_stale and not self.flush(original.__name__):
                return made_up
            return original(tensor, *args)

        return number

    def _with_bytes(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The method of a tensor that reads its memory, called when its bytes are there."""

        def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if not self._is_asked() or tensor.device.type == "meta":
                return original(tensor, *args, **kwargs)
            is_there = self.core.is_untouched(tensor) or self.flush(original.__name__)
            with self.core.not_followed():
                if self._mode == _core.FollowMode.PREVIEW:
                    tensor = self._stand_in(tensor, original.__name__, is_there)
                elif is_there and original.__name__ in _LENDS:
                    _core.note_lender(tensor)
                return original(tensor, *args, **kwargs)

        return method

    def _stand_in(self, tensor: torch.Tensor, name: str, is_there: bool) -> torch.Tensor:
        """What a preview gives to who looks at memory: he may write there, and nobody could undo
        it. Where nobody knows the bytes they are zeros."""
        if name not in READERS:  # Copies stay, and would stay zeros.
            if not is_there:
                self.refuse(name, "needs the bytes of a tensor")
            return tensor
        if is_there and tensor.layout is not torch.strided:
            return tensor
        made = torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        if is_there:
            made.copy_(tensor.detach())
        self._stand_ins.append(made.requires_grad_(tensor.requires_grad))
        return self._stand_ins[-1]


# Methods that give a tensor's number, and what a preview makes up.
_NUMBERS: dict[str, object] = {
    "__float__": 1.0,
    "__int__": 1,
    "__index__": 1,
    "__bool__": True,
    "__complex__": 1j,
}
_LENDS = ("numpy", "__dlpack__", "data_ptr")  # What they give may be looked at later.
