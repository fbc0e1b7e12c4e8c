"""Trainings of `make gpu-check` on the GPU, in a process of their own: rows as JSON lines.

    PYTHONPATH=python python -m benchmarks.gpu.trainings PART [small]

PART is a name in PARTS. A row has its `case`, what was seen and, where that can be wrong, whether
it is `good`. Peaks are the driver's own figure, sampled by a thread: all that the GPU holds, less
what it held before the training was built.
"""

import gc
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from fitstep.memory.device import open_device
from fitstep_kit.measures.bits import differences, fingerprint
from fitstep_kit.models import GPT, resnet50
from fitstep_kit.models.vgg import vgg19
from torch import Tensor, nn

import fitstep
from benchmarks.steps.rivals import install
from benchmarks.steps.workloads import Workload, build

Row = dict[str, Any]
GPU = torch.device("cuda", 0)
MIB, GIB = 1 << 20, 1 << 30
SHARES = (1.0, 0.7, 0.5, 0.3, 0.2)
RIVALS = ("checkpoint:1", "save_on_cpu", "memory_budget:0.5")
WARM, ROUNDS = 3, 10


def on_gpu(workload: Workload) -> Workload:
    """Moves it there; its optimizer has no state yet."""
    workload.model.to(GPU)
    workload.batches = [(x.to(GPU), y.to(GPU)) for x, y in workload.batches]
    return workload


def used_bytes() -> int:
    """What the driver says that the GPU holds, with what PyTorch keeps for later given back."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return total - free


class DriverPeak:
    """The most that the driver says while it is in use."""

    def __init__(self) -> None:
        self.begin_bytes = self.most_bytes = used_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            free, total = torch.cuda.mem_get_info()
            self.most_bytes = max(self.most_bytes, total - free)

    def __enter__(self) -> "DriverPeak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def growth(self) -> int:
        """Bytes beyond those of the start."""
        return self.most_bytes - self.begin_bytes


def seconds_of(step: Callable[[], Any]) -> float:
    """Of one step, until the GPU has done all of it."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def bits(small: bool) -> Iterator[Row]:
    """Equal bits over models, policies and budgets, with deterministic kernels."""
    del small
    torch.use_deterministic_algorithms(True, warn_only=True)
    settings: tuple[Row, ...] = (
        {"budget": "100%"},
        {"budget": "60%"},
        {"budget": "60%", "policy": "recompute", "cuda_graph": True},
        {"budget": "50%", "host_budget": "200%"},
        {"budget": "60%", "policy": "offload", "host_budget": "200%"},
        {"budget": "60%", "policy": "offload", "host_budget": "200%", "host_codes": True},
    )
    own = json.loads(open_device(GPU).measure_codecs(1, MIB))["codecs"][-1]
    rates = [own[f"{way}_bytes_per_s"] / 1e9 for way in ("encode", "decode")]
    seen = "kernels encode {:.0f} and decode {:.0f} GB/s".format(*rates)
    yield {"case": own["name"], "seen": f"{seen}, ops beside: {own['compute_slowdown']:.2f} times"}
    for name in ("mlp", "unet", "gpt", "resnet50_nchw", "resnet50_channels_last", "lstm"):
        for chosen in settings:
            row: Row = {"case": f"{name}, {', '.join(f'{k}={v}' for k, v in chosen.items())}"}
            plain, ours = on_gpu(build(name, True)), on_gpu(build(name, True))
            try:
                step = fitstep.compile(ours.train_step, ours.batch(0), progress=False, **chosen)
            except fitstep.BudgetTooSmall as error:
                yield row | {"seen": f"no plan: {error.floor_bytes / MIB:.1f} MiB is the floor"}
                continue
            except Exception as error:
                yield row | {"seen": str(error).splitlines()[0], "good": False}
                continue
            for run in (plain.train_step, step):
                torch.manual_seed(2)
                for i in range(4):  # The last two in a graph, where there is one.
                    run(*plain.batch(i))
            a, b = (fingerprint(model=w.model, optimizer=w.optimizer) for w in (ours, plain))
            report = step.report()
            missed, coded = report.violations, len(report.variants[-1].coded_copies)
            step.close()
            different = differences(a, b)
            yield row | {
                "seen": f"{len(a)} tensors, {len(different)} differ, {missed} violations, "
                f"{coded} copies in codes",
                "good": not different and not missed,
            }


