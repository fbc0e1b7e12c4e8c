"""Time per step beside other ways to train in less memory, at the peak that each of them has.

    python benchmarks/run.py peers [--small] [--rounds N] [--case NAME ...]

For every setting of every rival (rivals.py): its peak, counted at PyTorch's allocator; its time;
the time of fitstep in a budget of the same bytes beside a disk tier, in processes that take turns
step by step; whether each has plain PyTorch's bits. Where no plan fits, fitstep is measured at its
least budget and the row says so. With --case, the rows of the other cases stay as they were kept.
A plot of time over peak for every case goes to results/.
"""

import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

from benchmarks.output import RESULTS, Row, arguments, kept_rows, machine, mib, save, show
from benchmarks.steps.workers import WorkerProcess, by_turns

CASES = ("resnet50_16_nchw", "resnet50_16_channels_last", "vgg16", "unet", "gpt", "lstm", "mlp")
RIVALS = (
    "checkpoint:1", "checkpoint:2", "checkpoint:4",
    "memory_budget:0.7", "memory_budget:0.3", "memory_budget:0.0", "inductor:0.3", "spill",
)  # fmt: skip
SKIPPED = {
    "unet": ("checkpoint:2", "checkpoint:4"),  # No layers that stand one behind another.
    "mlp": ("checkpoint:1", "checkpoint:2", "checkpoint:4"),  # Its memory is weights.
}
BITS_STEPS = 2
BELOW = ":disk"  # What fitstep has beside its budget: worker.py.


def bits_after(worker: WorkerProcess) -> Any:
    """Hashes of all that was trained, in the order of the model; rivals may change its names."""
    for _ in range(BITS_STEPS):
        worker.ask("step")
    return list(worker.ask("bits").values())


def look_at(name: str, rival: str, small: bool) -> Row:
    """The rival's peak and bits."""
    with WorkerProcess(name, rival, small) as worker:
        bits = bits_after(worker)
        return {"rival": rival, "bits": bits, "peak_bytes": int(worker.ask("peak")["bytes"])}


def measure(name: str, rounds: int, small: bool) -> list[Row]:
    """One row per rival of one workload."""
    plain = look_at(name, "plain", small)
    with WorkerProcess(name, f"1{BELOW}", small) as refused:  # One byte: it says what would do.
        least = refused.started["too_small"]["least_found_bytes"]
    rivals = [rival for rival in RIVALS if rival not in SKIPPED.get(name, ())]
    rows = [{"case": name} | look_at(name, rival, small) for rival in rivals]
    for row in rows:
        row["plain_peak_bytes"] = plain["peak_bytes"]
        row["same_bits"] = row.pop("bits") == plain["bits"]
        row["budget_bytes"] = max(row["peak_bytes"], least)
        row |= race(name, row, rounds, small)
        row["fitstep_same_bits"] = row.pop("fitstep_bits") == plain["bits"]
        ratio = row["seconds"] / row["fitstep_seconds"]
        print(f"{name}, {row['rival']}: {ratio:.2f} times fitstep's time", flush=True)
    return rows


def race(name: str, row: Row, rounds: int, small: bool) -> Row:
    """Medians of the rival, plain PyTorch and fitstep, which take turns."""
    ways = {"seconds": row["rival"], "plain_seconds": "plain"}
    ways["fitstep_seconds"] = f"{row['budget_bytes']}{BELOW}"
    with ExitStack() as stack:
        workers = {
            key: stack.enter_context(WorkerProcess(name, way, small)) for key, way in ways.items()
        }
        bits = bits_after(workers["fitstep_seconds"])
        times = by_turns(workers, 1, rounds)
    return {"fitstep_bits": bits} | {key: statistics.median(of) for key, of in times.items()}


def plot(name: str, rows: list[Row]) -> Path:
    """Time over peak, both as shares of plain PyTorch's."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    families = dict.fromkeys(row["rival"].partition(":")[0] for row in rows)
    marks = dict(zip(families, "sDv^P", strict=False))
    for family in families:
        of = [row for row in rows if row["rival"].startswith(family)]
        axes.plot(
            [row["peak_bytes"] / row["plain_peak_bytes"] * 100 for row in of],
            [row["seconds"] / row["plain_seconds"] for row in of],
            marks[family] + ":",
            label=family,
        )
    ours = sorted(rows, key=lambda row: int(row["budget_bytes"]))
    axes.plot(
        [row["budget_bytes"] / row["plain_peak_bytes"] * 100 for row in ours],
        [row["fitstep_seconds"] / row["plain_seconds"] for row in ours],
        "o-",
        color="black",
        label="fitstep",
    )
    axes.plot([100], [1], "x", color="black", label="plain PyTorch")
    axes.set_xlabel("peak, % of plain PyTorch's")
    axes.set_ylabel("time per step, plain PyTorch = 1")
    axes.set_title(name)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    path = RESULTS / f"peers_{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path


def main() -> int:
    """1 if a rival was faster at the same peak, or bits differed."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", action="append", choices=CASES)
    args = parser.parse_args()
    here: Row = {"commit": machine()["commit"], "rounds": args.rounds}
    rows = kept_rows(Path(__file__).stem, args.case or CASES, args.small)
    for name in args.case or CASES:
        measured = [row | here for row in measure(name, args.rounds, args.small)]
        rows += measured
        save(Path(__file__).stem, {"rows": rows}, args.small)
        if not args.small:
            print(f"plot: {plot(name, measured)}")
    table: list[Row] = []
    for row in rows:
        line: Row = {"case": row["case"], "rival": row["rival"]}
        line |= {"peak": f"{row['peak_bytes'] / row['plain_peak_bytes']:.1%}"}
        line |= {"time": f"{row['seconds'] / row['plain_seconds']:.3f}"}
        line |= {"same bits": "yes" if row["same_bits"] else "no"}
        line |= {"fitstep in": mib(row["budget_bytes"])}
        line |= {"its time": f"{row['fitstep_seconds'] / row['plain_seconds']:.3f}"}
        line |= {"its bits": "yes" if row["fitstep_same_bits"] else "NO"}
        is_ahead = row["fitstep_seconds"] <= row["seconds"]
        is_within = row["budget_bytes"] <= row["peak_bytes"]
        row["is_ahead"] = is_ahead and is_within and row["fitstep_same_bits"]
        line |= {"ahead": "yes" if row["is_ahead"] else "NO" if is_within else "needs more"}
        table.append(line)
    show("time of a step, plain PyTorch = 1; medians of interleaved steps", table)
    save(Path(__file__).stem, {"rows": rows}, args.small)
    return 0 if all(row.get("is_ahead", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
