"""All open sessions. A step joins the session whose arena holds its model, or opens a new one."""

from __future__ import annotations

import atexit
import functools
import os
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack

from .. import _core
from ..errors import CaptureError, SettingError
from ..follow.following import current, end_in_child
from ..memory.below import check_joins
from ..memory.session import Session
from ..memory.settings import Settings

_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def session_for(tensors: list[torch.Tensor], settings: Settings, device: torch.device) -> Session:
    """The open session whose arena holds one of `tensors`, or a new session on `device`.

    Raises BudgetError if that session has another budget, SettingError for cuda_graph=True on the
    CPU, and CaptureError if the tensors are in two arenas.
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
            "the step function uses models that are in the arenas of two compiled steps",
            todo="close() one of the compiled steps, and compile the function that uses all models "
            "before the others",
        )
    session = found.pop()
    check_joins(settings, session.settings, session.planning.below, session.planning.budget_bytes)
    return session


def ghosts() -> set[int]:
    """Ids of the storages of all ghosts: tensors that stand for gradients which a step dropped."""
    every = [session.ghosts.values() for session in _sessions]
    return {_core.storage_id(ghost) for one in every for _, ghost in one}


_taken: list[_core.WeakStorage] = []  # Lent by DLPack before anything was compiled.
_MOST_TAKEN = 1024  # After each so many, storages that are gone are removed.


def _watch_dlpack() -> None:
    """From now on notes tensors whose memory is taken by DLPack; they count as lent once a step is
    compiled. For numpy() PyTorch does so itself. compile finds earlier users: seen_memory.py."""
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
        following.flush("fork")  # The child may read results of the step.


def _forsake_all() -> None:
    end_in_child()
    for session in list(_sessions):
        session.forsake()


# Forked processes, such as DataLoader workers, get no copy of an arena.
os.register_at_fork(before=_run_before_a_fork, after_in_child=_forsake_all)


def _end_all() -> None:
    for session in list(_sessions):
        session.access.end()


# A thread that returns from a step after the interpreter has ended would call abort().
atexit.register(_end_all)
