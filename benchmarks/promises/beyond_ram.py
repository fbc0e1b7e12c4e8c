"""Beyond RAM: VGG-E on 256 images under a limit at which plain PyTorch fails, with the same bits.

    python benchmarks/run.py beyond_ram [--small] [--folder FOLDER] [--budget GIB ...]
        [--without-plain]

Method. VGG-E has 16 convolutions; 256 images of 224x224, channels_last, SGD. Each run is a process
of its own under a limit of 16 GiB for private writable memory (RLIMIT_DATA: all that is anonymous
counts, touched or not, so nothing above it can become resident). Plain PyTorch is run under it
first. Then the step is compiled at 7, 8 and 12 GiB with a disk tier, and run twice; no profile is
kept from before, except from budget to budget. Parameters are hashed. Resident memory is RssAnon of
/proc/self/status, sampled by a thread from just before `compile`, with the model and the images
there; it may grow by the budget and 64 MiB. Time per image is that of the second step, beside
plain PyTorch on 32 images. About 5 minutes a step on two cores.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fitstep_kit.measures.bits import fingerprint
from fitstep_kit.measures.resident import ResidentPeak
from fitstep_kit.models.vgg import _E, VGG, _layout
from torch import Tensor

import fitstep
from benchmarks.output import MIB, Row, arguments, command_of, mib, save, show

GIB = 1 << 30
ALLOWED_BYTES = 64 * MIB
STEPS = 2


@dataclass(frozen=True)
class Size:
    """What is trained, and in how much memory."""

    images: int
    few_images: int  # That plain PyTorch has room for.
    side: int
    width: float
    hidden: int
    limit_bytes: int
    budgets: tuple[int, ...]


FULL = Size(256, 32, 224, 1.0, 4096, 16 * GIB, (7 * GIB, 8 * GIB, 12 * GIB))
# The same share of its largest feature map, 49 MiB where the full one has 3136.
SMALL = Size(64, 8, 112, 0.25, 256, 700 * MIB, (120 * MIB, 128 * MIB, 190 * MIB))


@dataclass(frozen=True)
class Job:
    """One process. Without a budget: plain PyTorch."""

    images: int
    size: Size
    budget_bytes: int = 0
    folder: str = ""


def run(job: Job) -> Row:
    """What the process of a job does."""
    resource.setrlimit(resource.RLIMIT_DATA, (job.size.limit_bytes,) * 2)
    torch.manual_seed(0)
    model: Any = VGG(_layout(_E), 1000, job.size.width, job.size.hidden)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    side = job.size.side
    x = torch.randn(job.images, 3, side, side).contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (job.images,))

    def train_step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    torch.manual_seed(1)
    if not job.budget_bytes:
        return timed(train_step, x, y)
    watch = ResidentPeak(seconds=0.02)
    watch.start()
    start = time.perf_counter()
    below: Any = {"disk_budget": 3 * job.size.limit_bytes // 2, "disk_dir": job.folder}
    try:
        step = fitstep.compile(train_step, (x, y), job.budget_bytes, **below)
    except fitstep.BudgetTooSmall as error:
        return {"error": str(error), "grown_bytes": watch.finish()}
    found: Row = {"compile_s": time.perf_counter() - start, "compile_grown_bytes": watch.growth()}
    found |= timed(step, x, y)
    found["grown_bytes"] = watch.finish()
    report = step.report()
    steady = report.variants[-1]
    step.close()
    return found | {
        "hash": fingerprint(model=model),
        "written_bytes": steady.disk_written_bytes,
        "recomputed_ops": steady.recomputed_ops,
        "predicted_s": steady.predicted_s,
        "plain_peak_bytes": report.plain_peak_bytes,
        "floor_bytes": report.floor_bytes,
        "violations": report.violations,
    }


def timed(step: Callable[..., Tensor], x: Tensor, y: Tensor) -> Row:
    """Seconds of each step and the losses, or how it failed."""
    seconds, losses = [], []
    for _ in range(STEPS):
        start = time.perf_counter()
        try:
            losses.append(float(step(x, y).detach()))
        except (RuntimeError, MemoryError) as error:  # How PyTorch says that there is no memory.
            return {"error": str(error).strip().splitlines()[-1]}
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "losses": losses}


def in_process(job: Job, cache: str) -> Row:
    """The answer of a process of its own."""
    command = [*command_of(__file__), "--job", json.dumps(asdict(job))]
    environment = {**os.environ, "FITSTEP_CACHE": cache}
    answer = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=False, env=environment
    )
    name = mib(job.budget_bytes) if job.budget_bytes else "plain"
    if answer.returncode:
        row: Row = {"error": f"the process ended with {answer.returncode}"}
    else:
        row = json.loads(answer.stdout.splitlines()[-1])
    shown = {key: value for key, value in row.items() if key != "hash"}
    print(f"{name}, {job.images} images: {json.dumps(shown)}", flush=True)
    return {"case": name, "images": job.images, "budget_bytes": job.budget_bytes, **row}


def in_table(row: Row, plain_s: float) -> Row:
    """A row for readers."""
    if "error" in row:
        return {"case": row["case"], "images": row["images"], "step": row["error"][:60]}
    per_image_s = row["seconds"][-1] / row["images"]
    return {
        "case": row["case"],
        "images": row["images"],
        "step": f"{row['seconds'][-1]:.1f} s",
        "per image": f"{1e3 * per_image_s:.0f} ms",
        "of plain": f"{per_image_s / plain_s:.2f}",
        "predicted": f"{row['predicted_s']:.1f} s" if "predicted_s" in row else "",
        "resident grew": mib(row.get("grown_bytes")),
        "to disk": mib(row.get("written_bytes")),
        "recomputed": row.get("recomputed_ops", ""),
    }


def is_kept(row: Row) -> bool:
    """Whether a compiled run did all that it should."""
    allowed_bytes = row["budget_bytes"] + ALLOWED_BYTES
    return "error" not in row and row["grown_bytes"] <= allowed_bytes and not row["violations"]


def main() -> int:
    """1 if a promise was broken."""
    parser = arguments(__doc__)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="of the disk tier's file")
    parser.add_argument("--budget", type=float, nargs="*", metavar="GIB", help="only these")
    parser.add_argument("--without-plain", action="store_true", help="do not run into the limit")
    parser.add_argument("--job", help="run in this process, for the driver")
    args = parser.parse_args()
    if args.job:
        job = json.loads(args.job)
        print(json.dumps(run(Job(**{**job, "size": Size(**job["size"])}))))
        return 0
    size = SMALL if args.small else FULL
    budgets = [int(gib * GIB) for gib in args.budget] if args.budget else size.budgets
    with tempfile.TemporaryDirectory() as cache:
        few = in_process(Job(size.few_images, size), cache)
        fails = None if args.without_plain else in_process(Job(size.images, size), cache)
        rows = [in_process(Job(size.images, size, b, args.folder), cache) for b in budgets]
    plain_s = few["seconds"][-1] / few["images"]
    shown = [*rows, few, *([fails] if fails else [])]
    show("beyond RAM", [in_table(row, plain_s) for row in shown])
    is_same = len({json.dumps(row.get("hash"), sort_keys=True) for row in rows}) == 1
    print(f"plain PyTorch on all images fails: {fails and 'error' in fails}; same bits: {is_same}")
    result = {"few": few, "plain": fails, "rows": rows, "limit_bytes": size.limit_bytes}
    save(Path(__file__).stem, result, args.small or bool(args.budget) or args.without_plain)
    is_right = is_same and all(is_kept(row) for row in rows) and (not fails or "error" in fails)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
