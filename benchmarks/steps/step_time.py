"""Time per step beside plain PyTorch, with the system's allocator and with a tuned one.

    python benchmarks/run.py step_time [--small] [--rounds N] [--case NAME ...]

At 100, 50, 30 and 20 % of plain PyTorch's peak, below 100 % with a disk tier and without. Where the
proven floor is above a share, the least budget is measured in its place, and the row is left out of
the mean. With --case, the rows of the other cases stay as they were kept. jemalloc runs plain
PyTorch with memory that it never gives back (its library must be installed: libjemalloc2). All live
in processes of their own and take turns of a step, or of as many as fill a tenth of a second;
medians over the rounds, first turns left out.
"""

import math
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.output import Row, arguments, kept_rows, machine, mib, save, show
from benchmarks.steps.workers import JEMALLOC, WorkerProcess

CASES = (
    "resnet50_16_nchw", "resnet50_16_channels_last", "vgg16", "unet", "gpt", "lstm", "mlp",
)  # fmt: skip
SHARES = (1.0, 0.5, 0.3, 0.2)
ONLY_WHOLE = ("mlp",)  # Measured at 100 % only.
WAYS = {"": "memory alone", ":disk": "disk"}
# Geometric means that are wanted, of the time over that with the system's allocator.
TARGETS = {1.0: 0.78, 0.5: 0.95, 0.3: 1.15, 0.2: 1.35}
JEMALLOC_TARGET = 1.00


def budgets(name: str, below: str, peak: int, small: bool) -> list[Row]:
    """What to measure with a tier below or none: a budget for every share, or the least one."""
    with WorkerProcess(
        name, f"1{below}", small
    ) as refused:  # One byte: the answer is what would do.
        answer = refused.started["too_small"]
    rows: list[Row] = []
    for share in SHARES:
        if (below and share == 1) or (share < 1 and name in ONLY_WHOLE):
            continue
        is_below = share * peak < answer["floor_bytes"]
        budget = max(int(share * peak), answer["least_found_bytes"])
        rows.append({"case": name, "share": share, "below": below, "how": f"{budget}{below}"})
        rows[-1] |= {"peak_bytes": peak, "budget_bytes": budget}
        rows[-1] |= {"floor_bytes": answer["floor_bytes"], "counts": not is_below}
        if is_below:
            break  # Lower shares would be the same row.
    return rows


def measure(name: str, rounds: int, small: bool) -> list[Row]:
    """One row per budget of one workload."""
    with WorkerProcess(name, "plain", small) as plain:
        plain.ask("step")
        peak = int(plain.ask("peak")["bytes"])
    rows = [row for below in WAYS for row in budgets(name, below, peak, small)]
    times: dict[str, list[float]] = {}
    with ExitStack() as stack:
        workers = {"plain": stack.enter_context(WorkerProcess(name, "plain", small))}
        if JEMALLOC["LD_PRELOAD"]:
            tuned = WorkerProcess(name, "plain", small, JEMALLOC)
            workers["jemalloc"] = stack.enter_context(tuned)
        for row in rows:
            workers[row["how"]] = stack.enter_context(WorkerProcess(name, row["how"], small))
        for index in range(rounds + 1):
            for key, worker in workers.items():
                taken = worker.ask("turn")["seconds"]
                if index > 0:
                    times.setdefault(key, []).append(taken)
        predicted = {row["how"]: workers[row["how"]].ask("predicted")["seconds"] for row in rows}
    medians = {key: statistics.median(of) for key, of in times.items()}
    for row in rows:
        row["predicted_seconds"] = predicted[row["how"]]
        own = medians[row["how"]]
        row |= {"seconds": times[row["how"]], "plain_seconds": times["plain"]}
        row |= {"jemalloc_seconds": times.get("jemalloc"), "ratio": own / medians["plain"]}
        row["jemalloc_ratio"] = own / medians["jemalloc"] if "jemalloc" in medians else None
    return rows


def mean(ratios: list[float]) -> float | None:
    """Geometric."""
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else None


def summary(rows: list[Row]) -> list[Row]:
    """The mean of each share beside what is wanted of it."""
    lines: list[Row] = []
    for share, below in [
        (1.0, ""),
        *((share, way) for share in SHARES[1:] for way in (":disk", "")),
    ]:
        of_share = [row for row in rows if row["share"] == share and row["below"] == below]
        counted = [row for row in of_share if row["counts"]]
        tuned = [row["jemalloc_ratio"] for row in counted if row["jemalloc_ratio"] is not None]
        found = {"plain": mean([row["ratio"] for row in counted]), "jemalloc": mean(tuned)}
        has_target = share == 1 or below  # Below 100 %, with all tiers that there are.
        targets = {"plain": TARGETS[share] if has_target else None}
        targets["jemalloc"] = JEMALLOC_TARGET if share == 1 else None
        for rival, target in targets.items():
            value = found[rival]
            is_reached = target is None or (value is not None and value <= target)
            line: Row = {"case": f"{share:.0%} of the peak, {WAYS[below]}", "beside": rival}
            line |= {"cases": len(counted), "mean": f"{value:.3f}" if value else "-"}
            line |= {"at most": f"{target:.2f}" if target else "-"}
            reached = "-" if target is None else "yes" if is_reached else "NO"
            lines.append(line | {"reached": reached})
    return lines


def main() -> int:
    """1 if a target was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--case", action="append", choices=CASES)
    args = parser.parse_args()
    if not JEMALLOC["LD_PRELOAD"]:
        print("jemalloc is not installed: not measured", flush=True)
    here: Row = {"commit": machine()["commit"], "rounds": args.rounds}
    rows = kept_rows(Path(__file__).stem, args.case or CASES, args.small)
    for name in args.case or CASES:
        for row in measure(name, args.rounds, args.small):
            rows.append(row | here)
            where = f"{row['share']:.0%}, {WAYS[row['below']]}"
            print(f"{name} at {where}: {row['ratio']:.3f} of plain", flush=True)
        save(Path(__file__).stem, {"rows": rows}, args.small)
    table = [
        {
            "case": row["case"],
            "share": f"{row['share']:.0%}" if row["counts"] else f"{row['share']:.0%}, not in mean",
            "tiers": WAYS[row["below"]],
            "budget": f"{row['budget_bytes'] / row['peak_bytes']:.1%} = {mib(row['budget_bytes'])}",
            "floor": f"{row['floor_bytes'] / row['peak_bytes']:.1%}",
            "plain": f"{statistics.median(row['plain_seconds']):.4f} s",
            "fitstep": f"{statistics.median(row['seconds']):.4f} s",
            "predicted": f"{row['predicted_seconds']:.4f} s",
            "of plain": f"{row['ratio']:.3f}",
            "of jemalloc": f"{row['jemalloc_ratio']:.3f}" if row["jemalloc_ratio"] else "-",
        }
        for row in rows
    ]
    show("medians of interleaved turns", table)
    means = summary(rows)
    show("geometric means", means)
    save(Path(__file__).stem, {"rows": rows, "means": means}, args.small)
    return 1 if any(line["reached"] == "NO" for line in means) else 0


if __name__ == "__main__":
    sys.exit(main())
