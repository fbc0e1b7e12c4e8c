"""Small trainings whose plans evict everything that has a gap: to a host tier or to a disk's.

plan = offloaded_plan(mlp, path, (2,), disk_budget="900%")
step = compiled(mlp(), "900%", plan=plan, disk_budget="900%")
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import fitstep
from fitstep_kit.measures.bits import Fingerprint, fingerprint
from fitstep_kit.offloaded_plan import offloaded, with_peak

STEPS = 4


class Job:
    """A model, an optimizer and a batch; two jobs of a kind have equal bits."""

    def __init__(self, make: Callable[[], nn.Module], x: Tensor, classes: int) -> None:
        torch.manual_seed(5)
        self.model = make()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.x = x
        self.y = torch.randint(0, classes, (len(x),))

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, step: Callable[..., Tensor], steps: int = STEPS) -> Fingerprint:
        torch.manual_seed(6)
        losses = [step(self.x, self.y).detach().clone() for _ in range(steps)]
        return fingerprint(
            model=self.model,
            optimizer=self.optimizer,
            losses=losses,
            random=torch.get_rng_state(),
        )


def mlp() -> Job:
    """Six wide layers with dropout."""

    def make() -> nn.Module:
        layers: list[nn.Module] = []
        for _ in range(6):
            layers += [nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1)]
        return nn.Sequential(*layers)

    return Job(make, torch.linspace(-1, 1, 256 * 64).reshape(256, 64), 64)


class Gpt(nn.Module):
    """Two causal layers over 32 tokens, of 64 words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(64, 48)
        layer = nn.TransformerEncoderLayer(48, 4, 96, 0.1, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(48, 64)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(32))

    def forward(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self.layers(self.words(tokens), mask=self.mask, is_causal=True)
        predicted: Tensor = self.out(hidden.mean(1))
        return predicted


def gpt() -> Job:
    """A batch of 16 texts."""
    return Job(Gpt, torch.arange(16 * 32).reshape(16, 32) * 7 % 64, 64)


def conv() -> Job:
    """Convolutions with batch norm, on 8 small images."""

    def make() -> nn.Module:
        layers: list[nn.Module] = []
        for channels, wider in ((3, 8), (8, 8), (8, 16), (16, 16)):
            layers += [nn.Conv2d(channels, wider, 3, padding=1), nn.BatchNorm2d(wider), nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))

    return Job(make, torch.linspace(-1, 1, 8 * 3 * 24 * 24).reshape(8, 3, 24, 24), 10)


JOBS = {"mlp": mlp, "gpt": gpt, "conv": conv}


def offloaded_plan(
    make: Callable[[], Job],
    path: Path,
    tiers: tuple[int, ...] = (1,),
    codes: tuple[str, ...] = ("none",),
    **below: Any,
) -> Path:
    """A verified plan for such a job that evicts whatever has a gap to these tiers, by turns, in
    these codes, by turns. `below`: the options of compile that give it the tiers."""
    below = below or {"host_budget": "900%"}
    job = make()
    step = fitstep.compile(job.step, (job.x, job.y), "900%", policy="none", effort=1)
    job.train(step, 2)
    text = offloaded(str(step.plan), tiers=tiers, codes=codes)
    step.close()
    path.write_text(text)
    peak = re.search(r"the plan's peak is (\d+)", _refusal(make(), path, **below))
    assert peak is not None
    path.write_text(with_peak(text, int(peak[1])))
    return path


def _refusal(job: Job, path: Path, **below: Any) -> str:
    """What compile says of the peak in the plan's certificate, which is another plan's."""
    try:
        compiled(job, "900%", plan=path, **below)
    except fitstep.PlanFileError as refused:
        return str(refused)
    raise AssertionError("a plan with another plan's peak was not refused")


def compiled(job: Job, budget: int | str, **options: Any) -> fitstep.Step:
    return fitstep.compile(job.step, (job.x, job.y), budget, effort=1, **options)
