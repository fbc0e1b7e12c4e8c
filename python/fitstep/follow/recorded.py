"""What is noted about a segment, its tensors, roles and label, and why a preview ended early."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from ..errors import FitstepError, user_location
from .following import Ended
from .muted import LeavesTheProcess
from .variants import Recorded, storage_id


class Stop(NamedTuple):
    """Why and where a preview ended before the function did."""

    why: str
    where: str | None  # "file:line in function" of user code.

    @classmethod
    def of(cls, error: BaseException) -> Stop:
        where = user_location(error.__traceback__) if error.__traceback__ else None
        if isinstance(error, FitstepError):
            return cls(error.problem, error.where or where)
        kind = "" if isinstance(error, LeavesTheProcess) else f"{type(error).__name__}: "
        return cls(kind + str(error), where)


def tensors_in(args: Any, kwargs: Any) -> list[torch.Tensor]:
    """The strided tensors in the arguments, also in containers."""
    leaves = tree_leaves((args, kwargs))
    return [x for x in leaves if isinstance(x, torch.Tensor) and x.layout is torch.strided]


def arguments_in(args: Any, kwargs: Any) -> frozenset[int]:
    """Ids of the storages of tensors_in()."""
    return frozenset(map(storage_id, tensors_in(args, kwargs)))


def label_of(one: Recorded, args: Any, kwargs: Any) -> str:
    """ "first step [(16, 3, 32, 32)]"; with the segment's number where a step has several."""
    makes_state = any(
        one.roles.get(storage_id(t), ("", ""))[0] == "optimizer_state" for _, t in one.survivors
    )
    shapes = [
        tuple(leaf.shape) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
    ]
    part = f", part {one.part + 1}" if one.part else ""
    return f"{'first step' if makes_state else 'steady step'}{part} {shapes}"


def recorded_of(
    ended: Ended, arguments: frozenset[int], roles: dict[int, tuple[str, str]]
) -> Recorded:
    """A Recorded of the segment, with those `roles` that are of its tensors."""
    segment, externals, survivors = ended.segment, ended.externals, ended.survivors
    ids = [storage_id(t) for t in externals] + [storage_id(t) for _, t in survivors]
    found = {i: roles[i] for i in ids if i in roles}
    return Recorded(segment, externals, survivors, found, arguments)
