"""Tensors that only Python's collector would free."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def no_tensor_in_cycles() -> Iterator[None]:
    """Fails if a cycle that was left inside is, or holds, a tensor.

    Other cycles are not counted: other threads leave some at any time, and a test runner's do.
    """
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        reached = (*gc.garbage, *gc.get_referents(*gc.garbage))
        held = {id(one) for one in reached if isinstance(one, torch.Tensor)}
        assert not held, f"{len(held)} tensors would stay until the collector comes"
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
