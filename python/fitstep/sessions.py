"""Which session a step function joins: the one in which its model is at home already."""

from __future__ import annotations

import os
import weakref

import torch

from . import _core
from .budget import parse_budget
from .errors import BudgetError, CaptureError
from .session import Session
from .settings import Settings

_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def session_for(tensors: list[torch.Tensor], settings: Settings) -> Session:
    """The open session in which a storage is at home already, or a new one.

    Raises BudgetError when a session is joined with another budget.
    """
    found = {s for s in _sessions for t in tensors if s.home_of(t) is not None}
    if not found:
        session = Session(settings)
        _sessions.add(session)
        return session
    if len(found) > 1:
        raise CaptureError(
            "the step function uses models that were compiled apart, in two arenas",
            todo="close() one of the compiled steps, or compile the functions that share models "
            "one after another",
        )
    session = found.pop()
    _check_joins("budget", settings.budget, session.settings.budget, session.budget_bytes)
    _check_joins(
        *("host_budget", settings.host_budget),
        *(session.settings.host_budget, session.host_budget_bytes),
    )
    return session


def _check_joins(
    name: str, given: int | str | None, of_session: int | str | None, of_session_bytes: int
) -> None:
    """Raises BudgetError if a budget is given and is not the one that the arena has."""
    if given is None or given == of_session:
        return
    is_share = isinstance(given, str) and given.strip().endswith("%")
    if not is_share and parse_budget(given, 0) == of_session_bytes:
        return
    raise BudgetError(
        f"{name}={given!r}, but this model is already at home in an arena with a {name} of "
        f"{_core.format_bytes(of_session_bytes)}",
        todo=f"leave {name}= out, give the same one, or close() the earlier step first",
    )


def _forsake_all() -> None:
    for session in list(_sessions):
        session.forsake()


# DataLoader workers are forked: they find nothing of an arena, so it is never copied for them.
os.register_at_fork(after_in_child=_forsake_all)
