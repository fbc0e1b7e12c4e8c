"""Time per step beside plain PyTorch, at 100 % and 60 % of its peak.

    python benchmarks/run.py speed [--small] [--rounds N]

Plain PyTorch and the compiled steps live in processes of their own and take turns step by step, so
that a slow minute of the machine hits all of them. Medians over the rounds; each first step, which
creates the optimizer's state, is left out.
"""

import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.output import Row, arguments, mib, save, show
from benchmarks.steps.workers import WorkerProcess, by_turns

# The most that a step may take, as a share of plain PyTorch's.
TARGETS = {
    "resnet50_nchw": {1.0: 0.80, 0.6: 1.10},
    "resnet50_channels_last": {1.0: 0.95, 0.6: 1.10},
    "gpt": {1.0: 0.95, 0.6: 1.10},
}


def plain_peak(name: str, small: bool) -> int:
    """Measured in a process that is gone before the timed ones start."""
    with WorkerProcess(name, "plain", small) as plain:
        plain.ask("step")
        return int(plain.ask("peak")["bytes"])


def measure(name: str, rounds: int, small: bool) -> list[Row]:
    """One row per budget of one workload."""
    peak = plain_peak(name, small)
    rows: list[Row] = []
    with ExitStack() as stack:
        workers: dict[float | None, WorkerProcess] = {}
        workers[None] = stack.enter_context(WorkerProcess(name, "plain", small))
        for part in TARGETS[name]:
            worker = stack.enter_context(WorkerProcess(name, int(part * peak), small))
            if "too_small" in worker.started:
                print(f"{name} at {part:.0%}: {worker.started['message']}", flush=True)
                continue
            workers[part] = worker
        seconds = by_turns(workers, 1, rounds)
    plain = statistics.median(seconds[None])
    for part, target in TARGETS[name].items():
        row: Row = {"case": name, "share": part, "budget_bytes": int(part * peak)}
        row |= {"target": target, "plain_seconds": seconds[None], "seconds": seconds.get(part)}
        if part in seconds:
            row["ratio"] = statistics.median(seconds[part]) / plain
        row["target_reached"] = row.get("ratio", float("inf")) <= target
        rows.append(row)
    return rows


def main() -> int:
    """1 if a target was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    rows = [row for name in TARGETS for row in measure(name, args.rounds, args.small)]
    table = [
        {
            "case": row["case"],
            "budget": f"{row['share']:.0%} = {mib(row['budget_bytes'])}",
            "plain": f"{statistics.median(row['plain_seconds']):.3f} s",
            "fitstep": f"{statistics.median(row['seconds']):.3f} s" if row["seconds"] else "-",
            "ratio": f"{row['ratio']:.2f}" if "ratio" in row else "-",
            "at most": f"{row['target']:.2f}",
            "reached": "yes" if row["target_reached"] else "NO",
        }
        for row in rows
    ]
    show(f"median of {args.rounds} interleaved steps", table)
    save(Path(__file__).stem, {"rounds": args.rounds, "rows": rows}, args.small)
    return 0 if all(row["target_reached"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
