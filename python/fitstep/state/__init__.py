"""The Python state of a training step: found, swapped for fakes, snapshotted, guarded.

discover ──> Reach ──> swapped(reach, fake_mode) ──> Swap      tensors, for one recording
               ├─────> Snapshot.take(reach)                    numbers, before and after
               └─────> make_guards(snapshot, code that ran)    what must still be true later
"""

from fitstep.state.discover import discover
from fitstep.state.nodes import Node, Obstacle, Place, Reach
from fitstep.state.rebind import Rebinding
from fitstep.state.swap import Swap, swapped

__all__ = ["Node", "Obstacle", "Place", "Reach", "Rebinding", "Swap", "discover", "swapped"]
