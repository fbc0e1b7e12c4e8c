"""Recomputing a batch normalisation without its running statistics: compared with the layer's own
results, also where the profile knows the form from elsewhere."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import fitstep

FORM = "without running statistics"


def compiled(is_first_without: bool) -> fitstep.Step:
    """Two layers of the same geometry, one without statistics: its own call is the other's form."""
    torch.manual_seed(1)
    norms = [nn.BatchNorm2d(4, track_running_stats=tracks) for tracks in (False, True)]
    first, second = norms if is_first_without else reversed(norms)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), first, nn.Conv2d(4, 4, 1), second)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        model.zero_grad()
        return loss

    return fitstep.compile(step, example=(torch.randn(2, 3, 8, 8),), budget="100%")


def program_of(step: fitstep.Step, folder: Path) -> str:
    step.program.save(folder / "step.program")
    step.close()
    return (folder / "step.program").read_text()


@pytest.mark.parametrize("is_first_without", [True, False])
def test_a_form_that_is_known_as_another_call_is_compared_too(
    is_first_without: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FITSTEP_CACHE", str(tmp_path))
    assert FORM in program_of(compiled(is_first_without), tmp_path)
    (file,) = tmp_path.glob("profile-*.json")
    content = json.loads(file.read_text())
    (claim,) = (key for key in content["calls"] if key.startswith("pure "))
    assert claim.count("native_batch_norm") == 2, "the layer's call and its form"

    content["calls"][claim] += "\npure"  # As if the bits had differed.
    file.write_text(json.dumps(content))
    assert FORM not in program_of(compiled(is_first_without), tmp_path)
