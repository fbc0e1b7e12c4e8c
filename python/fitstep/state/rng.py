"""Saves and restores the states of random generators: torch's, Python's, numpy's."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from fitstep import _core
from fitstep.errors import CaptureError
from fitstep.state.nodes import Reach


@dataclass(slots=True)
class _State:
    path: str
    get: Callable[[], Any]
    put: Callable[[Any], object]
    saved: Any


class GeneratorStates:
    """Saved states of torch's default generators, `random`, `numpy.random` and those in reach."""

    def __init__(self, reach: Reach | None = None) -> None:
        self._states: list[_State] = []
        self.add(
            [
                ("torch's default generator", torch.default_generator),
                *((f"the generator of {g.device}", g) for g in torch.cuda.default_generators),
                ("random", random),
                *(reach.generators if reach is not None else ()),
            ]
        )
        if "numpy" in sys.modules:
            self.add([("numpy.random", sys.modules["numpy"].random)])

    def add(self, generators: Iterable[tuple[str, Any]]) -> None:
        """Saves the states of more (name, generator) pairs as they are now."""
        self._states += [_state(path, generator) for path, generator in generators]

    def have_moved(self) -> bool:
        """Whether any generator's state has changed."""
        return any(not _same(state.get(), state.saved) for state in self._states)

    def restore(self) -> None:
        """Restores the changed ones. Raises CaptureError at the end if one cannot be restored."""
        failed: CaptureError | None = None
        for state in reversed(self._states):  # The oldest state of a generator wins.
            if not _same(state.get(), state.saved):
                try:
                    state.put(state.saved)
                except CaptureError as error:
                    failed = error
        if failed is not None:
            raise failed


def _state(path: str, generator: Any) -> _State:
    get: Callable[[], Any]
    put: Callable[[Any], object]
    if isinstance(generator, torch.Generator) and generator.device.type == "cpu":
        # get_state() would return a tensor, whose memory is in no budget.
        get = partial(_core.generator_state, generator)
        put = partial(_core.set_generator_state, generator)
    elif hasattr(generator, "getstate"):
        get, put = generator.getstate, generator.setstate
    elif hasattr(generator, "get_state"):  # numpy.random and its RandomState.
        get, put = generator.get_state, generator.set_state
    else:
        get, put = _numpys(generator)
    return _State(path, get, put, get())


def _numpys(generator: Any) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    """(get, put) of a numpy.random.Generator, a BitGenerator or a SeedSequence."""
    bits = getattr(generator, "bit_generator", generator)
    seeds = getattr(bits, "seed_seq", generator)
    has_bits = hasattr(bits, "random_raw")

    def get() -> tuple[Any, int]:
        return bits.state if has_bits else None, getattr(seeds, "n_children_spawned", 0)

    def put(saved: tuple[Any, int]) -> None:
        if has_bits:
            bits.state = saved[0]
        if get()[1] != saved[1]:
            raise CaptureError(
                "the step spawns children of a numpy generator or SeedSequence; compile has to "
                "undo this, and cannot",
                todo="call spawn() before the step",
            )

    return get, put


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, tuple | list):
        with contextlib.suppress(ValueError):  # Raised if arrays are inside.
            return bool(a == b)
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if hasattr(a, "tobytes"):
        return bool(a.tobytes() == b.tobytes())
    return bool(a == b)
