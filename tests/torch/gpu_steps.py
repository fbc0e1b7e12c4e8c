"""Trains on a stand-in for a GPU, with plain PyTorch and with compiled steps; says what differed.

    LD_PRELOAD=build/dev/gpu_stand_in.so python tests/torch/gpu_steps.py FOLDER [CASE ...]

FOLDER has the module _cuda. One line of JSON: {case: {"differs": [...], "report": ...}}; a case
that raised has "error".
"""

import itertools
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fitstep.memory.device import open_device
from fitstep_kit.offloaded_plan import offloaded, with_peak
from gpu_codes import quick_codes
from gpu_packing import GPU, bytes_of, packing
from torch import Tensor, nn

import fitstep

STEPS = 4


class Net(nn.Module):
    """A few kinds of layers, with running statistics, dropout and a pool."""

    def __init__(self, *, drops: bool = True) -> None:
        super().__init__()
        last = nn.Dropout(0.2) if drops else nn.Tanh()
        wide = [[nn.Linear(96, 96), nn.ReLU(), last] for _ in range(6)]
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 6, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(24, 96),
            *itertools.chain(*wide), nn.LayerNorm(96), nn.Linear(96, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.layers(x)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p),
    "fused": lambda p: torch.optim.AdamW(p, fused=True),
}


def Still() -> Net:
    """The same without random numbers."""
    return Net(drops=False)


class Wide(nn.Module):
    """Most of its bytes are weights."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (48, 256, 256, 256, 10)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


class Sparse(nn.Module):
    """What its backward needs is half zeros."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (48, *[96] * 6)
        pairs = [[nn.Linear(a, b), nn.ReLU()] for a, b in itertools.pairwise(sizes)]
        self.layers = nn.Sequential(nn.Flatten(), *itertools.chain(*pairs), nn.Linear(96, 10))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.layers(x)


