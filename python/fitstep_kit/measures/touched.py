"""What a step writes of its arena, found out without asking whoever runs it.

arena  | homes | 5a 5a 5a 5a 5a 5a 5a 5a 5a 5a 5a |     then a step, and what is not 5a any more
       | homes | xx xx xx xx xx xx xx 5a 5a 5a 5a |     has been written; the same with a5
                                      ^ end
"""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_PATTERNS = (0x5A, 0xA5)


@dataclass
class Touched:
    """Bytes from the beginning of the arena, homes in front."""

    end_bytes: int  # Behind the last byte that was written.
    height_bytes: int  # Of the plan.


def touched(step: Any, call: Callable[[], object]) -> Touched:
    """Of two calls, which are training steps of the variant that ran last.

    REQUIRES: nothing of the arena but the homes holds anything between steps: none of its results
    is kept.
    """
    free = _behind_homes(step)
    bottom = step._session.bottom_bytes
    end = 0
    for pattern in _PATTERNS:
        free.fill_(pattern)
        call()
        end = max(end, _end_of(free, pattern))
    height = _plan_of(step)["certificate"]["height_bytes"]
    return Touched(end_bytes=bottom + end, height_bytes=height)


def _behind_homes(step: Any) -> Tensor:
    session = step._session
    size = session.arena.core.size_bytes()
    place = (False, 0)
    arena: Tensor = session.arena.core.make(
        [size], [1], 0, torch.uint8, size, place, torch.device("cpu")
    )
    return arena[session.bottom_bytes :]


def _end_of(region: Tensor, pattern: int) -> int:
    """Behind the last byte that is another; piece by piece, for the arena may be large."""
    size = 1 << 24
    for begin in range((len(region) - 1) // size * size, -1, -size):
        others = (region[begin : begin + size] != pattern).nonzero()
        if len(others):
            return begin + int(others[-1]) + 1
    return 0


def _plan_of(step: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan"
        step.plan.save(path)
        plan: dict[str, Any] = json.loads(path.read_text())
    return plan
