"""The Python state of a training step: found, swapped for fakes, snapshotted, guarded.

discover ──> Reach ──> swapped(reach, fake_mode) ──> Swap      tensors, for one recording
               ├─────> Snapshot.take(reach)                    numbers, before and after
               └─────> make_guards(snapshot, code that ran)    what must still be true later
"""

from fitstep.state.discover import discover
from fitstep.state.guards import Guards, make_guards
from fitstep.state.nodes import Node, Obstacle, Place, Reach
from fitstep.state.optimizers import Replacement
from fitstep.state.rebind import Rebinding
from fitstep.state.snapshot import MISSING, NumberChange, Snapshot
from fitstep.state.swap import Swap, swapped
from fitstep.state.variant import VariantFacts, VariantKey

__all__ = [
    "MISSING",
    "Guards",
    "Node",
    "NumberChange",
    "Obstacle",
    "Place",
    "Reach",
    "Rebinding",
    "Replacement",
    "Snapshot",
    "Swap",
    "VariantFacts",
    "VariantKey",
    "discover",
    "make_guards",
    "swapped",
]
