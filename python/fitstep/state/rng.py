"""States of the generators that user code can draw from."""

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
    """The states of torch's default generator, `random`, `numpy.random` and those within reach."""

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
        """More of them, by their names, as they are now."""
        self._states += [_state(path, generator) for path, generator in generators]

    def have_moved(self) -> bool:
        """Whether any is not as it was."""
        return any(not _same(state.get(), state.saved) for state in self._states)

    def restore(self) -> None:
        """Puts back those that moved. Raises CaptureError, at the end, for what cannot be."""
        failed: CaptureError | None = None
        for state in reversed(self._states):  # Of two states of one generator the older is right.
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
        # As a tensor it would be memory that no budget allows for.
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
    """Of a numpy.random.Generator, of the bits in one, or of a SeedSequence."""
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
                "the step spawns children of a numpy generator or SeedSequence, and compile, which "
                "undoes what a preview does, cannot take that back",
                todo="spawn them before the step",
            )

    return get, put


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, tuple | list):
        with contextlib.suppress(ValueError):  # Arrays within have no one answer.
            return bool(a == b)
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if hasattr(a, "tobytes"):
        return bool(a.tobytes() == b.tobytes())
    return bool(a == b)
