"""Prediction: the seconds of a step that the plan says, beside those that it takes.

    python benchmarks/prediction.py [--small] [--only NAME ...]

Method. Every training of workloads.py at 100, 70 and 50 % of the plain peak; a budget that has no
plan is left out. Each is a process of its own, one at a time, so that nothing else runs meanwhile;
measured is the median of seven steps after two that warm up. The deviation of a case is the larger
of the two figures over the smaller, less one; theirs is a geometric mean.
"""

import math
import statistics
import sys
from pathlib import Path

from results import Row, arguments, mib, save, show
from workers import WorkerProcess
from workloads import WORKLOADS

SHARES = (1.0, 0.7, 0.5)
WARM, STEPS = 2, 7
GOAL = 0.05


def peak_bytes(name: str, small: bool) -> int:
    """The plain peak."""
    with WorkerProcess(name, "plain", small) as plain:
        for _ in range(2):  # The first makes optimizer state.
            plain.ask("step")
        return int(plain.ask("peak")["bytes"])


def measure(name: str, share: float, peak: int, small: bool) -> Row | None:
    """None where there is no plan."""
    with WorkerProcess(name, int(peak * share), small) as ours:
        if "too_small" in ours.started:
            return None
        seconds = [ours.ask("step")["seconds"] for _ in range(WARM + STEPS)][WARM:]
        predicted = ours.ask("predicted")["seconds"]
    measured = statistics.median(seconds)
    return {
        "case": f"{name} at {100 * share:.0f} %",
        "budget_bytes": int(peak * share),
        "predicted_s": predicted,
        "measured_s": measured,
        "least_s": min(seconds),
        "deviation": max(predicted / measured, measured / predicted) - 1,
    }


def main() -> int:
    """1 if the goal was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="*", choices=WORKLOADS, default=list(WORKLOADS))
    args = parser.parse_args()
    rows: list[Row] = []
    for name in args.only:
        peak = peak_bytes(name, args.small)
        for share in SHARES:
            row = measure(name, share, peak, args.small)
            if row is None:
                continue
            rows.append(row)
            print(f"{row['case']}: {100 * row['deviation']:.1f} % off", flush=True)
    mean = math.exp(statistics.fmean(math.log1p(row["deviation"]) for row in rows)) - 1
    table = [
        {
            "case": row["case"],
            "budget": mib(row["budget_bytes"]),
            "predicted": f"{1e3 * row['predicted_s']:.1f} ms",
            "measured": f"{1e3 * row['measured_s']:.1f} ms",
            "predicted / measured": f"{row['predicted_s'] / row['measured_s']:.3f}",
        }
        for row in rows
    ]
    show("predicted and measured seconds of a step", table)
    print(f"deviation, geometric mean: {100 * mean:.1f} %; the goal is {100 * GOAL:.0f} %")
    is_try = args.small or list(args.only) != list(WORKLOADS)
    save(Path(__file__).stem, {"rows": rows, "deviation": mean}, is_try)
    return 0 if mean <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
