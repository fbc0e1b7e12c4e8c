"""Which session a step function joins: the one in which its model is at home already."""

from __future__ import annotations

import atexit
import functools
import os
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack

from . import _core
from .below import check_joins
from .errors import CaptureError, SettingError
from .following import current, end_in_child
from .session import Session
from .settings import Settings

_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def session_for(tensors: list[torch.Tensor], settings: Settings, device: torch.device) -> Session:
    """The open session in which a storage is at home already, or a new one on that device.

    Raises BudgetError when a session is joined with another budget, and SettingError for a graph
    on the CPU.
    """
    if settings.cuda_graph and device.type == "cpu":
        raise SettingError("cuda_graph", True, "False for a model on the CPU, which has no graphs")
    found = {s for s in _sessions for t in tensors if s.arena.has(t)}
    if not found:
        for storage in _taken:
            if (tensor := storage()) is not None:
                _core.note_lender(tensor)
        _taken.clear()
        session = Session(settings, device)
        _sessions.add(session)
        return session
    if len(found) > 1:
        raise CaptureError(
            "the step function uses models that were compiled apart, in two arenas",
            todo="close() one of the compiled steps, and compile the function that uses all models "
            "first",
        )
    session = found.pop()
    check_joins(settings, session.settings, session.planning.below, session.planning.budget_bytes)
    return session


def ghosts() -> set[int]:
    """Storages of all tensors that stand for gradients which a step has dropped."""
    every = [session.ghosts.values() for session in _sessions]
    return {_core.storage_id(ghost) for one in every for _, ghost in one}


_taken: list[_core.WeakStorage] = []  # By DLPack, where nothing has been compiled yet.
_MOST_TAKEN = 1024  # Then those that are gone are left out.


def _watch_dlpack() -> None:
    """From now on tensors whose memory somebody takes by DLPack count as lent once anything is
    compiled: they cannot be resized then. For numpy() PyTorch does it. Who took memory before is
    found by compile: see seen_memory.py."""
    for owner, name in (
        (torch.Tensor, "__dlpack__"),
        (torch.utils.dlpack, "to_dlpack"),
        (torch, "to_dlpack"),
    ):
        setattr(owner, name, _noting(getattr(owner, name)))


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        capsule = original(tensor, *args, **kwargs)
        if tensor.layout is torch.strided and tensor.is_cpu and _core.has_storage(tensor):
            if _sessions:
                _core.note_lender(tensor)
            else:
                _taken.append(_core.WeakStorage(tensor))
                if len(_taken) % _MOST_TAKEN == 0:
                    _taken[:] = [storage for storage in _taken if storage() is not None]
        return capsule

    return function


_watch_dlpack()


def _run_before_a_fork() -> None:
    following = current()
    if following is not None and following.is_asked() and not following.is_preview:
        following.flush("fork")  # The child sees what was called so far.


def _forsake_all() -> None:
    end_in_child()
    for session in list(_sessions):
        session.forsake()


# DataLoader workers are forked: they find nothing of an arena, so it is never copied for them.
os.register_at_fork(before=_run_before_a_fork, after_in_child=_forsake_all)


def _end_all() -> None:
    for session in list(_sessions):
        session.access.end()


# A thread that comes back from a step to an interpreter that is gone ends the process by abort().
atexit.register(_end_all)
