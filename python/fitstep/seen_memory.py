"""Which tensors stay in their memory, because somebody may look at it past them.

    a = model.weight.detach().numpy()      reads and writes the weight's memory by its address
    nn.Parameter(torch.from_numpy(a))      so does a

Tensors over the same storage move with it; a numpy array, a DLPack capsule or a buffer does not.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Container
from typing import Any

import numpy as np
import torch

from . import _core
from .addresses import collections, pointers_since
from .collector import all_objects
from .errors import FitstepError, user_location
from .frames import all_locals
from .state import Reach


class ArrayIsAlive(FitstepError):
    """Memory has to move, and an array that shows it would stay behind."""


def note_holders(
    reach: Reach, arguments: list[torch.Tensor], recorded: list[Any], session: Any
) -> bool:
    """Looks for holders of memory, of arguments and within reach, that are no tensors which Python
    can find. It stays where it is. If they are arrays of numpy, made by DLPack, which leaves no
    mark, it counts as lent. Returns whether any does that did not before."""
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
    """Those in whose memory another one has another storage: slices of storages are such."""
    found: dict[int, torch.Tensor] = {}
    last: torch.Tensor | None = None  # Which of those before ends last.
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
    """Those in whose storage an array of numpy lies that Python can find."""
    if not tensors:
        return []
    in_frames = list(all_locals())
    arrays = _core.held_by([*all_objects(), in_frames], np.ndarray)
    bounds = [_bounds(array) for array in arrays if _SIZE(array) > 0]

    def has_array(tensor: torch.Tensor) -> bool:
        begin, end = _core.storage_begin(tensor), _end_of(tensor)
        return any(low < end and begin < high for low, high in bounds)

    return [tensor for tensor in tensors if has_array(tensor)]


# Derived classes may have others.
_ARRAY: Any = np.ndarray
_INTERFACE = _ARRAY.__array_interface__.__get__
_SHAPE, _STRIDES = _ARRAY.shape.__get__, _ARRAY.strides.__get__
_SIZE, _ITEM_SIZE = _ARRAY.size.__get__, _ARRAY.itemsize.__get__


def _bounds(array: Any) -> tuple[int, int]:
    """Addresses of its first byte, and behind its last."""
    at = _INTERFACE(array)["data"][0]
    steps = [(n - 1) * stride for n, stride in zip(_SHAPE(array), _STRIDES(array), strict=True)]
    low, high = (sum(pick(0, step) for step in steps) for pick in (min, max))
    return at + low, at + high + _ITEM_SIZE(array)


def _with_bases(tensors: list[torch.Tensor]) -> tuple[list[torch.Tensor], Counter[int]]:
    """These and those that they are views of; and, by id, how often views hold one."""
    bases = [base for tensor in tensors for base in _core.bases_of(tensor)]
    return list({id(t): t for t in [*tensors, *bases]}.values()), Counter(map(id, bases))


def forget_dead_arrays(lent: list[torch.Tensor]) -> list[torch.Tensor]:
    """Those of `lent`, whose memory was given to numpy, that numpy has still. Of the others it is
    forgotten: their memory is the tensor's alone."""
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
    alive = {key for key, tensor in of.items() if _core.use_count(tensor) > known[key]}  # Capsule.
    past = _core.references_past_containers(over, all_objects())
    own = {id(tensor) for tensor in lent}
    for tensor, references in zip(over, past, strict=True):
        # Each a capsule, or the leaf of a gradient.
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
    """Numpy arrays, and addresses, that a call makes of tensors. Where all those of one storage are
    gone at the call's end, it is the tensors' alone: nobody has to look among all objects for who
    has it."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[_core.WeakStorage, list[Callable[[], Any]]]] = {}
        self._running: _Running | None = None  # There once the call has made an address.
        self._collections = 0  # Up to then.

    def note(self, tensor: torch.Tensor, given: Any, *, was_lent: bool) -> None:
        """`given` shows the tensor's memory, which `was_lent` before. Views of an array hold it."""
        key = _core.storage_id(tensor)
        if type(given) is int:
            if self._running is None:
                self._running, self._collections = _Running(), collections()
            _addresses.append((_core.WeakStorage(tensor), weakref.ref(self._running)))
        if was_lent and key not in self._of:
            return  # To others, too.
        found = self._of.setdefault(key, (_core.WeakStorage(tensor), []))
        found[1].append(_reference_to(given))

    def forget(self) -> None:
        """At the call's end."""
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
    """A call. Somebody may have the addresses that it has made, until it ends."""


def _is_any_in(addresses: list[int], tensor: torch.Tensor) -> bool:
    return any(_core.storage_begin(tensor) <= at < _end_of(tensor) for at in addresses)


def _reference_to(given: Any) -> Callable[[], Any]:
    """Gives None where nobody has it any more, as far as that can be told."""
    if type(given) is np.ndarray:
        return weakref.ref(given)
    if type(given) is int:  # An address, as long as Python keeps the number.
        return lambda: given if sys.getrefcount(given) > _OWN_REFERENCES else None
    return lambda: given


# That Python still has, of tensors whose memory is lent for that.
_addresses: list[tuple[_core.WeakStorage, Callable[[], Any]]] = []


def _forget_gone_addresses() -> None:
    _addresses[:] = [(of, one) for of, one in _addresses if one() is not None and of() is not None]


def _with_addresses() -> set[int]:
    """Storages of which Python has an address."""
    _forget_gone_addresses()
    tensors = (of() for of, _ in _addresses)
    return {_core.storage_id(tensor) for tensor in tensors if tensor is not None}


_OWN_REFERENCES = 2  # To what a closure holds: the closure's, and that of who counts.


def fill_hollow_tensors(ghosts: Container[int]) -> None:
    """A preview has failed: what user code holds of it holds zeros, or using it would crash.
    `ghosts`: storages of those that stay hollow."""
    for tensor in _all_tensors():
        if tensor.layout is not torch.strided or not _core.has_storage(tensor):
            continue
        if _core.is_hollow(tensor) and _core.storage_id(tensor) not in ghosts:
            zeros = torch.zeros(_core.storage_bytes(tensor), dtype=torch.uint8)
            _core.fill_hollow(tensor, zeros.to(tensor.device))


def check_not_lent(tensors: list[torch.Tensor], name_of: Callable[[torch.Tensor], str]) -> None:
    """Raises ArrayIsAlive where numpy has the memory of one of them, which has to move now."""
    for tensor in forget_dead_arrays([t for t in tensors if _core.is_lent(t)]):
        raise ArrayIsAlive(
            f"a numpy array (or a pointer) shows the memory of {name_of(tensor)}, which has to "
            "move for this call; the array would stay behind and show other numbers",
            where=user_location(),
            todo="keep a copy instead (t.numpy().copy()), or compile with the largest arguments as "
            "example",
        )


def _all_tensors() -> list[torch.Tensor]:
    """That Python knows."""
    return _core.tensors_among(all_objects())


def _is_over(value: Any, storages: Container[int]) -> bool:
    return (
        issubclass(type(value), torch.Tensor)
        and value.layout is torch.strided
        and bool(_core.has_storage(value))
        and _core.storage_id(value) in storages
    )


def stays_where_it_is(tensor: torch.Tensor, session: Any) -> bool:
    """Whether that was found for the tensor's memory."""
    if _core.is_lent(tensor):
        return True
    found = (ref() for ref in session.staying)
    return any(t is not None and _core.storage_id(t) == _core.storage_id(tensor) for t in found)
