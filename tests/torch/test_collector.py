"""Compile where Python's collector of cycles has been told to leave objects alone."""

import gc
from collections.abc import Iterator

import pytest
import torch
from fitstep.collector import all_objects, collecting_new
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


def test_closures_of_frozen_functions_are_seen() -> None:
    """Met by a made-up name, so that only the collector knows who else holds their variables."""
    models = []
    for freezes in (False, True):
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        holder = type("Holder", (), {"__slots__": ("scale",)})()
        holder.scale = count_calls()
        name = "".join(["sca", "le"])

        def train(
            x: torch.Tensor, model: nn.Module = model, holder: object = holder, name: str = name
        ) -> None:
            loss = (model(x) * getattr(holder, name)()).sum()
            loss.backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.01 * p.grad
                    p.grad = None

        if freezes:
            gc.collect()
            gc.freeze()
        try:
            step = fitstep.compile(train, (torch.ones(2, 4),), budget="1MiB") if freezes else train
            for _ in range(4):
                step(torch.ones(2, 4))
        finally:
            gc.unfreeze()
        models.append(model)
    assert torch.equal(models[0].weight, models[1].weight)


def test_arrays_over_frozen_tensors_are_seen() -> None:
    """Who holds a tensor that an array shows is counted over frozen objects, too."""
    found = []
    for freezes in (False, True):
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        shown = model.weight.detach().numpy()
        sums: list[float] = []

        def train(
            x: torch.Tensor, model: nn.Linear = model, shown: object = shown, sums: list = sums
        ) -> None:
            model(x).sum().backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.01 * p.grad
                    p.grad = None
            sums.append(float(shown.sum()))

        if freezes:
            gc.collect()
            gc.freeze()
        try:
            step = fitstep.compile(train, (torch.ones(2, 4),), budget="1MiB") if freezes else train
            for _ in range(4):
                step(torch.ones(2, 4))
        finally:
            gc.unfreeze()
        found.append(sums)
    assert found[0] == found[1]
