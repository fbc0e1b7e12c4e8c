"""Finds tensors that must not move into the arena, because other objects use their memory directly.

    a = model.weight.detach().numpy()      `a` reads and writes the weight's memory by its address
    nn.Parameter(torch.from_numpy(a))      `a` does so here, too

Tensors that share a storage move with it; numpy arrays, DLPack capsules and buffers do not. Memory
that such an object may use is called "lent".
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Container
from typing import Any

import numpy as np
import torch

from .. import _core
from ..base.collector import all_objects
from ..base.frames import all_locals
from ..errors import FitstepError, user_location
from ..state import Reach
from .addresses import collections, pointers_since


class ArrayIsAlive(FitstepError):
    """A tensor has to move, and a numpy array over its memory would not move with it."""


def note_holders(
    reach: Reach, arguments: list[torch.Tensor], recorded: list[Any], session: Any
) -> bool:
    """Finds storages, of arguments and within reach, that are held by more than the tensors that
    Python can find. They stay where they are. Those under a numpy array, made by DLPack, are marked
    as lent. Returns whether a storage was marked that was not lent before."""
    tensors = list({id(t): t for t in [*(p.tensor for p in reach.unique()), *arguments]}.values())
    tensors = [t for t in tensors if t.layout is torch.strided and t.device.type == "cpu"]
    tensors = [t for t in tensors if _core.has_storage(t) and _core.storage_bytes(t) > 0]
    lent = forget_dead_arrays([t for t in tensors if _core.is_lent(t)])
    session.staying += [_core.WeakStorage(t) for t in lent if session.arena.home_of(t) is None]
    twins = [t for t in _overlapping(tensors) if not _core.is_lent(t)]
    for tensor in twins:
        _core.note_lender(tensor)
    tensors, by_views = _with_bases(tensors)
    own = Counter(_core.storage_id(tensor) for tensor in tensors)
    own.update(_core.storage_id(t) for one in recorded for t in one.externals)
    own.update(_core.storage_id(t) for one in recorded for _, t in one.survivors)

    def is_suspect(tensor: torch.Tensor) -> bool:
        has_more = _core.use_count(tensor) > own[_core.storage_id(tensor)]
        return has_more or _core.cores_of(tensor) > by_views[id(tensor)]

    suspects = {
        _core.storage_id(t): t
        for t in tensors
        if session.arena.home_of(t) is None and not _core.is_lent(t) and is_suspect(t)
    }
    if not suspects:
        return bool(twins)
    known = {id(t) for t in tensors}
    known |= {id(t) for one in recorded for t in one.externals}
    known |= {id(t) for one in recorded for _, t in one.survivors}
    every, of_all = _with_bases([t for t in _all_tensors() if _is_over(t, suspects)])
    by_views.update(of_all - by_views)
    over = [t for t in every if id(t) not in known]
    past = _core.references_past_containers(over, all_objects())
    own.update(_core.storage_id(t) for t, held in zip(over, past, strict=True) if not held)
    held_elsewhere = {_core.storage_id(t): t for t in tensors if is_suspect(t)}
    held_elsewhere = {key: t for key, t in held_elsewhere.items() if key in suspects}
    session.staying += map(_core.WeakStorage, held_elsewhere.values())
    with_arrays = _under_arrays(list(held_elsewhere.values()))
    for tensor in with_arrays:
        _core.note_lender(tensor)
    return bool(with_arrays or twins)


def _overlapping(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors whose memory overlaps another storage's, as slices of storages do."""
    found: dict[int, torch.Tensor] = {}
    last: torch.Tensor | None = None  # Of the tensors before, the one that ends last.
    for tensor in sorted(tensors, key=_core.storage_begin):
        key = _core.storage_id(tensor)
        begin, end = _core.storage_begin(tensor), _end_of(tensor)
        if last is not None and begin < _end_of(last) and key != _core.storage_id(last):
            found |= {key: tensor, _core.storage_id(last): last}
        if last is None or end > _end_of(last):
            last = tensor
    return list(found.values())


def _end_of(tensor: torch.Tensor) -> int:
    return _core.storage_begin(tensor) + _core.storage_bytes(tensor)


