"""Which tensors stay in their memory, because somebody may look at it past them.

    a = model.weight.detach().numpy()      reads and writes the weight's memory by its address
    nn.Parameter(torch.from_numpy(a))      so does a

Tensors over the same storage move with it; a numpy array, a DLPack capsule or a buffer does not.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections import Counter
from typing import Any

import torch

from . import _core
from .state import Reach


def seen_past_tensors(
    reach: Reach, recorded: list[Any], session: Any
) -> list[weakref.ref[torch.Tensor]]:
    """Those within reach whose memory has a holder that is no tensor which Python can find."""
    tensors = [p.tensor for p in reach.unique() if p.tensor.layout is torch.strided]
    own = Counter(_core.storage_id(tensor) for tensor in tensors)
    own.update(_core.storage_id(t) for one in recorded for t in one.externals)
    own.update(_core.storage_id(t) for one in recorded for _, t in one.survivors)
    suspects = {
        _core.storage_id(t): t
        for t in tensors
        if t.device.type == "cpu"
        and session.home_of(t) is None
        and _core.storage_bytes(t) > 0
        and (_core.is_lent(t) or _core.use_count(t) > own[_core.storage_id(t)])
    }
    if not suspects:
        return []
    known = {id(t) for t in tensors}
    known |= {id(t) for one in recorded for t in one.externals}
    known |= {id(t) for one in recorded for _, t in one.survivors}
    every = [t for t in gc.get_objects() if issubclass(type(t), torch.Tensor)]
    for tensor in every:
        if id(tensor) in known or tensor.layout is not torch.strided or not _has_storage(tensor):
            continue
        key = _core.storage_id(tensor)
        if key in suspects and _is_held_by_containers(tensor):
            own[key] += 1
    return [
        weakref.ref(t)
        for key, t in suspects.items()
        if _core.is_lent(t) or _core.use_count(t) > own[key]
    ]


def stays_where_it_is(tensor: torch.Tensor, session: Any) -> bool:
    """Whether that was found for the tensor's memory."""
    found = (ref() for ref in session.staying)
    return any(t is not None and _core.storage_id(t) == _core.storage_id(tensor) for t in found)


def _has_storage(tensor: torch.Tensor) -> bool:
    return bool(_core.has_storage(tensor))


def _is_held_by_containers(tensor: torch.Tensor) -> bool:
    """Not so where an object that the collector does not follow, as an array, holds it."""
    names = 3  # The caller's, this one and the argument of getrefcount().
    return sys.getrefcount(tensor) - names <= len(gc.get_referrers(tensor))
