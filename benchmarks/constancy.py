"""Constancy: 10,000 steps at the least budget with a disk tier, each as the one before.

    python benchmarks/constancy.py [--small]

Method. A small MLP with dropout under AdamW, at the least budget that `BudgetTooSmall` names beside
a disk tier; plain PyTorch trains the same in a process of its own. Both hash parameters, optimizer
state, loss and generator after steps 1, 100 and 10,000. Resident memory is RssAnon, taken every
25th step from step 100 on: its range, and the slope of the straight line through it. The file of
the disk tier is looked at through /proc/self/fd. Requests that no plan foresaw are counted by the
allocator.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fitstep.zoo.bits import differences, fingerprint
from resident import resident_bytes
from results import MIB, ROOT, Row, arguments, mib, save, show
from torch import Tensor

import fitstep

sys.path.insert(0, str(ROOT / "tests" / "torch"))

from test_offload import Job, mlp

STEPS = 10_000
LOOKED_AT = (1, 100)  # And the last.
ALLOWED_BYTES = MIB


def file_bytes(folder: str) -> int:
    """Blocks of the files that are open in a folder, with or without a name."""
    total = 0
    for entry in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{entry}"
        if os.path.islink(path) and os.readlink(path).startswith(folder):
            total += os.stat(path).st_blocks * 512
    return total


def train(
    job: Job, step: Callable[..., Tensor], steps: int, look: Callable[[int], None]
) -> dict[str, Any]:
    """Bits after some steps; `look` is called after each."""
    torch.manual_seed(6)
    found = {}
    for number in range(1, steps + 1):
        loss = step(job.x, job.y)
        if number in (*LOOKED_AT, steps):
            found[str(number)] = fingerprint(
                model=job.model,
                optimizer=job.optimizer,
                loss=loss.detach(),
                random=torch.get_rng_state(),
            )
        look(number)
    return found


def run(how: str, steps: int) -> Row:
    """In this process; `how` is a folder for the disk tier, or "plain"."""
    job = mlp()
    if how == "plain":
        return {"bits": train(job, job.step, steps, lambda number: None)}
    below: dict[str, Any] = {"disk_budget": "500%", "disk_dir": how}
    try:
        fitstep.compile(job.step, (job.x, job.y), 1, **below)
    except fitstep.BudgetTooSmall as refused:
        budget = int(refused.least_found_bytes or 0)
    step = fitstep.compile(job.step, (job.x, job.y), budget, **below)
    resident: list[tuple[int, int]] = []
    first: Row = {}

    def look(number: int) -> None:
        if number == LOOKED_AT[0]:
            first.update(file=file_bytes(how), unforeseen=step.report().unforeseen_requests)
        if number >= LOOKED_AT[1] and number % 25 == 0:
            resident.append((number, resident_bytes()))

    start = time.perf_counter()
    bits = train(job, step, steps, look)
    seconds = time.perf_counter() - start
    report = step.report()
    steady = report.variants[-1]
    found: Row = {
        "bits": bits, "steps": steps, "seconds": seconds, "budget_bytes": budget,
        "plain_peak_bytes": report.plain_peak_bytes, "written_bytes": steady.disk_written_bytes,
        "unforeseen_after_first": report.unforeseen_requests - first["unforeseen"],
        "violations": report.violations, "file_bytes": file_bytes(how),
        "file_growth_bytes": file_bytes(how) - first["file"],
        "resident_range_bytes": max(b for _, b in resident) - min(b for _, b in resident),
        "resident_slope": statistics.linear_regression(*zip(*resident, strict=True)).slope,
    }  # fmt: skip
    step.close()
    return found


def in_process(how: str, steps: int) -> Row:
    """The answer of a process of its own."""
    command = [sys.executable, __file__, "--how", how, "--steps", str(steps)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: Row = json.loads(answer.stdout.splitlines()[-1])
    return found


def main() -> int:
    """1 if something was not constant."""
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--how", help="measure in this process, for the driver")
    args = parser.parse_args()
    steps = args.steps or (500 if args.small else STEPS)
    if args.how:
        print(json.dumps(run(args.how, steps)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        ours = in_process(folder, steps)
    plain = in_process("plain", steps)
    differ = [
        f"{number}: {name}"
        for number, bits in ours.pop("bits").items()
        for name in differences(bits, plain["bits"][number])
    ]
    table = [
        {"case": "steps", "measured": ours["steps"]},
        {"case": "budget", "measured": mib(ours["budget_bytes"])},
        {"case": "plain peak", "measured": mib(ours["plain_peak_bytes"])},
        {"case": "written to disk per step", "measured": mib(ours["written_bytes"])},
        {"case": "milliseconds per step", "measured": f"{1e3 * ours['seconds'] / steps:.2f}"},
        {"case": "unforeseen after step 1", "measured": ours["unforeseen_after_first"]},
        {"case": "violations", "measured": ours["violations"]},
        {"case": "file's growth after step 1", "measured": mib(ours["file_growth_bytes"])},
        {"case": "resident, range", "measured": mib(ours["resident_range_bytes"])},
        {"case": "resident, bytes per step", "measured": f"{ours['resident_slope']:.3f}"},
        {"case": "tensors that differ", "measured": len(differ)},
    ]
    show(f"every step like the one before, after {steps} of them", table)
    save(Path(__file__).stem, {**ours, "differ": differ}, bool(args.steps) or args.small)
    is_constant = not (
        differ or ours["unforeseen_after_first"] or ours["violations"] or ours["file_growth_bytes"]
    )
    grown = abs(ours["resident_slope"]) * steps
    is_constant = is_constant and ours["resident_range_bytes"] <= ALLOWED_BYTES
    return 0 if is_constant and grown <= ALLOWED_BYTES / 8 else 1


if __name__ == "__main__":
    sys.exit(main())