class Wider(nn.Module):
    """Convolutions, whose workspaces are most of what a step needs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 5, 3, padding=1), nn.Tanh(), nn.Conv2d(5, 7, 3, padding=1), nn.Tanh(),
            nn.Conv2d(7, 8, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(128, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.layers(x)


class Training:
    """A model, its optimizer and a step function, all on the GPU."""

    def __init__(self, optimizer: str, make: Callable[[], nn.Module] = Net) -> None:
        torch.manual_seed(1)
        self.model = make().to(GPU)
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """One training step; data may come from the CPU."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x.to(GPU)), y.to(GPU))
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def bits(self) -> dict[str, bytes]:
        """All that it has learnt."""
        found = {name: bytes_of(tensor) for name, tensor in self.model.state_dict().items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            for name, value in state.items():
                if isinstance(value, Tensor):
                    found[f"{name} of {i}"] = bytes_of(value)
        return found


def batches(device: str) -> list[tuple[Tensor, Tensor]]:
    """Others in each step."""
    torch.manual_seed(2)
    return [
        (torch.randn(64, 3, 4, 4).to(device), torch.randint(0, 10, (64,)).to(device))
        for _ in range(STEPS)
    ]


def differences(ours: Training, plain: Training) -> list[str]:
    """Names of what is not the same bits."""
    a, b = ours.bits(), plain.bits()
    return sorted(name for name in {*a, *b} if a.get(name) != b.get(name))


def since(make: Callable[[], nn.Module], optimizer: str, ours: Training) -> list[str]:
    """What a compile that failed has changed, by a plain step behind it."""
    other = Training(optimizer, make)
    for training in (ours, other):
        torch.manual_seed(3)
        training.step(*batches("cuda")[0])
    return differences(ours, other)


def train(
    optimizer: str, device: str, make: Callable[[], nn.Module] = Net, **settings: Any
) -> dict[str, Any]:
    """Both ways, from the same start."""
    data = batches(device)
    plain, ours = Training(optimizer, make), Training(optimizer, make)
    torch.manual_seed(3)
    losses = [bytes_of(plain.step(*batch)) for batch in data]
    torch.manual_seed(3)
    try:
        step = fitstep.compile(ours.step, data[0], progress=False, **settings)
    except Exception as error:
        return {
            "error": f"{type(error).__name__}: {error}",
            "differs": since(make, optimizer, ours),
        }
    differs = [f"loss {i}" for i, batch in enumerate(data) if bytes_of(step(*batch)) != losses[i]]
    differs += differences(ours, plain)
    report = asdict(step.report())
    kept = ("violations", "unforeseen_requests", "misplaced_results")
    kept += ("evicted_bytes", "disk_written_bytes", "host_pageable")
    found = {name: report[name] for name in kept}
    found["coded_copies"] = len(report["variants"][-1]["coded_copies"])
    found["host_tier_bytes"] = report["variants"][-1]["host_tier_bytes"]
    for name in ("recomputed_ops", "graph_runs", "graph_refusal"):
        found[name] = report["variants"][-1][name]
    with torch.no_grad():  # Between steps everything is an ordinary tensor.
        ours.model.eval()(data[0][0].to(GPU))
        plain.model.eval()(data[0][0].to(GPU))
    copied = {name: tensor.clone() for name, tensor in ours.model.state_dict().items()}
    step.close()
    differs += [f"closed: {name}" for name in differences(ours, plain)]
    ours.model.load_state_dict(copied)
    ours.model.train()
    plain.model.train()
    torch.manual_seed(4)
    losses = [bytes_of(plain.step(*data[0]))]
    torch.manual_seed(4)
    if [bytes_of(ours.step(*data[0]))] != losses:
        differs.append("a plain step after close()")
    return {"differs": differs, "report": found}


def coded() -> dict[str, Any]:
    """By a plan that evicts all that has a gap to a disk, in codes by turns."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "coded.plan")
        below: dict[str, Any] = {"disk_budget": "900%", "disk_dir": folder}
        training, data = Training("sgd", Still), batches("cuda")
        step = fitstep.compile(training.step, data[0], "900%", policy="none", progress=False)
        for batch in data[:2]:
            step(*batch)
        codes = ("none", "zero_value", "zstd")
        text = offloaded(str(step.plan), tiers=(2,), codes=codes, alignment_bytes=512)
        step.close()
        path.write_text(text)
        training = Training("sgd", Still)
        try:
            fitstep.compile(training.step, data[0], "900%", plan=path, progress=False, **below)
        except fitstep.PlanFileError as error:
            peak = re.search(r"the plan's peak is (\d+)", str(error))
            assert peak is not None, error
            path.write_text(with_peak(text, int(peak[1])))
        return train("sgd", "cuda", Still, budget="900%", plan=path, **below)


def coded_on_the_host(*, cuda_graph: bool) -> dict[str, Any]:
    """By kernels."""
    with quick_codes():
        return train(
            "sgd", "cuda", Sparse, budget="70%", policy="offload", host_budget="100%",
            host_codes=True, cuda_graph=cuda_graph,
        )  # fmt: skip


def codes_given_up() -> dict[str, Any]:
    """A larger batch needs a larger host tier: copies in codes before and after it, if any are."""
    plain, ours = Training("sgd", Still), Training("sgd", Still)
    data = batches("cuda")
    large = (torch.cat([data[0][0]] * 3), torch.cat([data[0][1]] * 3))
    below: dict[str, Any] = {"policy": "layrub", "host_budget": "900%", "host_codes": True}
    counts, differs = [], []
    with quick_codes():
        step = fitstep.compile(ours.step, data[0], "900%", progress=False, **below)
        for i, batch in enumerate((*data, large, data[0])):
            if bytes_of(step(*batch)) != bytes_of(plain.step(*batch)):
                differs.append(f"loss {i}")
            counts.append(sum(len(one.coded_copies) for one in step.report().variants))
    report = {"violations": 0, "before": counts[STEPS - 1], "after": counts[-1]}
    return {"differs": differs + differences(ours, plain), "report": report}


def less_scratch() -> dict[str, Any]:
    """At the least budget, then where there is room for every workspace: what the first step has
    made PyTorch keep, the second gets."""
    data = batches("cuda")
    try:
        fitstep.compile(Training("sgd", Wider).step, data[0], 1, progress=False)
    except fitstep.BudgetTooSmall as error:
        least = error.least_found_bytes
    found = train("sgd", "cuda", Wider, budget=least)
    roomy = train("sgd", "cuda", Wider, budget="400%")
    step = fitstep.compile(Training("sgd", Wider).step, data[0], least, progress=False)
    runs = json.loads(str(step.plan))["compute"]
    found["report"]["other_forms"] = sum("form" in run for run in runs)
    found["report"]["least_bytes"] = least
    offered = re.findall(r"within (\d+) bytes", str(step.program))
    found["offered_bytes"] = sorted({int(n) for n in offered})
    found["roomy"] = roomy
    step.close()
    return found


def outside() -> dict[str, Any]:
    """What the GPU holds beside tensors, when a budget is shared out and after some steps."""
    training, data = Training("adamw"), batches("cuda")
    counts = [torch.zeros((), device=device) for device in ("cpu", "cuda")]

    def counted(x: Tensor, y: Tensor) -> Tensor:
        for count in counts:
            count.add_(1)
        return training.step(x, y)

    step = fitstep.compile(counted, data[0], "100%", progress=False)
    calls = re.findall(r'"(aten::add_\.Tensor\(#0 Float\[\].*)"', str(step.program))
    for batch in data:
        step(*batch)
    planned = step.report().outside_bytes
    grown = open_device(GPU).outside_bytes() - planned
    report = {"violations": 0, "outside": planned, "grown": grown, "counting": sorted({*calls})}
    return {"differs": [], "report": report}


def learning_rates() -> dict[str, Any]:
    """Numbers that change now and then."""
    plain, ours = Training("sgd", Still), Training("sgd", Still)
    data = batches("cuda")
    step = fitstep.compile(ours.step, data[0], "100%", progress=False, cuda_graph=True)
    differs = []
    for i, rate in enumerate([0.1] * 4 + [0.05] * 4 + [0.1] * 2):
        for training in (plain, ours):
            training.optimizer.param_groups[0]["lr"] = rate
        batch = data[i % STEPS]
        if bytes_of(step(*batch)) != bytes_of(plain.step(*batch)):
            differs.append(f"loss {i}")
    last = step.report().variants[-1]
    report = {"violations": 0, "graph_runs": last.graph_runs, "graph_refusal": last.graph_refusal}
    return {"differs": differs + differences(ours, plain), "report": report}


def states() -> dict[str, Any]:
    """Who asks for the generator's state finds it as it is when all before has been drawn."""
    training, data, real = Training("sgd"), batches("cuda"), torch.cuda.get_rng_state
    runs, compiled = list[int](), list[Any]()
    torch.cuda.get_rng_state = lambda *_: runs.append(step_runs())  # type: ignore[assignment]

    def asking(x: Tensor, y: Tensor) -> Tensor:
        drawn = torch.rand(4, device="cuda")
        torch.cuda.get_rng_state()
        return training.step(x, y) + 0 * drawn.sum()

    def step_runs() -> int:
        return sum(one.runs for one in compiled[0].report().variants) if compiled else 0

    step = fitstep.compile(asking, data[0], progress=False)
    compiled, runs[:] = [step], []
    for batch in data:
        step(*batch)
    torch.cuda.get_rng_state = real
    return {"differs": [runs] if runs != [1, 3, 5, 7] else [], "report": {"violations": 0}}


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """By name."""
    for optimizer, budget in itertools.product(OPTIMIZERS, ("100%", "80%")):
        yield (
            f"{optimizer} at {budget}",
            lambda o=optimizer, b=budget: train(o, "cuda", budget=b),
        )
    yield "packing operators", packing
    yield "generators", states
    yield "sgd recomputing", lambda: train("sgd", "cuda", budget="80%", policy="recompute")
    yield "data from the CPU", lambda: train("sgd", "cpu", budget="80%")
    for optimizer in ("sgd", "adamw"):
        yield (
            f"{optimizer} offloading",
            lambda o=optimizer: train(
                o, "cuda", budget="60%", policy="offload", host_budget="100%"
            ),
        )
    for optimizer in ("sgd", "adamw"):
        yield (
            f"{optimizer} with weights beside the GPU",
            lambda o=optimizer: train(o, "cuda", Wide, budget="70%", host_budget="64MiB"),
        )
    for optimizer in ("sgd", "fused", "adamw"):
        yield (
            f"{optimizer} in a graph",
            lambda o=optimizer: train(
                o, "cuda", Still, budget="80%", policy="recompute", cuda_graph=True
            ),
        )
    yield (
        "offloading in a graph",
        lambda: train(
            "sgd", "cuda", Still,
            budget="70%", policy="offload", host_budget="100%", cuda_graph=True,
        ),
    )  # fmt: skip
    yield "codes on a disk", coded
    yield "codes on the host", lambda: coded_on_the_host(cuda_graph=False)
    yield "codes on the host in a graph", lambda: coded_on_the_host(cuda_graph=True)
    yield "codes given up", codes_given_up
    yield "less scratch", less_scratch
    yield "outside", outside
    below = {"policy": "vdnn-all-m", "host_budget": "300%"}
    yield "homes stay", lambda: train("sgd", "cuda", Still, budget="300%", **below, cuda_graph=True)
    yield "dropout in a graph", lambda: train("sgd", "cuda", budget="80%", cuda_graph=True)
    yield "learning rates in a graph", learning_rates
    disk = {"policy": "offload", "disk_budget": "300%", "disk_dir": tempfile.gettempdir()}
    yield "sgd with a disk", lambda: train("sgd", "cuda", budget="70%", **disk)


def main(folder: str, *wanted: str) -> None:
    """All cases, or those that are named. The stand-in registers some kernels of PyTorch's."""
    torch.cuda._lazy_init = lambda: None  # There is nothing to initialise.
    fitstep.__path__.append(folder)
    fitstep.declare_pure("aten::copy_", "aten::_slow_conv2d_forward", "aten::_slow_conv2d_backward")
    found: dict[str, Any] = {}
    for name, case in (one for one in cases() if not wanted or one[0] in wanted):
        try:
            found[name] = case()
        except Exception as error:
            traceback.print_exc()
            found[name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(found), flush=True)
    os._exit(0)  # PyTorch's threads of backwards sometimes abort an exit: one in a hundred did.


if __name__ == "__main__":
    main(*sys.argv[1:])
