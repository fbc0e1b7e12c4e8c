"""The Python state that a step function can reach: found, named, and put back by `undo`."""

from fitstep.state.discover import discover
from fitstep.state.nodes import Node, Place, Reach

__all__ = ["Node", "Place", "Reach", "discover"]
