"""discover(): finds and names the Python state that a step function reaches (for `undo`)."""

from fitstep.state.discover import discover
from fitstep.state.nodes import Node, Place, Reach

__all__ = ["Node", "Place", "Reach", "discover"]
