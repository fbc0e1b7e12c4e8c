"""Graphs of autograd that were there before a preview. Going backward through one uses it up, and
leaves gradients where nobody would look for them: a preview ends there, or goes around.

argument with a graph    the preview has a leaf in its place, over the same memory
tensor within reach      backward ends the preview at its node; the calls will show what comes
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from .muted import LeavesTheProcess


def as_leaf(value: Any) -> Any:
    """A leaf in the place of a tensor with a graph; anything else as it is."""
    if isinstance(value, torch.Tensor) and value.grad_fn is not None:
        return value.detach().requires_grad_()
    return value


@contextlib.contextmanager
def closed(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """In its body LeavesTheProcess is raised where backward comes to one of these."""
    nodes = {id(node): node for node in (t.grad_fn for t in tensors) if node is not None}
    hooks = [node.register_prehook(_end) for node in nodes.values()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _end(_gradients: object) -> None:
    raise LeavesTheProcess("backward through a graph from before")
