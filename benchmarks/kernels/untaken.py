"""Ways that plans do not take: weights copied, batches split, scratch that no cache has.

    python benchmarks/run.py untaken [--small]

Weights. Layers of ResNet-50 and of a transformer, with the weight as it is and with a copy of it in
the other memory format: whether results, strides and gradients are the same, and the time of the
second over the first, forward and backward, medians over rounds in which both take turns.

Batches. The same convolutions, all images at once and in two halves, whose results stay apart (to
put them together would take a copy, which is not counted): bits, times, and what the kernels ask
for beside their result. The gradient of the weight is a sum over all images and is not asked for.
And what plans of whole trainings would gain by such halves: floors and predicted times.

Scratch. The same plan twice, of a step at 100 %: as the layout has it, and with every block of
scratch at an address that nothing has touched for as long as the region beside the arena is large,
so that no cache has it. Time of the second over the first: what keeping scratch in the cache would
be worth, were it not there.
"""

import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fitstep_kit import models
from fitstep_kit.offloaded_plan import printed
from torch import Tensor

import fitstep
from benchmarks.kernels import in_halves
from benchmarks.output import MIB, Row, arguments, save, show

LAST = torch.channels_last
# Channels in and out, kernel, side: of ResNet-50.
CONVOLUTIONS = (
    (64, 64, 3, 56), (64, 256, 1, 56), (256, 64, 1, 56), (128, 128, 3, 28), (256, 256, 3, 14),
    (512, 512, 3, 7), (512, 2048, 1, 7), (2048, 512, 1, 7),
)  # fmt: skip
# Rows, features in and out: of a transformer, an LSTM and a small MLP.
PRODUCTS = (
    (4096, 512, 512),
    (4096, 512, 2048),
    (4096, 2048, 512),
    (640, 1024, 4096),
    (64, 784, 256),
)
WITH_PLANES = ("resnet50_16_nchw", "vgg16", "unet")
ALIGNMENT = 64
REGION_BYTES = 1024 * MIB


def ratio(first: Callable[[], object], second: Callable[[], object], rounds: int) -> float:
    """Median of the second's time over the first's; they take turns, and turns in going first."""
    found = []
    for i in range(rounds + 1):
        times = {}
        for way in (first, second)[:: 1 if i % 2 else -1]:
            start = time.perf_counter()
            way()
            times[way] = time.perf_counter() - start
        found.append(times[second] / times[first])
    return statistics.median(found[1:])


def is_same(a: Tensor, b: Tensor) -> bool:
    return a.stride() == b.stride() and torch.equal(a, b)


