"""Compile where Python's collector of cycles has been told to leave objects alone."""

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from fitstep.base.collector import all_objects, collecting_new
from torch import nn

import fitstep


@pytest.fixture
def frozen() -> Iterator[None]:
    """As a program does before it forks."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def test_frozen_objects_are_among_all(frozen: None) -> None:
    mine = [object()]
    gc.freeze()
    count = gc.get_freeze_count()
    assert any(one is mine for one in all_objects())
    assert gc.get_freeze_count() >= count


def test_what_is_frozen_stays_frozen_and_nothing_else() -> None:
    with collecting_new():
        assert gc.get_freeze_count() > 0
        cycle: list[object] = []
        cycle.append(cycle)
        del cycle
        assert gc.collect() > 0
    assert gc.get_freeze_count() == 0


def test_of_what_a_program_has_frozen_nothing_thaws(frozen: None) -> None:
    count = gc.get_freeze_count()
    with collecting_new():
        pass
    assert gc.get_freeze_count() == count


def count_calls() -> object:
    calls = [0]

    def scale() -> float:
        calls[0] += 1
        return float(calls[0])

    return scale


def test_garbage_from_behind_a_freeze_is_collected(frozen: None) -> None:
    """To list what is frozen freezes nothing more."""
    cycle = Cycle()
    ended = weakref.ref(cycle)
    all_objects()
    del cycle
    gc.collect()
    assert ended() is None


class Cycle:
    """Holds itself."""

    def __init__(self) -> None:
        self.itself = self


def train_four_times(train: Callable[..., None], *, is_compiled: bool) -> None:
    """Plain, or compiled with all frozen that there is."""
    if is_compiled:
        gc.collect()
        gc.freeze()
    try:
        example = (torch.ones(2, 4),)
        step = fitstep.compile(train, example, budget="1MiB") if is_compiled else train
        for _ in range(4):
            step(*example)
    finally:
        gc.unfreeze()


def descend(model: nn.Module) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
            p.grad = None


def test_closures_of_frozen_functions_are_seen() -> None:
    """Met by a made-up name, so that only the collector knows who else holds their variables."""
    models = []
    for is_compiled in (False, True):
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        holder = type("Holder", (), {"__slots__": ("scale",)})()
        holder.scale = count_calls()
        name = "".join(["sca", "le"])

        def train(
            x: torch.Tensor, model: nn.Module = model, holder: object = holder, name: str = name
        ) -> None:
            (model(x) * getattr(holder, name)()).sum().backward()
            descend(model)

        train_four_times(train, is_compiled=is_compiled)
        models.append(model)
    assert torch.equal(models[0].weight, models[1].weight)


def test_arrays_over_frozen_tensors_are_seen() -> None:
    """Who holds a tensor that an array shows is counted over frozen objects, too."""
    found = []
    for is_compiled in (False, True):
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        shown = model.weight.detach().numpy()
        sums: list[float] = []

        def train(
            x: torch.Tensor, model: nn.Linear = model, shown: object = shown, sums: list = sums
        ) -> None:
            model(x).sum().backward()
            descend(model)
            sums.append(float(shown.sum()))

        train_four_times(train, is_compiled=is_compiled)
        found.append(sums)
    assert found[0] == found[1]
