"""A torch that is newer than the tested ones is tried once, then used with a warning."""

import warnings
from pathlib import Path

import pytest
import torch
from fitstep.steps import newer_torch

import fitstep


@pytest.fixture(autouse=True)
def newer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In these tests the installed torch is newer than all tested ones."""
    monkeypatch.setattr(newer_torch, "is_untested", lambda _: True)
    monkeypatch.setenv("FITSTEP_CACHE", str(tmp_path))
    newer_torch._try_once.cache_clear()


def compile_a_step() -> fitstep.Step:
    weight = torch.ones(8, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def train(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = (weight * x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    return fitstep.compile(train, torch.ones(8), optimizer=optimizer)


def test_a_torch_that_passes_is_used_with_one_warning(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match="newest torch that fitstep was tested with; the self"
    ) as w:
        compile_a_step()
    assert w[0].filename == __file__, "the warning names the line of the user"
    (verdict,) = tmp_path.glob("tried-*.txt")
    assert torch.__version__ in verdict.read_text(encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_a_step()


def test_a_process_believes_the_verdict_of_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newer_torch, "fault_of_trial", lambda: None)
    with pytest.warns(UserWarning):
        compile_a_step()
    newer_torch._try_once.cache_clear()
    monkeypatch.setattr(newer_torch, "fault_of_trial", lambda: pytest.fail("tried again"))
    with pytest.warns(UserWarning):
        compile_a_step()


def test_a_torch_that_fails_is_refused_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tries: list[str] = []

    def fails() -> str:
        tries.append("")
        return "FitstepError: weight differs after step 2"

    monkeypatch.setattr(newer_torch, "fault_of_trial", fails)
    for _ in range(2):
        with pytest.raises(fitstep.FitstepError) as caught:
            compile_a_step()
    said = str(caught.value)
    assert "the self-test failed: FitstepError: weight differs after step 2" in said
    assert "pip install 'torch==2.15.*'" in said
    assert len(tries) == 2
    assert not list(tmp_path.glob("tried-*"))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "raise SystemExit('b\\nfitstep.errors.FitstepError: x')",
            "fitstep.errors.FitstepError: x",
        ),
        ("import os; os.abort()", "it ended with code -6"),
    ],
)
def test_the_trial_tells_what_went_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, said: str
) -> None:
    package = tmp_path / "fitstep"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "self_test.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert newer_torch.fault_of_trial() == said