def convolution(shape: tuple[int, int, int, int], is_last: bool, rounds: int) -> Row:
    """One layer whose input has planes one after another, or channels last."""
    channels, made, kernel, side = shape
    x = torch.randn(16, channels, side, side)
    weight = torch.randn(made, channels, kernel, kernel)
    copy = torch.empty_strided(
        weight.shape, (kernel * kernel * channels, 1, kernel * channels, channels)
    ).copy_(weight)
    x = x.contiguous(memory_format=LAST) if is_last else x
    results = [F.conv2d(x, w, None, 1, kernel // 2) for w in (weight, copy)]
    gradient = torch.randn_like(results[0])

    def back(w: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
            gradient, x, w, None, [1, 1], [kernel // 2] * 2, [1, 1], False, [0, 0], 1,
            [True, True, False],
        )  # fmt: skip
        return found[:2]

    gradients = [back(w) for w in (weight, copy)]
    forward = ratio(
        lambda: F.conv2d(x, weight, None, 1, kernel // 2),
        lambda: F.conv2d(x, copy, None, 1, kernel // 2),
        rounds,
    )
    return {
        "case": name_of(shape, is_last),
        "equal bits": is_same(*results) and all(map(is_same, *gradients)),
        "forward": forward,
        "backward": ratio(lambda: back(weight), lambda: back(copy), rounds),
    }


def name_of(shape: tuple[int, int, int, int], is_last: bool) -> str:
    channels, made, kernel, side = shape
    how = "channels last" if is_last else "planes"
    return f"convolution {channels} to {made}, {kernel}x{kernel}, side {side}, {how}"


def product(shape: tuple[int, int, int], rounds: int) -> Row:
    """One linear layer."""
    rows, features, made = shape
    x, gradient = torch.randn(rows, features), torch.randn(rows, made)
    bias, weight = torch.randn(made), torch.randn(made, features)
    copy = weight.t().contiguous().t()
    ways = [lambda w=w: torch.addmm(bias, x, w.t()) for w in (weight, copy)]
    back = [lambda w=w: gradient.mm(w) for w in (weight, copy)]
    return {
        "case": f"linear {features} to {made}, {rows} rows",
        "equal bits": is_same(*(way() for way in ways)) and is_same(*(way() for way in back)),
        "forward": ratio(*ways, rounds),
        "backward": ratio(*back, rounds),
    }


class Training:
    """A ResNet, channels last."""

    def __init__(self, depth: int, batch: int, side: int) -> None:
        torch.manual_seed(0)
        net = models.resnet18 if depth == 18 else models.resnet50
        self.model = net(10).to(memory_format=LAST)
        self.x = torch.randn(batch, 3, side, side).contiguous(memory_format=LAST)
        self.y = torch.randint(0, 10, (batch,))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss


def requests_of(program: str) -> list[list[list[tuple[int, bool]]]]:
    """By op and form: bytes of each request, and whether it becomes a result."""
    ops: list[list[list[tuple[int, bool]]]] = []
    for line in program.splitlines():
        if line.startswith("op "):
            ops.append([])
        if line.startswith("form "):
            found = re.findall(r" (\d+)@\d+-\d+(=\d+)?", line.partition(" requests")[2])
            ops[-1].append([(int(size), bool(result)) for size, result in found])
    return ops


def cold(plan: str, program: str) -> tuple[str, int, int]:
    """The plan with its scratch going round beside the arena; its height; the bytes of scratch."""
    made: dict[str, Any] = json.loads(plan)
    ops = requests_of(program)
    first = -(-made["certificate"]["height_bytes"] // ALIGNMENT) * ALIGNMENT
    at = moved = top = 0
    for action in made["compute"]:
        requests = action.get("requests", [])
        of = ops[action["run"]][action.get("form", 0)] if requests else []
        for i, (size, is_result) in enumerate(of):
            if is_result or requests[i] < 0:
                continue
            at = 0 if at + size > REGION_BYTES else at
            requests[i] = first + at
            top, moved = max(top, at + size), moved + size
            at += -(-size // ALIGNMENT) * ALIGNMENT
    made["certificate"] |= {"height_bytes": first + top, "capacity_bytes": first + top}
    return printed(made), first + top, moved


def scratch(name: str, shape: tuple[int, int, int], rounds: int, folder: Path) -> Row:
    """One training, by both plans."""
    ours, others = Training(*shape), Training(*shape)
    as_planned = fitstep.compile(ours.step, (ours.x, ours.y), budget="100%")
    as_planned.plan.save(folder / "plan")
    program = next(reversed(as_planned._variants.values()))[-1].step.text()
    text, height_bytes, moved_bytes = cold((folder / "plan").read_text(), program)
    (folder / "cold").write_text(text)
    budget = height_bytes + 512 * MIB
    as_moved = fitstep.compile(
        others.step, (others.x, others.y), budget=budget, plan=folder / "cold"
    )
    found = ratio(lambda: as_planned(ours.x, ours.y), lambda: as_moved(others.x, others.y), rounds)
    for step in (as_planned, as_moved):
        step.close()
    return {"case": name, "scratch": f"{moved_bytes / MIB:.0f} MiB a step", "cold / planned": found}


def main() -> None:
    """Prints and saves both tables."""
    args = arguments(__doc__).parse_args()
    rounds = 1 if args.small else 15
    torch.manual_seed(0)
    layers = [
        (shape, is_last)
        for is_last in (False, True)
        for shape in (CONVOLUTIONS[:1] if args.small else CONVOLUTIONS)
    ]
    weights = [convolution(*layer, rounds) for layer in layers]
    split = [
        {"case": name_of(*it)} | in_halves.layer(*it, rounds=rounds, ratio=ratio) for it in layers
    ]
    weights += [product(shape, rounds) for shape in (PRODUCTS[-1:] if args.small else PRODUCTS)]
    with tempfile.TemporaryDirectory() as name:
        cases = {"resnet-18, 32 of 64x64": (18, 32, 64), "resnet-50, 16 of 224x224": (50, 16, 224)}
        moved = [
            scratch(case, shape, rounds, Path(name))
            for case, shape in list(cases.items())[: 1 if args.small else 2]
        ]
        of_steps = [in_halves.plans(step, args.small, Path(name)) for step in WITH_PLANES]
    for title, rows in (
        ("a copy of the weight in the other format, over the weight as it is", weights),
        ("all images in two halves, over all at once", split),
        ("plans with convolutions in halves, over those without", of_steps),
        ("scratch that no cache has, over scratch as planned", moved),
    ):
        show(title, [{k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items()}
                     for row in rows])  # fmt: skip
    save(
        "untaken",
        {"weights": weights, "batches": split, "plans": of_steps, "scratch": moved},
        args.small,
    )


if __name__ == "__main__":
    main()
