"""The recordings of a preview: the function runs on the user's objects, and no kernel runs.

call 0    the first step, which creates optimizer state
call 1    the steady step; then more calls while each differs from the one before
again     call 0 once more: if it records the same, everything was put back
"""

from __future__ import annotations

import contextvars
import gc
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.jit._fuser import optimized_execution
from torch.utils._pytree import tree_map

from .. import _core
from ..base.collector import collecting_new
from ..errors import CaptureError
from ..memory.addresses import check_no_pointer
from ..memory.seen_memory import forget_dead_arrays
from ..memory.session import Session
from ..state import Reach
from .dropped import previewing
from .entered import Existing, FirstImport, entering, importing_nothing, look_into_large
from .following import Following, is_asked_for_values, one_at_a_time
from .muted import LeavesTheProcess, muted
from .outside_graphs import closed, with_own_graph
from .recorded import Stop, arguments_in, label_of, recorded_of, tensors_in
from .results import detached
from .stand_ins import stand_in
from .undo import Undo, put_back
from .variants import Recorded, roles_of, storage_id

_AHEAD = 8  # Most calls of a preview. RAdam changes its formula at its sixth step.
_AHEAD_CALLS = 20_000  # Most operators of a preview, from the second call on.
_LOOKS, _SECONDS_BETWEEN_LOOKS = 50, 0.02
_MOST_MADE_UP = 256  # Most made-up values in one call.
_MOST_CALLS = 5_000_000  # Most calls of functions after a made-up value, which may loop for ever.
_SMALL = 1 << 16  # A preview compares contents of tensors with at most so many elements.


@dataclass
class Previewed:
    """A step function, and what a preview of it needs."""

    function: Callable[..., Any]
    find_reach: Callable[..., Reach]
    session: Session
    profile: Any  # _core.Profile
    tried_imports: set[str]  # Modules that a preview was about to import.


