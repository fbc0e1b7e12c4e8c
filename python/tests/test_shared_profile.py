"""Two processes that measure the same at the same time agree on what was measured first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from fitstep.memory import profile_cache
from fitstep.memory.profile_cache import ProfileCache

import fitstep
from fitstep import _core

MEBIBYTE = 1 << 20


def test_who_measures_a_link_second_takes_over_the_first(tmp_path: Path) -> None:
    first, second = ProfileCache(folder=tmp_path), ProfileCache(folder=tmp_path)
    measured = first.host_link(MEBIBYTE)
    assert second.host_link(MEBIBYTE) == measured


def test_a_file_that_is_locked_for_too_long_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_cache, "_SECONDS_FOR_LOCK", 0.01)
    cache = ProfileCache(folder=tmp_path)
    with FileLock(cache.path.with_suffix(".lock")):
        assert _core.is_link(cache.host_link(MEBIBYTE))
    assert not cache.path.exists()


class Training:
    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.x = torch.randn(256, 64)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def predicted_s(self) -> float:
        step = fitstep.compile(self.step, self.x, "100%")
        found = step.report().variants[-1].predicted_s
        step.close()
        return found


def test_who_measures_operators_second_plans_with_the_times_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first finished just before the second wants to write: its operators took 0.1 s each."""
    monkeypatch.setenv("FITSTEP_CACHE", str(tmp_path))
    share = ProfileCache._share
    shared: list[bool] = []

    def late(cache: ProfileCache) -> bool:
        if not shared:
            calls = {k: f"{10**11} {v.split(' ', 1)[1]}" for k, v in cache.profile.save().items()}
            content = {"format": profile_cache._FORMAT, "calls": calls}
            cache.path.write_text(json.dumps(content), encoding="utf-8")
        shared.append(share(cache))
        return shared[-1]

    monkeypatch.setattr(ProfileCache, "_share", late)
    took = Training().predicted_s()
    assert shared[0] and not any(shared[1:])
    assert took > 0.5, "times of the first"
    assert Training().predicted_s() == took, "who comes third, too"


def test_operators_of_other_trainings_are_no_reason_to_lower_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FITSTEP_CACHE", str(tmp_path))
    answers: list[Any] = []
    share = ProfileCache._share
    monkeypatch.setattr(
        ProfileCache, "_share", lambda cache: answers.append(share(cache)) or answers[-1]
    )
    Training().predicted_s()
    other = Training()
    other.x = torch.randn(128, 64)
    other.predicted_s()
    assert len(answers) == 2
    assert not any(answers)