class Contender:
    """One way to run a training: what it needs, and what its steps take."""

    def __init__(self, name: str, how: str, small: bool, budget_bytes: int = 0) -> None:
        self.seconds: list[float] = []
        with DriverPeak() as peak:
            self.workload = on_gpu(build(name, small))
            del self.workload.batches[1:]
            if how == "fitstep":
                self.step: Any = fitstep.compile(
                    self.workload.train_step, self.workload.batch(0), budget_bytes,
                    host_budget="32GiB", progress=False,
                )  # fmt: skip
            elif how == "save_on_cpu":
                self.step = self._saving_on_cpu
            else:
                install(self.workload, how)
                self.step = self.workload.train_step
            for _ in range(WARM):
                self.step(*self.workload.batch(0))
            torch.cuda.synchronize()
        self.peak_bytes = peak.growth()
        self.most_bytes = peak.most_bytes

    def _saving_on_cpu(self, *batch: Tensor) -> Tensor:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return self.workload.train_step(*batch)

    def turn(self) -> None:
        """One more step, timed."""
        self.seconds.append(seconds_of(lambda: self.step(*self.workload.batch(0))))

    def close(self) -> None:
        """Gives its memory back."""
        if isinstance(self.step, fitstep.Step):
            self.step.close()
        del self.step, self.workload
        gc.collect()


def step_time(name: str, small: bool) -> Iterator[Row]:
    """Plain PyTorch beside fitstep at shares of its peak, and beside what else needs less, in
    turns. Shares are of the bytes that plain PyTorch adds to what the GPU holds anyway."""
    outside_bytes = open_device(GPU).outside_bytes()
    plain = Contender(name, "plain", small)
    others: list[tuple[str, str, int]] = [
        (f"fitstep at {share:.0%}", "fitstep", int(plain.peak_bytes * share) + outside_bytes)
        for share in SHARES
    ]
    others += [(rival, rival, 0) for rival in RIVALS]
    for case, how, budget_bytes in others:
        row: Row = {"case": f"{name}, {case}"}
        try:
            other = Contender(name, how, small, budget_bytes)
        except Exception as error:
            yield row | {"seen": str(error).splitlines()[0]}
            gc.collect()
            continue
        if how == "fitstep":
            row["good"] = other.peak_bytes <= budget_bytes - outside_bytes
        plain.seconds.clear()
        for _ in range(ROUNDS):
            plain.turn()
            other.turn()
        of_plain = statistics.median(other.seconds) / statistics.median(plain.seconds)
        yield row | {
            "peak MiB": round(other.peak_bytes / MIB),
            "of plain's": round(other.peak_bytes / plain.peak_bytes, 3),
            "s": round(statistics.median(other.seconds), 5),
            "plain s": round(statistics.median(plain.seconds), 5),
            "time of plain's": round(of_plain, 3),
        }
        other.close()


def _trained(make: Callable[[], tuple[Any, Any, Any]], budget_bytes: int = 0) -> Row:
    """Three steps of a classifier or a language model, plain or in a budget."""
    with DriverPeak() as peak:
        model, optimizer, batch = make()

        def train_step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
            loss.backward()
            optimizer.step()
            return loss

        step: Any = train_step
        if budget_bytes:
            step = fitstep.compile(
                train_step, batch, budget_bytes, host_budget="28GiB", progress=False
            )
        seconds = [seconds_of(lambda: step(*batch)) for _ in range(3)]
    row: Row = {"s": round(min(seconds), 4), "peak MiB": round(peak.most_bytes / MIB)}
    if budget_bytes:
        report = step.report()
        step.close()
        row["outside MiB"] = round(report.outside_bytes / MIB)
        row["good"] = report.violations == 0 and peak.most_bytes <= budget_bytes
    return row