class Recordings:
    """Runs and undoes the calls of one preview."""

    def __init__(self, of: Previewed, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._of = of
        self._args, self._kwargs = args, kwargs
        self._following = Following(of.profile, self._flush, of.session.room)
        self._recorded: list[Recorded] = []
        self._begin: dict[int, tuple[str, str]] = {}  # roles_of() before the preview.
        self._roles: dict[int, tuple[str, str]] = {}  # roles_of() before the present call.
        self._call = 0
        self._part = 0
        self._arguments = arguments_in(args, kwargs)
        self._calls = 0
        self._made_up = False
        self._repeats = False
        self._existing = Existing()
        self._watch: Any = None  # The watch of entered functions.
        self._first: Undo | None = None
        self.dropping: dict[int, torch.Tensor] = {}  # Parameters whose gradients calls clear.
        self.was_cut = False  # The first call stopped early, so reads of later calls are unknown.
        self.stop: Stop | None = None  # Where the first call stopped early.

    @property
    def between(self) -> frozenset[str]:
        """Custom operators that run between segments."""
        return frozenset(self._following.between)

    def run(self) -> tuple[list[Recorded], int]:
        """The recorded segments, and how many operators they have in all. Raises CaptureError if
        something that the function does cannot be put back."""
        if torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled():
            raise CaptureError(
                "compile is called under torch.autograd.detect_anomaly(), which reads the "
                "values of all gradients",
                todo="compile outside it, or use detect_anomaly(check_nan=False)",
            )
        # Streams are replaced for the whole process.
        with one_at_a_time(), collecting_new(), previewing():
            return self._run()

    def _run(self) -> tuple[list[Recorded], int]:
        reach = self._reach()
        check_no_pointer(reach)
        self._begin = roles_of(reach, self._of.session)
        places = [p.tensor for p in reach.unique() if p.tensor.layout is torch.strided]
        forget_dead_arrays([t for t in places if _core.is_lent(t)])
        oldest = _oldest()
        try:
            with self._following.sources.following(dict(reach.modules)):
                recorded = self._record(reach)
        finally:
            try:
                oldest.backward()
            finally:
                gc.collect()
                if self._first is not None:  # Finalizers of the preview's objects may change state.
                    put_back(self._first)
            self._first = None  # It holds memory that tensors are about to leave.
        self._following.tell()
        self._following.forget()  # Optimizers made in the step hold parameters.
        self._check_gone(recorded + self._recorded)
        self._recorded = []  # Moving tensors home counts the tensors that hold their memory.
        return recorded, self._calls

    def _record(self, reach: Reach) -> list[Recorded]:
        self._undoing(reach, self._record_calls)
        if self._may_find_grads(reach):
            self._undoing(reach, lambda: self._record_calls(_AHEAD, puts_grads=True))
        first = [one for one in self._recorded if one.call == 0]
        contents = [self._contents(one) for one in first]
        recorded, calls = self._recorded, self._calls
        self._recorded, self._repeats = [], True
        self._undoing(reach, lambda: self._record_call(0))
        self._calls = calls
        self._check_same(first, contents)
        return recorded

    def _check_gone(self, recorded: list[Recorded]) -> None:
        """Raises CaptureError if something that fitstep cannot see holds a preview's tensor."""
        found = self._following.core.guesses()
        for one in recorded:
            found += [*one.externals, *(tensor for _, tensor in one.survivors)]
        handles = Counter(map(storage_id, found))
        made = {storage_id(tensor): tensor for tensor in found if is_made(tensor)}
        for _ in range(_LOOKS):
            left = [t for key, t in made.items() if _core.use_count(t) > handles[key]]
            if not left or threading.active_count() == 1:
                break
            time.sleep(_SECONDS_BETWEEN_LOOKS)  # Another thread may be walking over all objects.
        for tensor in filter(_core.is_hollow, left):
            _core.fill_hollow(tensor, torch.zeros(_core.storage_bytes(tensor), dtype=torch.uint8))
        if left:
            of, size = left[0], _core.storage_bytes(left[0])
            what = f"{size} bytes" if of.dtype is torch.uint8 else f"shape {tuple(of.shape)}"
            raise CaptureError(
                f"the step keeps a tensor of {what} where fitstep cannot see it; compile ran "
                "the step without kernels, and cannot remove this tensor again",
                todo="keep tensors in attributes, lists or dicts that the step function reaches",
            )

    def _may_find_grads(self, reach: Reach) -> bool:
        """Whether another compiled step leaves gradients that do not exist yet."""
        return any(True for _ in self._missing_grads(reach))

    def _missing_grads(self, reach: Reach) -> Iterator[torch.Tensor]:
        session = self._of.session
        for place in reach.leaves():
            home = session.arena.home_of(place.tensor)
            is_left = any(id(place.tensor) in one.dropping for one in session.programs)
            has_home = home is not None and f"{home.name}.grad" in session.homes
            if (has_home or is_left) and place.tensor.requires_grad and place.tensor.grad is None:
                yield place.tensor

    def _put_grads(self) -> None:
        for leaf in list(self._missing_grads(self._reach())):
            leaf.grad = _core.make_ghost(leaf)
        self._roles = roles_of(self._reach(), self._of.session)

    def _reach(self) -> Reach:
        return self._of.find_reach((*self._args, *self._kwargs.values()))

    def _undoing(self, reach: Reach, act: Callable[[], object]) -> None:
        undo = Undo(reach, tensors_in(self._args, self._kwargs))
        self._first = self._first or undo
        look_into_large(reach, undo.add)
        try:
            undo.hold()
            self._roles = self._begin
            with (
                entering(reach, self._existing, undo.add, self._following.note) as self._watch,
                muted(),
                importing_nothing(self._of.tried_imports),
                optimized_execution(False),  # torch.jit would count runs and then optimize.
                closed(place.tensor for place in reach.unique()),
            ):
                contextvars.copy_context().run(act)  # Context variables it sets go with the copy.
        except FirstImport as first:
            first.undo = undo
            raise
        finally:
            self._watch = None  # It holds walked objects.
            put_back(undo, self._following.core.undo_writes)
            # A tensor that another recording makes in the same place gets the same name and home.
            self._of.session.names.free(is_made)

    def _record_calls(self, first: int = 0, *, puts_grads: bool = False) -> None:
        for call in range(_AHEAD):
            if puts_grads:
                self._put_grads()
            if not self._record_call(first + call):
                return
            own = [one for one in self._recorded if one.call == first + call]
            before = [one for one in self._recorded if call and one.call == first + call - 1]
            repeats = len(own) == len(before) and all(
                a.segment.is_like(b.segment) for a, b in zip(own, before, strict=True)
            )
            if repeats and not self._following.stepped:
                return
            if call and self._calls * (call + 2) > _AHEAD_CALLS * (call + 1):
                return

    def _record_call(self, call: int) -> bool:
        """Records one call. Returns whether the function ran to its end."""
        self._call, self._part, self._made_up, self._asked = call, 0, False, 0
        self._watch.limit(-1, _end)
        following = self._following
        try:
            with following.listen(list, _core.FollowMode.PREVIEW):
                args, kwargs = tree_map(with_own_graph, (self._args, self._kwargs))
                args, kwargs = tree_map(stand_in, (args, kwargs))
                result = detached(self._of.function(*args, **kwargs))
                if following.error is None:
                    self._end_segment(is_last=True)
                del result  # A real caller holds the result at the segment's end, too.
                self._name_tensors()
                self._calls += following.core.recorded()
        except FirstImport as error:
            self._give_up(error)
            raise
        except LeavesTheProcess as error:  # Real calls will show the rest.
            self._give_up(error)
            return False
        except BaseException as error:
            # After a made-up value the function may raise rightly, and so may a second call, which
            # the user may never make. A KeyboardInterrupt is the user's, so it is raised.
            if isinstance(error, KeyboardInterrupt) or (not self._made_up and not call):
                raise
            self._give_up(error)
            self.was_cut |= not call
            return False
        if following.error is not None and not self._made_up and not call:
            raise following.error
        if following.error is not None:
            self._give_up(following.error)
            self.was_cut |= not call
            return False
        return True

    def _give_up(self, error: BaseException) -> None:
        """Keeps what is recorded so far; clears the error's frames, which hold tensors."""
        if not self._call and self.stop is None:
            self.stop = Stop.of(error)
        self._following.error = None
        for held in (error, error.__context__, error.__cause__):
            if held is not None:
                traceback.clear_frames(held.__traceback__)
                held.__traceback__ = None
        self._name_tensors()

    def _flush(self, name: str) -> bool:
        self._end_segment(is_last=False)
        if not self._made_up:  # From now on values may be made up.
            self._made_up = True
            self._watch.limit(_MOST_CALLS, _end)
        if not name:  # No value is asked for: a setting changed, or lent memory was written.
            return False
        self._asked += is_asked_for_values(name)
        if self._asked > _MOST_MADE_UP:  # It may loop until a value that never comes.
            raise LeavesTheProcess(name)
        return False

    def _end_segment(self, *, is_last: bool) -> None:
        ended = self._following.end_segment()
        if ended.segment is None:
            return
        one = recorded_of(ended, self._arguments, {})
        one.call, one.part = self._call, self._part
        if is_last:
            dropping = [
                p
                for optimizer in self._following.stepped
                for group in optimizer.param_groups
                for p in group["params"]
                if p.grad is not None and p.grad.layout is torch.strided
            ]
            one.dropped = frozenset(storage_id(p.grad) for p in dropping)
            there = self._existing.ids
            self.dropping |= {id(p): p for p in dropping if id(p) in there}
        self._part += 1
        self._recorded.append(one)

    def _name_tensors(self) -> None:
        """Notes role and name of the call's tensors: where they are before and after the call."""
        if self._repeats:  # The first recording has named them.
            return
        with _core.Unwatched():
            now = roles_of(self._reach(), self._of.session)
        for one in self._recorded:
            if one.call != self._call:
                continue
            for i in map(storage_id, one.externals):
                if i in now or i in self._roles:
                    one.roles[i] = now.get(i) or self._roles[i]
            for i in (storage_id(tensor) for _, tensor in one.survivors):
                if i in now:
                    one.roles[i] = now[i]
            one.label = label_of(one, self._args, self._kwargs)
        self._roles = now

    def _check_same(self, first: list[Recorded], contents: list[list[bytes]]) -> None:
        """Raises CaptureError unless the first call records the same when it is repeated after
        everything was put back."""
        for i, (a, b) in enumerate(zip(first, self._recorded, strict=False)):
            at = a.segment.difference(b.segment)
            if at < 0 and contents[i] == self._contents(b):
                continue
            longer = a if at < a.segment.op_count() else b
            name, _module, file, line = longer.segment.call_text(max(at, 0))
            raise CaptureError(
                "compile runs the step function twice without kernels, and could not put back "
                "all that the first run changed in Python: the second time "
                + (f"{name.partition('(')[0]} is called otherwise" if at >= 0 else "it uses other")
                + (" numbers" if at < 0 else ""),
                where=f"{file}:{line}" if file else None,
                todo="keep state that changes from step to step where fitstep can see it: in "
                "attributes, lists, dicts, tensors or numpy arrays that the function reaches",
            )
        if len(first) != len(self._recorded) and not self._made_up:
            raise CaptureError(
                "compile runs the step function twice without kernels, and the second time the "
                "function calls more or fewer operators",
                todo="keep state that changes from step to step where fitstep can see it: in "
                "attributes, lists, dicts, tensors or numpy arrays that the function reaches",
            )

    def _contents(self, one: Recorded) -> list[bytes]:
        """The bytes of small tensors that the call created from Python numbers."""
        found = []
        for tensor in one.externals:
            is_small = tensor.numel() <= _SMALL and tensor.device.type == "cpu"
            was_there = storage_id(tensor) in self._begin or storage_id(tensor) in one.arguments
            if not is_small or was_there or _core.is_hollow(tensor):
                continue
            flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
            found.append(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
        return found


def _oldest() -> torch.Tensor:
    """A result older than all of the step's. A thread's autograd queue runs younger nodes first, so
    its backward pass removes what a backward pass that raised has left in the queue."""
    with torch.inference_mode(False), torch.enable_grad():
        return torch.zeros((), requires_grad=True, device="cpu").clone()


def _end() -> None:
    raise LeavesTheProcess("a loop without end on values that are made up")


def is_made(tensor: torch.Tensor) -> bool:
    """Whether a preview created the tensor, without a kernel."""
    return bool(_core.is_hollow(tensor) or _core.is_guess(tensor))
