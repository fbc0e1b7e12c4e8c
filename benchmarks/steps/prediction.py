"""Prediction: the seconds of a step that the plan says, beside those that it takes.

    python benchmarks/run.py prediction [--small] [--case NAME ...]

Method. The trainings of step_time.py at 100 and 50 % of the plain peak in memory alone and at 50
and 30 % with a disk; a budget that has no plan is left out. Each is a process of its own, one at a
time, so that nothing else runs meanwhile. Three rounds, each with a profile of its own, for the
machine's speed changes from minute to minute; the MLP, whose step takes milliseconds, has fifteen,
as a round of it is over before the machine changes. Predicted is the median of all predictions,
measured that of all steps, five each after two that warm up. The deviation of a row is the
larger of the two figures over the smaller, less one; theirs is a geometric mean. With --case, the
rows of the other cases stay as they were kept.
"""

import math
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.output import Row, arguments, kept_rows, machine, mib, save, show
from benchmarks.steps.step_time import CASES
from benchmarks.steps.workers import WorkerProcess

BUDGETS = ((1.0, ""), (0.5, ""), (0.5, ":disk"), (0.3, ":disk"))
ROUNDS, SHORT_ROUNDS = 3, 15
SHORT = ("mlp",)
WARM, STEPS = 2, 5
GOAL = 0.05


def peak_bytes(name: str, small: bool) -> int:
    """The plain peak."""
    with WorkerProcess(name, "plain", small) as plain:
        for _ in range(2):  # The first makes optimizer state.
            plain.ask("step")
        return int(plain.ask("peak")["bytes"])


class Figures:
    """Of a training in a budget, over all rounds."""

    def __init__(self, name: str, share: float, below: str) -> None:
        self.name, self.share, self.below = name, share, below
        self.predicted_s: list[float] = []
        self.measured_s: list[float] = []

    def run(self, peak: int, small: bool, cache: str) -> None:
        """One round; nothing where there is no plan."""
        how = f"{int(peak * self.share)}{self.below}"
        with WorkerProcess(self.name, how, small, {"FITSTEP_CACHE": cache}) as ours:
            if "too_small" in ours.started:
                return
            self.measured_s += [ours.ask("step")["seconds"] for _ in range(WARM + STEPS)][WARM:]
            self.predicted_s.append(ours.ask("predicted")["seconds"])

    def row(self, peak: int) -> Row:
        """For the results."""
        predicted = statistics.median(self.predicted_s)
        measured = statistics.median(self.measured_s)
        return {
            "case": self.name,
            "share": self.share,
            "tiers": "disk" if self.below else "memory alone",
            "budget_bytes": int(peak * self.share),
            "predicted_s": predicted,
            "measured_s": measured,
            "of_rounds": [self.predicted_s, self.measured_s],
            "deviation": max(predicted / measured, measured / predicted) - 1,
            "commit": machine()["commit"],
        }


def measure(name: str, small: bool) -> list[Row]:
    """A row for each budget that has a plan."""
    peak = peak_bytes(name, small)
    every = [Figures(name, share, below) for share, below in BUDGETS]
    for _ in range(SHORT_ROUNDS if name in SHORT else ROUNDS):
        with tempfile.TemporaryDirectory() as cache:
            for figures in every:
                figures.run(peak, small, cache)
    rows = [figures.row(peak) for figures in every if figures.predicted_s]
    for row in rows:
        found = f"{100 * row['deviation']:.1f} % off"
        print(f"{name} at {row['share']:.0%}, {row['tiers']}: {found}", flush=True)
    return rows


def main() -> int:
    """1 if the goal was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--case", action="append", choices=CASES)
    args = parser.parse_args()
    rows = kept_rows(Path(__file__).stem, args.case or CASES, args.small)
    for name in args.case or CASES:
        rows += measure(name, args.small)
    mean = math.exp(statistics.fmean(math.log1p(row["deviation"]) for row in rows)) - 1
    table = [
        {
            "case": row["case"],
            "share": f"{row['share']:.0%}",
            "tiers": row["tiers"],
            "budget": mib(row["budget_bytes"]),
            "predicted": f"{1e3 * row['predicted_s']:.1f} ms",
            "measured": f"{1e3 * row['measured_s']:.1f} ms",
            "predicted / measured": f"{row['predicted_s'] / row['measured_s']:.3f}",
        }
        for row in rows
    ]
    show("predicted and measured seconds of a step", table)
    print(f"deviation, geometric mean: {100 * mean:.1f} %; the goal is {100 * GOAL:.0f} %")
    save(Path(__file__).stem, {"rows": rows, "deviation": mean}, args.small)
    return 0 if mean <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