def _images(make: Callable[[], nn.Module], count: int, side: int, budget_bytes: int = 0) -> Row:
    def training() -> tuple[Any, Any, Any]:
        torch.manual_seed(0)
        model = make().to(GPU)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        x = torch.randn(count, 3, side, side, device=GPU)
        return model, optimizer, (x, torch.randint(0, 1000, (count,), device=GPU))

    try:
        return _trained(training, budget_bytes)
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def vgg_e(small: bool) -> Iterator[Row]:
    """VGG-E on 256 images in 12 GiB, and in the least that is found."""
    count, side, budget = (8, 64, 64 * MIB) if small else (256, 224, 12 * GIB)
    yield {"case": f"VGG-E({count})"} | _images(vgg19, count, side, budget)
    least = 0
    try:
        _images(vgg19, count, side, budget // 64)
    except fitstep.BudgetTooSmall as error:
        least = error.least_found_bytes or error.floor_bytes
    if least:
        case = f"VGG-E({count}) in {least / GIB:.2f} GiB, the least found"
        yield {"case": case} | _images(vgg19, count, side, least)


def resnet_5x(small: bool) -> Iterator[Row]:
    """ResNet-50 at five times the batch that plain PyTorch has room for in the same bytes."""
    side, budget, count = (64, 512 * MIB, 2) if small else (224, 12 * GIB, 16)
    free, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction((budget - (total - free)) / total)
    fitting = 0
    while True:
        try:
            row = _images(resnet50, count, side)
        except torch.OutOfMemoryError:
            break
        fitting = count
        yield {"case": f"plain, {count} images"} | row
        count += max(count // 4, 1)
    torch.cuda.set_per_process_memory_fraction(1.0)
    if not fitting:
        yield {"case": "plain", "seen": f"{count} images do not fit", "good": False}
        return
    made = _images(resnet50, 5 * fitting, side, budget)
    yield {"case": f"fitstep, {5 * fitting} images"} | made


def gpt_1_3b(small: bool) -> Iterator[Row]:
    """1.3 billion parameters with AdamW, 21 GB of state, in 12 GiB."""
    size = {"context": 64, "width": 64, "layers": 2, "heads": 4} if small else {
        "context": 1024, "width": 2048, "layers": 24, "heads": 16
    }  # fmt: skip
    budget = 32 * MIB if small else 12 * GIB
    parameters = 0

    def training() -> tuple[Any, Any, Any]:
        nonlocal parameters
        torch.manual_seed(0)
        with GPU:
            model = GPT(vocab=256 if small else 50257, dropout=0.0, **size)
        parameters = sum(p.numel() for p in model.parameters())
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        row = torch.randint(0, 256, (2, size["context"] + 1), device=GPU)
        return model, optimizer, (row[:, :-1].contiguous(), row[:, 1:].contiguous())

    made = _trained(training, budget)
    yield {"case": f"{parameters / 1e9:.2f}B parameters"} | made


PARTS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "bits": bits,
    "gpt": lambda small: step_time("gpt", small),
    "resnet50": lambda small: step_time("resnet50_nchw", small),
    "vgg16": lambda small: step_time("vgg16", small),
    "vgg_e": vgg_e,
    "resnet_5x": resnet_5x,
    "gpt_1_3b": gpt_1_3b,
}


def main(part: str, size: str = "full") -> int:
    """Prints a row per case; the exit code is 0 also where rows are not good."""
    torch.zeros(1, device=GPU)
    for row in PARTS[part](size == "small"):
        print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
