"""Constancy: 10,000 steps at a tight budget with a disk tier, each as the one before.

    python benchmarks/run.py constancy [--small] [--case NAME ...]

Method. A small MLP with dropout under AdamW, at the least budget that `BudgetTooSmall` names beside
a disk tier, copies as the planner wants them; and at twice the least budget without recompute, so
that there are copies, every one of them to the disk in a code, the two by turns. Plain PyTorch
trains the same in a process of its own. All hash parameters, optimizer state, loss and generator
after steps 1, 100 and 10,000. Resident memory is RssAnon, taken every 25th step from step 100 on:
its range, and the slope of the straight line through it. The file of the disk tier is looked at
through /proc/self/fd. Requests that no plan foresaw are counted by the allocator. With --case, the
other row stays as it was kept.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fitstep_kit.measures.bits import differences, fingerprint
from fitstep_kit.measures.resident import resident_bytes
from fitstep_kit.offloaded_plan import printed
from fitstep_kit.subjects.jobs import Job, mlp
from torch import Tensor

import fitstep
from benchmarks.output import MIB, Row, arguments, command_of, kept_rows, mib, save, show

# How many times the least budget, and by which policy.
CASES = {"least budget": (1, "auto"), "all in codes": (2, "offload")}
CODES = ("zero_value", "zstd")
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


def coded(plan: str) -> str:
    """The same plan with all that goes to the disk in codes, by turns."""
    made: dict[str, Any] = json.loads(plan)
    below = [one for one in made["residencies"] if one["tier"] == 2 and not one.get("home")]
    for i, one in enumerate(below):
        one["code"] = CODES[i % len(CODES)]
    return printed(made)


def compiled(job: Job, case: str, folder: str) -> tuple[fitstep.Step, int]:
    """For a case, and its budget."""
    times, policy = CASES[case]
    below: dict[str, Any] = {"disk_budget": "500%", "disk_dir": folder}
    try:
        fitstep.compile(job.step, (job.x, job.y), 1, policy=policy, **below)
    except fitstep.BudgetTooSmall as refused:
        budget = times * int(refused.least_found_bytes or 0)
    step = fitstep.compile(job.step, (job.x, job.y), budget, policy=policy, **below)
    if case != "all in codes":
        return step, budget
    path = Path(folder, "plan")
    path.write_text(coded(str(step.plan)))
    step.close()
    return fitstep.compile(job.step, (job.x, job.y), budget, plan=path, **below), budget


def run(case: str, folder: str, steps: int) -> Row:
    """In this process."""
    job = mlp()
    if case == "plain":
        return {"bits": train(job, job.step, steps, lambda number: None)}
    step, budget = compiled(job, case, folder)
    # What is measured has its memory from the start: it must not be what grows.
    numbers = array("q", range(LOOKED_AT[1], steps + 1, 25))
    resident = array("q", [0] * len(numbers))
    first: Row = {}

    def look(number: int) -> None:
        if number == LOOKED_AT[0]:
            first.update(file=file_bytes(folder), unforeseen=step.report().unforeseen_requests)
        if number >= LOOKED_AT[1] and number % 25 == 0:
            resident[(number - LOOKED_AT[1]) // 25] = resident_bytes()

    start = time.perf_counter()
    bits = train(job, step, steps, look)
    seconds = time.perf_counter() - start
    report = step.report()
    steady = report.variants[-1]
    found: Row = {
        "case": case, "bits": bits, "steps": steps, "seconds": seconds, "budget_bytes": budget,
        "plain_peak_bytes": report.plain_peak_bytes, "written_bytes": steady.disk_written_bytes,
        "unforeseen_after_first": report.unforeseen_requests - first["unforeseen"],
        "coded_copies": len(steady.coded_copies), "violations": report.violations,
        "file_bytes": file_bytes(folder), "file_growth_bytes": file_bytes(folder) - first["file"],
        "resident_range_bytes": max(resident) - min(resident),
        "resident_slope": statistics.linear_regression(numbers, resident).slope,
    }  # fmt: skip
    step.close()
    return found


def in_process(case: str, steps: int) -> Row:
    """The answer of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*command_of(__file__), "--run", case, folder, "--steps", str(steps)]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: Row = json.loads(answer.stdout.splitlines()[-1])
    return found


def is_constant(row: Row) -> bool:
    """Whether it is as it should be."""
    names = ("differ", "unforeseen_after_first", "violations", "file_growth_bytes")
    grown = abs(row["resident_slope"]) * row["steps"]
    has_codes = row["case"] != "all in codes" or row["coded_copies"] > 0
    is_still = row["resident_range_bytes"] <= ALLOWED_BYTES and grown <= ALLOWED_BYTES / 8
    return has_codes and is_still and not any(row[name] for name in names)


def main() -> int:
    """1 if something was not constant."""
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--case", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--run", nargs=2, help="a case and a folder, in this process")
    args = parser.parse_args()
    steps = args.steps or (500 if args.small else STEPS)
    if args.run:
        print(json.dumps(run(*args.run, steps)))
        return 0
    is_trial = bool(args.steps) or args.small
    plain = in_process("plain", steps)
    rows = kept_rows(Path(__file__).stem, args.case, is_trial)
    for case in args.case:
        row = in_process(case, steps)
        row["differ"] = [
            f"{number}: {name}"
            for number, bits in row.pop("bits").items()
            for name in differences(bits, plain["bits"][number])
        ]
        rows.append(row)
    table = [
        {
            "case": row["case"],
            "steps": row["steps"],
            "budget": mib(row["budget_bytes"]),
            "plain peak": mib(row["plain_peak_bytes"]),
            "written per step": mib(row["written_bytes"]),
            "in codes": "-" if row["coded_copies"] is None else row["coded_copies"],
            "ms per step": f"{1e3 * row['seconds'] / row['steps']:.1f}",
            "unforeseen": row["unforeseen_after_first"],
            "violations": row["violations"],
            "file grew": mib(row["file_growth_bytes"]),
            "resident, range": mib(row["resident_range_bytes"]),
            "bytes per step": f"{row['resident_slope']:.3f}",
            "tensors that differ": len(row["differ"]),
        }
        for row in rows
    ]
    show("every step like the one before", table)
    save(Path(__file__).stem, {"rows": rows}, is_trial)
    return 0 if all(map(is_constant, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
