"""Graphs of autograd that were there before a preview. Going backward through one uses it up, and
leaves gradients where nobody would look for them: a preview ends there, or goes around.

argument with a graph    the preview has one over the same memory in its place, whose graph ends
tensor within reach      backward ends the preview at its node; the calls will show what comes
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from . import _core
from .muted import LeavesTheProcess


class _End(torch.autograd.Function):
    """Where a graph ends. No leaf, as operators in place refuse those."""

    @staticmethod
    def forward(_ctx: Any, _anchor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return value.data

    @staticmethod
    def backward(_ctx: Any, *_gradients: torch.Tensor) -> tuple[None, None]:
        return None, None


def with_own_graph(value: Any) -> Any:
    """What takes the place of a tensor with a graph; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.grad_fn is None:
        return value
    with _core.NotFollowed(), torch.enable_grad():
        return _End.apply(torch.zeros((), requires_grad=True), value.detach())


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
