"""Patches of Python functions that read tensors or change settings without an operator, active
while a step is followed. "flush": the operators that were recorded so far run first.

numpy(), tolist(), deepcopy     flush; a preview gets a copy
float(t), torch.tensor([t])     flush, if PyTorch reads the value without an operator
get_rng_state()                 becomes an operator of the program
set_num_threads() and others    flush, under the old setting
threads that start or wake      flush
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
import torch.utils.dlpack

from .. import _core
from ..base.ambient import setting_doors
from ..base.uninterrupted import SENDING, acting_at_once
from ..state.taken import READERS, STORAGE_MOVERS, STORAGE_READERS, STORAGE_WRITERS
from .followed import Followed
from .muted import LeavesTheProcess, thread_doors, wakes_nobody

Function = Callable[..., Any]

# Methods that return a tensor's value, and the made-up value that a preview gets.
_NUMBERS: dict[str, object] = {
    "__float__": 1.0,
    "__int__": 1,
    "__index__": 1,
    "__bool__": True,
    "__complex__": 1j,
}
# Functions whose C++ reads memory without an operator; max_pool1d() does so without gradients.
_PAST_OPERATORS = ("max_pool1d", "choose_qparams_optimized")
_LENDS = ("numpy", "__dlpack__", "data_ptr")  # User code may read or write their result later.
_POINTS = ("data_ptr", "untyped_storage", "storage")  # Their result keeps no memory alive.


class _Patch:
    """Replaces one attribute while a step is followed."""

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self._owner, self._name, self._make = owner, name, make
        self._original: Any = self
        self._is_own = False  # The owner has the attribute itself, not from a base class.

    def put(self) -> None:
        original = getattr(self._owner, self._name)
        if original is not self._original:  # The first time, or other code has replaced it.
            self._original, self._is_own = original, self._name in vars(self._owner)
            self._replacement = self._make(original)
        setattr(self._owner, self._name, self._replacement)

    def take_back(self) -> None:
        if self._is_own:
            setattr(self._owner, self._name, self._original)
        else:
            delattr(self._owner, self._name)


class _StandIn:
    """A copy of a storage's memory for a preview. Tensors that share the storage share the copy."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._of = _core.WeakStorage(tensor)  # Keeps the storage's id from being used again.
        self._bytes = torch.zeros(
            _core.storage_bytes(tensor), dtype=torch.uint8, device=tensor.device
        )
        self._filled: set[object] = set()

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is a view of this copy."""
        return _core.storage_id(tensor) == _core.storage_id(self._bytes)

    def show(self, tensor: torch.Tensor, *, is_there: bool) -> torch.Tensor:
        """The tensor's view of this copy, with the tensor's bytes if these are there."""
        geometry = tensor.size(), tensor.stride(), tensor.storage_offset()
        whole = len(self._bytes) // tensor.element_size() * tensor.element_size()
        made = self._bytes[:whole].view(tensor.dtype).as_strided(*geometry)
        made = made.conj() if tensor.is_conj() else made
        made = torch._neg_view(made) if tensor.is_neg() else made
        if is_there and (tensor.dtype, geometry) not in self._filled:
            self._filled.add((tensor.dtype, geometry))
            made.copy_(tensor.detach())
        return made.requires_grad_(tensor.requires_grad)


class _Weakly:
    """Has the attributes of an object without keeping it alive. Code that looks at all objects may
    meet this one after the object is gone; a weakref.proxy would raise even for isinstance."""

    def __init__(self, of: object) -> None:
        self._of = weakref.ref(of)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of(), name)


class Patches:
    def __init__(self, following: Followed) -> None:
        self._following = cast(Followed, _Weakly(following))
        self._all = list(self._make())
        self._sees_compiled = False
        self._put: list[_Patch] = []
        self._stand_ins: dict[int, _StandIn] = {}
        self._pointed_at: list[_StandIn] = []  # Kept alive until the preview is undone.

    def put(self) -> None:
        """Puts the patches in place, until `take_back`."""
        frames = sys.modules.get("torch._dynamo.eval_frame")
        if hasattr(frames, "_callback_from_stance") and not self._sees_compiled:
            following = self._following

            def see(callback: Any) -> Any:
                return following.see_compiled(callback)

            self._all.append(_Patch(frames, "_callback_from_stance", lambda _: see))
            self._sees_compiled = True
        for patch in self._all:
            patch.put()
            self._put.append(patch)

    def take_back(self) -> None:
        """Restores the originals, also if `put` failed half-way."""
        while self._put:
            self._put.pop().take_back()
        self._stand_ins = {}

    def forget_pointers(self) -> None:
        """Frees copies to which a preview had pointers, after it was undone."""
        self._pointed_at.clear()

    def _make(self) -> Iterator[_Patch]:
        for name in (*READERS, "__deepcopy__", "__reduce_ex__"):
            yield _Patch(torch.Tensor, name, functools.partial(self._with_bytes, name))
        of_capsules = functools.partial(self._with_bytes, "__dlpack__")
        inner: Any = torch._C
        doors = (torch, "to_dlpack"), (torch.utils.dlpack, "to_dlpack"), (inner, "_to_dlpack")
        for owner, name in doors:
            yield _Patch(owner, name, of_capsules)
        of_tensors: Any = torch.Tensor
        for owner in (torch, of_tensors):
            yield _Patch(owner, "tensor_split", self._behind_places)
        for name in _PAST_OPERATORS:
            yield _Patch(torch, name, functools.partial(self._reading, name))
        for name, made_up in _NUMBERS.items():
            yield _Patch(torch.Tensor, name, functools.partial(self._number, made_up))
        of_storages: Any = torch.UntypedStorage
        for name in (*STORAGE_READERS, *STORAGE_WRITERS):
            yield _Patch(of_storages, name, self._with_bytes_of_storages)
        for name in STORAGE_MOVERS:
            yield _Patch(of_storages, name, self._moving)
        state, set_state = torch.ops.fitstep.generator_state, torch.ops.fitstep.set_generator_state
        for owner in (torch, torch.random):
            yield _Patch(owner, "get_rng_state", lambda _: lambda: state())
            yield _Patch(owner, "set_rng_state", lambda _: lambda new_state: set_state(new_state))
        for owner in (torch.cuda, torch.cuda.random):
            yield _Patch(owner, "get_rng_state", self.behind_all)
        for owner, name in thread_doors():  # The other thread may read results of the step.
            yield _Patch(owner, name, self.behind_all)
        for owner, name, _ in SENDING:
            yield _Patch(owner, name, self._at_once)
        for owner, name, _ in setting_doors():
            yield _Patch(owner, name, self._behind_setting)

    def behind_all(self, original: Function) -> Function:
        """The function, with a flush before it."""
        following = self._following

        def function(*args: Any, **kwargs: Any) -> Any:
            if not following.is_asked() or wakes_nobody(original, args):
                return original(*args, **kwargs)
            following.flush(original.__name__)
            with _core.NotFollowed():
                return original(*args, **kwargs)

        return function

    def _at_once(self, send: Function) -> Function:
        """`send` for a signal, with the handler called before it returns."""
        following = self._following

        def function(*args: Any) -> Any:
            if not following.is_asked():
                return send(*args)
            with acting_at_once():
                return send(*args)

        return function

    def _behind_setting(self, change: Function) -> Function:
        """`change` of a setting, with a flush under the old setting before it."""
        following = self._following

        def function(*args: Any, **kwargs: Any) -> Any:
            if not following.is_asked():
                return change(*args, **kwargs)
            try:
                following.flush("")
            finally:
                result = change(*args, **kwargs)
                following.see_setting()
            return result

        return function

    def _behind_places(self, split: Function) -> Function:
        """`tensor_split()`, which reads its split points without an operator."""
        following = self._following

        def function(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            places = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
            is_stale = following.is_asked() and not all(map(following.core.is_untouched, places))
            if is_stale and not following.flush("tensor_split"):
                return split(tensor, [1] * places[0].numel())
            return split(tensor, *args, **kwargs)

        return function

    def _reading(self, name: str, original: Function) -> Function:
        """A function that reads its argument's memory without an operator."""
        following = self._following

        def function(input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
            has_gradient = torch.is_grad_enabled() and input.requires_grad
            if not following.is_asked() or has_gradient or type(input) is not torch.Tensor:
                return original(input, *args, **kwargs)
            is_there = following.core.is_untouched(input) or following.flush(name)
            with _core.NotFollowed():
                if not is_there:
                    input = torch.zeros(input.shape, dtype=input.dtype)  # noqa: A001
                return original(input, *args, **kwargs)

        return function

    def _number(self, made_up: object, original: Function) -> Function:
        """A tensor's `__float__` etc., with a flush if C++ calls it, as in torch.tensor([t])."""
        following = self._following

        def number(tensor: torch.Tensor, *args: Any) -> Any:
            is_past = following.is_current() and not _core.is_followed()
            is_stale = is_past and not following.core.is_untouched(tensor)
            if is_stale and not following.flush(original.__name__):
                return made_up
            return original(tensor, *args)

        return number

    def _with_bytes(self, name: str, original: Function) -> Function:
        """The method of a tensor that reads its memory, with a flush before it."""
        following = self._following

        def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if not following.is_asked() or tensor.device.type == "meta":
                return original(tensor, *args, **kwargs)
            is_there = following.core.is_untouched(tensor) or following.flush(name)
            with _core.NotFollowed():
                if following.is_preview:
                    following.core.note_guess(tensor, name)
                    tensor = self._stand_in(tensor, name, is_there)
                    return original(tensor, *args, **kwargs)
                lends = name in _LENDS and tensor.layout is torch.strided
                was_lent = lends and _core.is_lent(tensor)
                if is_there and name in _LENDS:
                    _core.note_lender(tensor)
                given = original(tensor, *args, **kwargs)
                if lends:
                    following.arrays.note(tensor, given, was_lent=was_lent)
                return given

        return method

    def _with_bytes_of_storages(self, original: Function) -> Function:
        """The method of a storage that reads or writes memory, or returns its address."""
        following, name = self._following, original.__name__

        def as_bytes(value: Any) -> Any:
            if not isinstance(value, torch.UntypedStorage) or value.device.type == "meta":
                return value
            return torch.empty(0, dtype=torch.uint8, device=value.device).set_(value)

        def method(storage: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
            if not following.is_asked():
                return original(storage, *args, **kwargs)
            with _core.NotFollowed():
                given = [as_bytes(value) for value in (storage, *args)]
            of = [one for one in given if isinstance(one, torch.Tensor)]
            if name == "data_ptr":
                return of[0].data_ptr() if of else original(storage)
            is_there = name in STORAGE_READERS and all(map(following.core.is_untouched, of))
            is_there = is_there or following.flush(name)
            with _core.NotFollowed():
                if following.is_preview:
                    for one in of:
                        following.core.note_guess(one, name)
                    shown = (self._stand_in(one, "storage", is_there) for one in of)
                    by_id = {id(a): b.untyped_storage() for a, b in zip(of, shown, strict=True)}
                    values = [by_id.get(id(one), one) for one in given]
                else:
                    values = [storage, *args]
                result = original(*values, **kwargs)
                if result is values[0]:
                    return storage
                if isinstance(result, torch.UntypedStorage):  # A slice shares the memory.
                    self._lend(of[0], result)
                return result

        return method

    def _moving(self, original: Function) -> Function:
        """The method that gives a storage other memory; refused for a tensor in the arena."""
        following, name = self._following, original.__name__

        def method(storage: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
            if not following.is_asked():
                return original(storage, *args, **kwargs)
            if following.is_preview:  # A preview could not undo it.
                raise LeavesTheProcess(name)
            following.flush(name)
            with _core.NotFollowed():
                whole = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
                if following.is_home(whole):
                    following.refuse(
                        f"{name}()", "gives other memory to a tensor that the arena has"
                    )
                return original(storage, *args, **kwargs)

        return method

    def _lend(self, tensor: torch.Tensor, given: Any) -> None:
        """Notes that `given` is over the tensor's memory; in a preview it is over a copy."""
        was_lent = _core.is_lent(tensor)
        if not self._following.is_preview:
            _core.note_lender(tensor)
            self._following.arrays.note(tensor, given, was_lent=was_lent)

    def _stand_in(self, tensor: torch.Tensor, name: str, is_there: bool) -> torch.Tensor:
        """A copy of the tensor, for code that gets its memory in a preview: nothing could undo a
        write to the real memory. The copy holds zeros if the bytes are not known."""
        if name not in READERS:  # deepcopy and pickle may keep their copy, and it would be zeros.
            if not is_there:
                self._following.refuse(name, "needs the bytes of a tensor")
            return tensor
        if tensor.layout is not torch.strided:
            return tensor if is_there else torch.zeros(tensor.shape, dtype=tensor.dtype)
        key = _core.storage_id(tensor)
        if any(one.has(tensor) for one in self._stand_ins.values()):
            return tensor  # It is a view of a copy already.
        if key not in self._stand_ins:
            self._stand_ins[key] = _StandIn(tensor)
        if name in _POINTS:
            self._pointed_at.append(self._stand_ins[key])
        return self._stand_ins[key].show(tensor, is_there=is_there)


@functools.cache
def watch_generators(current: Callable[[], Followed | None]) -> None:
    """From now on reading a generator's state in a step flushes first, so that all draws count."""
    kind = torch.Generator
    attributes = gc.get_referents(kind.__dict__)[0]  # setattr() refuses classes written in C.
    for name in ("get_state", "clone_state", "graphsafe_get_state", "__reduce__"):
        attributes[name] = _behind_draws(getattr(kind, name), current)
    attributes["set_state"] = _when_there(kind.set_state, current)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _behind_draws(original: Function, current: Callable[[], Followed | None]) -> Function:
    @functools.wraps(original)
    def method(generator: torch.Generator, *args: Any) -> Any:
        following = current()
        if following is None:
            return original(generator, *args)
        return following.patches.behind_all(original)(generator, *args)

    return method


def _when_there(set_state: Function, current: Callable[[], Followed | None]) -> Function:
    @functools.wraps(set_state)
    def method(generator: torch.Generator, state: torch.Tensor) -> torch.Generator:
        following = current()
        if following is None or not following.is_asked() or following.core.is_untouched(state):
            return set_state(generator, state)  # type: ignore[no-any-return]
        if not following.flush("set_state"):
            return generator
        return set_state(generator, state)  # type: ignore[no-any-return]

    return method
