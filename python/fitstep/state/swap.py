"""swapped(): for the time of a recording, every tensor within reach is a fake.

    real objects         during                        after, whatever happened
    ┌─────────────┐      ┌─────────────┐               ┌─────────────┐
    │ _parameters │      │ _parameters │ same dict     │ _parameters │ same dict
    │  weight: W  │ ───> │  weight: w  │ fake of W     │  weight: W  │ same W
    └─────────────┘      └─────────────┘               └─────────────┘

The user's function runs on the user's own modules and optimizers, but no kernel runs and no bytes
are taken. Containers are never replaced, only their entries, so aliases that user code holds stay
true. Putting back is by saved entries, so what the function did to Python attributes is undone too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fitstep.errors import CaptureError
from fitstep.state.lift import Externals, Fakes, geometry_of, outside_modes
from fitstep.state.nodes import Place, Reach
from fitstep.state.rebind import Rebinding, Record, compare, rebuild
from fitstep.state.rng import GeneratorStates

Results = Mapping[torch.Tensor, torch.Tensor] | Callable[[torch.Tensor], torch.Tensor | None]
Constants = bool | Callable[[Place], bool]


@contextmanager
def swapped(
    reach: Reach, fake_mode: FakeTensorMode, *, constants: Constants = True
) -> Iterator[Swap]:
    """Replaces every tensor within reach by its fake, in place, and puts everything back.

    `constants` says which 0-dim CPU tensors have fakes that know their number, so that `.item()`
    works on them: True for optimizer state, group entries and buffers, False for none, or a choice.

    REQUIRES: `fake_mode` is fresh (its memo would bring gradients of an earlier recording along)
    and no dispatch mode is active; the caller enters its modes inside.
    """
    swap = Swap(reach, fake_mode, _constant_ids(reach, constants))
    grad_mode = torch.is_grad_enabled()
    try:
        swap.begin()
        yield swap
    finally:
        _finish(swap)
        torch.set_grad_enabled(grad_mode)


class Swap:
    """The swap while it lasts, and what it knows of real tensors and fakes afterwards."""

    def __init__(self, reach: Reach, fake_mode: FakeTensorMode, constants: set[int]) -> None:
        self.reach = reach
        self._fakes = Fakes(fake_mode, reach.unique(), constants)
        self._externals = Externals(self._fakes)
        self._records: list[Record] = []
        self._generators = GeneratorStates(reach)
        self._cache_misses = [cache.cache_info().misses for cache in reach.caches]

    def fake(self, real: torch.Tensor) -> torch.Tensor:
        """The fake of a real tensor within reach."""
        return self._fakes.of(real)

    def real(self, fake: torch.Tensor) -> torch.Tensor | None:
        """The real tensor that a fake stands for, or a view of its storage; None for a result."""
        pair = self._fakes.pair_of_fake(fake)
        if pair is not None:
            return pair.real
        external = self._externals.real(fake)
        if external is not None:
            return external
        pair = self._fakes.pair_of_fake_storage(fake)
        if pair is None:
            return None
        offset, size, stride, dtype = geometry_of(fake)
        with outside_modes():
            storage = pair.real.untyped_storage()
            return torch.empty(0, dtype=dtype).set_(storage, offset, size, stride)

    def give_grad(self, real: torch.Tensor, grad: torch.Tensor) -> None:
        """Lets the fake of a parameter start with `grad`, as if a call before had left it."""
        pair = self._fakes.pair_of_fake(self.fake(real))
        assert pair is not None
        pair.fake.grad = pair.grad = grad

    def external(self, real: torch.Tensor) -> torch.Tensor:
        """The fake of a real tensor that the recording met and the swap had not found.

        Works under any dispatch mode. Raises CaptureError for a parameter: its gradient would be
        lost, or flow into the real one.
        """
        return self._externals.fake(real)

    @property
    def externals(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """(real, fake) of all externals, in the order in which they were met."""
        return self._externals.pairs()

    @property
    def pairs(self) -> list[tuple[torch.Tensor, torch.Tensor, Place | None]]:
        """(real, fake, best place) of every tensor that was swapped, gradients included."""
        return [(pair.real, pair.fake, pair.place) for pair in self._fakes.pairs]

    def final(self) -> list[Rebinding]:
        """What is bound anew now. To be asked after the function returned, inside the swap.

        Raises CaptureError for `.data =`, resized storages and replaced parameters.
        """
        return compare(self.reach, self._fakes, self._records)

    def drawn(self) -> list[str]:
        """Paths of the generators whose state the function moved; fakes move none."""
        return self._generators.moved()

    def apply(
        self,
        rebindings: list[Rebinding],
        results: Results,
    ) -> None:
        """Binds real tensors as the recording bound fakes; `results` maps fake to real.

        Everything is built before anything is written, so entries may trade places. Fakes of
        swapped tensors need no result. Each call makes new containers.
        """
        real_of = functools.partial(self._result, results)
        values = [rebuild(rebinding.value, real_of) for rebinding in rebindings]
        for rebinding, value in zip(rebindings, values, strict=True):
            rebinding.put(value)

    def _result(self, results: Any, fake: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor | None = results(fake) if callable(results) else results.get(fake)
        if found is None:
            found = self.real(fake)
        if found is None:
            raise CaptureError(
                f"a tensor of shape {tuple(fake.shape)} is kept by the step but is no result of it",
                todo="keep tensors that the step computes, not ones made while it is captured",
            )
        return found

    def begin(self) -> None:
        """Begins the swap. All entries are read before any is written: nodes may share a dict."""
        if any(torch.utils._python_dispatch._get_current_dispatch_mode_stack()):
            raise CaptureError(
                "a capture was started while another dispatch mode is active",
                todo="call fitstep outside FakeTensorMode, DeviceMesh and profiling modes",
            )
        for place in self.reach.unique():
            self._fakes.of(place.tensor)
        value = self._fakes.value
        for node in self.reach.nodes:
            real = node.entries()
            swapped_entries = [(value(k), value(v)) for k, v in real]
            self._records.append(Record(node, real, swapped_entries))
        for record in self._records:
            node = record.node
            if node.holder is None:  # A tensor's attributes were given to its fake.
                node.form.restore(node.container, record.swapped)

    def undo(self) -> None:
        """Puts every entry back. May be called again if it was interrupted."""
        for record in self._records:
            record.node.form.restore(record.node.container, record.real)
        self._generators.restore()
        for cache, misses in zip(self.reach.caches, self._cache_misses, strict=True):
            if cache.cache_info().misses != misses:
                cache.cache_clear()  # It may hold fakes now, and cannot be looked into.
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            torch.clear_autocast_cache()


def _finish(swap: Swap) -> None:
    """Undoes even when the user presses Ctrl-C meanwhile, and raises that afterwards."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            swap.undo()
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


def _constant_ids(reach: Reach, constants: Constants) -> set[int]:
    if constants is False:
        return set()

    def wanted(place: Place) -> bool:
        if constants is True:
            return place.role in ("optimizer_state", "group", "buffer")
        return bool(constants(place)) if callable(constants) else False

    return {
        id(place.tensor)
        for place in reach.tensors
        if place.tensor.dim() == 0 and place.tensor.device.type == "cpu" and wanted(place)
    }
