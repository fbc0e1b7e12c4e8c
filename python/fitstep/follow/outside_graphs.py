"""Protects autograd graphs that existed before a preview: backward through one frees it, and adds
gradients that nothing would undo.

argument with a graph    the preview gets a tensor over the same memory with a graph of its own
tensor within reach      the preview stops when backward reaches its node; real calls go on there
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from .. import _core
from .muted import LeavesTheProcess


class _End(torch.autograd.Function):
    """The end of an own graph. Its result is not a leaf, which in-place operators would refuse."""

    @staticmethod
    def forward(_ctx: Any, _anchor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return value.data

    @staticmethod
    def backward(_ctx: Any, *_gradients: torch.Tensor) -> tuple[None, None]:
        return None, None


def with_own_graph(value: Any) -> Any:
    """A replacement for a tensor that has a graph; any other value as it is."""
    if not isinstance(value, torch.Tensor) or value.grad_fn is None:
        return value
    with _core.NotFollowed(), torch.enable_grad():
        return _End.apply(torch.zeros((), requires_grad=True), value.detach())


@contextlib.contextmanager
def closed(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """In its body LeavesTheProcess is raised when backward reaches one of these tensors."""
    nodes = {id(node): node for node in (t.grad_fn for t in tensors) if node is not None}
    hooks = [node.register_prehook(_end) for node in nodes.values()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _end(_gradients: object) -> None:
    raise LeavesTheProcess("backward through a graph from before")
