"""Which session a step function joins: the one in which its model is at home already."""

from __future__ import annotations

import atexit
import os
import weakref

import torch

from .below import check_joins
from .errors import CaptureError, SettingError
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
    found = {s for s in _sessions for t in tensors if s.home_of(t) is not None}
    if not found:
        session = Session(settings, device)
        _sessions.add(session)
        return session
    if len(found) > 1:
        raise CaptureError(
            "the step function uses models that were compiled apart, in two arenas",
            todo="close() one of the compiled steps, or compile the functions that share models "
            "one after another",
        )
    session = found.pop()
    check_joins(settings, session.settings, session.below, session.budget_bytes)
    return session


def _forsake_all() -> None:
    for session in list(_sessions):
        session.forsake()


# DataLoader workers are forked: they find nothing of an arena, so it is never copied for them.
os.register_at_fork(after_in_child=_forsake_all)


def _end_all() -> None:
    for session in list(_sessions):
        session.end()


# A thread that comes back from a step to an interpreter that is gone ends the process by abort().
atexit.register(_end_all)
