"""Captures steps of models on the CPU as if they were on a GPU; prints their programs as JSON.

    LD_PRELOAD=build/dev/gpu_stand_in.so python tests/torch/gpu_capture.py

Every fake is one of a GPU's tensor, so that PyTorch's own rules for devices, its autograd and the
optimizers do on them what they do there. No kernel runs, nothing is measured. {name: {device:
[[plain peak in bytes, op, ...] of the first step, of the steady step]}}
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from fitstep.api import _reach_finder
from fitstep.profile_cache import ProfileCache
from fitstep.session import Session
from fitstep.settings import Settings
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_flatten

from fitstep import _core, variants


class OnGpu(FakeTensorMode):
    """Its fakes of real tensors are on a GPU."""

    def from_tensor(self, tensor: Tensor, **_: Any) -> Any:
        """One fake for each tensor."""
        made: dict[int, tuple[Tensor, Tensor]] = self.__dict__.setdefault("made", {})
        if id(tensor) not in made:
            with self:
                fake = torch.empty_strided(
                    tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda"
                )
            fake.requires_grad_(tensor.requires_grad)
            if isinstance(tensor, nn.Parameter):
                fake = nn.Parameter(fake, tensor.requires_grad)
            made[id(tensor)] = (tensor, fake)
        return made[id(tensor)][1]


def captured(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, Tensor]
) -> list[list[Any]]:
    """The programs of a step: the plain peak of each, and its ops in order."""

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(1), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    find_reach = _reach_finder(step, model, optimizer)
    session = Session(Settings("100%"))
    maker = variants.VariantMaker(step, find_reach, session, ProfileCache(), False)
    leaves, spec = tree_flatten((batch, {}))
    found = maker.capture(leaves, spec, ahead=True).variants
    return [
        [v.step.plain_peak_bytes(), *(v.step.op(i)[0] for i in range(v.step.op_count()))]
        for v in found
    ]


def cases() -> dict[str, Callable[[], list[list[Any]]]]:
    """Models with optimizers whose state is on the model's device, and one whose step is not."""

    def net() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Dropout(0.5),
            nn.Flatten(), nn.Linear(8 * 16, 10),
        )  # fmt: skip

    batch = (torch.randn(4, 3, 8, 8), torch.arange(4))
    optimizers: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
        "sgd with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
        "fused adamw": lambda p: torch.optim.AdamW(p, fused=True),
        "adam": lambda p: torch.optim.Adam(p, foreach=False),
    }

    def case(make: Callable[[Any], torch.optim.Optimizer]) -> list[list[Any]]:
        model = net()
        return captured(model, make(model.parameters()), batch)

    return {name: partial(case, make) for name, make in optimizers.items()}


def main() -> None:
    """Both devices, one after the other."""

    def lower(_: Any, recorder: Any, __: Any) -> Any:
        return _core.lower(recorder)  # Without measuring: no kernel can run.

    found: dict[str, Any] = {}
    with mock.patch.object(ProfileCache, "lower", lower):
        for name, case in cases().items():
            cpu = case()
            with mock.patch.object(variants, "FakeTensorMode", OnGpu):
                found[name] = {"cpu": cpu, "gpu": case()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