def _under_arrays(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors over whose storage there is a numpy array that Python can find."""
    if not tensors:
        return []
    in_frames = list(all_locals())
    arrays = _core.held_by([*all_objects(), in_frames], np.ndarray)
    bounds = [_bounds(array) for array in arrays if _SIZE(array) > 0]

    def has_array(tensor: torch.Tensor) -> bool:
        begin, end = _core.storage_begin(tensor), _end_of(tensor)
        return any(low < end and begin < high for low, high in bounds)

    return [tensor for tensor in tensors if has_array(tensor)]


# ndarray's own getters: derived classes may override them.
_ARRAY: Any = np.ndarray
_INTERFACE = _ARRAY.__array_interface__.__get__
_SHAPE, _STRIDES = _ARRAY.shape.__get__, _ARRAY.strides.__get__
_SIZE, _ITEM_SIZE = _ARRAY.size.__get__, _ARRAY.itemsize.__get__


def _bounds(array: Any) -> tuple[int, int]:
    """Addresses of the array's first byte and of the byte after its last."""
    at = _INTERFACE(array)["data"][0]
    steps = [(n - 1) * stride for n, stride in zip(_SHAPE(array), _STRIDES(array), strict=True)]
    low, high = (sum(pick(0, step) for step in steps) for pick in (min, max))
    return at + low, at + high + _ITEM_SIZE(array)


def _with_bases(tensors: list[torch.Tensor]) -> tuple[list[torch.Tensor], Counter[int]]:
    """The tensors and the bases of views among them; and how many views hold each base, by id."""
    bases = [base for tensor in tensors for base in _core.bases_of(tensor)]
    return list({id(t): t for t in [*tensors, *bases]}.values()), Counter(map(id, bases))


def forget_dead_arrays(lent: list[torch.Tensor]) -> list[torch.Tensor]:
    """Those lent tensors whose memory numpy or others may still use. The others are marked as not
    lent any more."""
    of = {_core.storage_id(tensor): tensor for tensor in lent}
    addresses = _with_addresses() if of else set()
    known_alive = [tensor for key, tensor in of.items() if key in addresses]
    of = {key: tensor for key, tensor in of.items() if key not in addresses}
    if not of:
        return known_alive
    held = Counter(id(t) for t in all_locals() if _is_over(t, of))
    every = _all_tensors()
    grads = set(map(id, _core.grads_of(every)))
    over, by_views = _with_bases([t for t in every if _is_over(t, of)])
    known = Counter(_core.storage_id(t) for t in over)
    alive = {key for key, tensor in of.items() if _core.use_count(tensor) > known[key]}
    past = _core.references_past_containers(over, all_objects())
    own = {id(tensor) for tensor in lent}
    for tensor, references in zip(over, past, strict=True):
        # Each such reference is a capsule, or the leaf whose gradient this is.
        cores = _core.cores_of(tensor) - by_views[id(tensor)]
        by_array = references - held[id(tensor)] - _core.is_held_by_core(tensor)
        has_array = by_array > 0 and id(tensor) not in own
        if has_array or cores > (1 if id(tensor) in grads else 0):
            alive.add(_core.storage_id(tensor))
    for key, tensor in of.items():
        if key not in alive:
            _core.forget_lender(tensor)
    return known_alive + [of[key] for key in alive]


class Arrays:
    """The numpy arrays and addresses that a call takes of tensors. If those of a storage are gone
    at the call's end, it is not lent any more, without a search among all objects."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[_core.WeakStorage, list[Callable[[], Any]]]] = {}
        self._running: _Running | None = None  # Set when the call takes its first address.
        self._collections = 0  # collections() at that time.

    def note(self, tensor: torch.Tensor, given: Any, *, was_lent: bool) -> None:
        """Notes that `given`, an array or an address, is over the tensor's memory. `was_lent`: the
        memory was lent before. Views of an array keep the array alive."""
        key = _core.storage_id(tensor)
        if type(given) is int:
            if self._running is None:
                self._running, self._collections = _Running(), collections()
            _addresses.append((_core.WeakStorage(tensor), weakref.ref(self._running)))
        if was_lent and key not in self._of:
            return  # An earlier call lent it, so it stays lent.
        found = self._of.setdefault(key, (_core.WeakStorage(tensor), []))
        found[1].append(_reference_to(given))

    def forget(self) -> None:
        """To be called at the call's end: ends the lending of storages that nobody uses."""
        pointers = pointers_since(self._collections) if self._running else []
        self._running = None
        for storage, arrays in self._of.values():
            tensor = storage()
            if tensor is None:
                continue
            holders = [one for one in arrays if type(one()) is int]
            holders += [weakref.ref(one) for one, into in pointers if _is_any_in(into, tensor)]
            _addresses.extend((storage, one) for one in holders)
            if not holders and all(array() is None for array in arrays):
                _core.forget_lender(tensor)
        self._of.clear()
        _forget_gone_addresses()


class _Running:
    """Lives as long as a call. Addresses that the call took count as used until then."""


def _is_any_in(addresses: list[int], tensor: torch.Tensor) -> bool:
    return any(_core.storage_begin(tensor) <= at < _end_of(tensor) for at in addresses)


def _reference_to(given: Any) -> Callable[[], Any]:
    """Returns a function that returns None once `given` is gone, if that can be found out."""
    if type(given) is np.ndarray:
        return weakref.ref(given)
    if type(given) is int:  # An address; gone when Python drops the number.
        return lambda: given if sys.getrefcount(given) > _OWN_REFERENCES else None
    return lambda: given


# (storage, holder of an address in it): the storage is lent as long as the holder is there.
_addresses: list[tuple[_core.WeakStorage, Callable[[], Any]]] = []


def _forget_gone_addresses() -> None:
    _addresses[:] = [(of, one) for of, one in _addresses if one() is not None and of() is not None]


def _with_addresses() -> set[int]:
    """Ids of storages of which Python code has an address."""
    _forget_gone_addresses()
    tensors = (of() for of, _ in _addresses)
    return {_core.storage_id(tensor) for tensor in tensors if tensor is not None}


_OWN_REFERENCES = 2  # References to `given` in the lambda: the closure's, and getrefcount's own.


def fill_hollow_tensors(ghosts: Container[int]) -> None:
    """After a failed preview: gives zeros to hollow tensors that user code holds, because using
    them would crash. `ghosts`: ids of storages that stay hollow."""
    for tensor in _all_tensors():
        if tensor.layout is not torch.strided or not _core.has_storage(tensor):
            continue
        if _core.is_hollow(tensor) and _core.storage_id(tensor) not in ghosts:
            zeros = torch.zeros(_core.storage_bytes(tensor), dtype=torch.uint8)
            _core.fill_hollow(tensor, zeros.to(tensor.device))


def check_not_lent(tensors: list[torch.Tensor], name_of: Callable[[torch.Tensor], str]) -> None:
    """Raises ArrayIsAlive if numpy uses the memory of one of `tensors`, which have to move now."""
    for tensor in forget_dead_arrays([t for t in tensors if _core.is_lent(t)]):
        raise ArrayIsAlive(
            f"a numpy array or a pointer uses the memory of {name_of(tensor)}, which has to move "
            "for this call; the array would not move, and show old numbers",
            where=user_location(),
            todo="keep a copy instead (t.numpy().copy()), or pass the largest arguments as "
            "example= of compile",
        )


def _all_tensors() -> list[torch.Tensor]:
    """All tensors that Python's garbage collector tracks."""
    return _core.tensors_among(all_objects())


def _is_over(value: Any, storages: Container[int]) -> bool:
    return (
        issubclass(type(value), torch.Tensor)
        and value.layout is torch.strided
        and bool(_core.has_storage(value))
        and _core.storage_id(value) in storages
    )


def stays_where_it_is(tensor: torch.Tensor, session: Any) -> bool:
    """Whether the tensor's memory must not move: it is lent, or note_holders() found a holder."""
    if _core.is_lent(tensor):
        return True
    found = (ref() for ref in session.staying)
    return any(t is not None and _core.storage_id(t) == _core.storage_id(tensor) for t in found)
