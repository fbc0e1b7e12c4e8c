"""The peak, to the byte: how much of the arena steps write, beside what their plans say.

    python benchmarks/run.py exact_peak [--small] [--case NAME ...]

Method. The trainings of step_time.py at 100 and 50 % of the plain peak in memory alone and at 30 %
with a disk; a budget that has no plan is left out. After two steps the arena is filled with a
pattern behind the homes, a step runs, and whatever is another byte then was written; a second time
with the complement of the pattern. Above the plan's height nothing may be. Where the last byte that
was written is below it, the highest block is one that the kernel which asked for it did not fill.
With --case, the rows of the other cases stay as they were kept.
"""

import sys
from pathlib import Path

from benchmarks.output import Row, arguments, kept_rows, machine, mib, save, show
from benchmarks.steps.prediction import peak_bytes
from benchmarks.steps.step_time import CASES
from benchmarks.steps.workers import WorkerProcess

BUDGETS = ((1.0, ""), (0.5, ""), (0.3, ":disk"))


def measure(name: str, small: bool) -> list[Row]:
    """A row for each budget that has a plan."""
    peak = peak_bytes(name, small)
    rows: list[Row] = []
    for share, below in BUDGETS:
        with WorkerProcess(name, f"{int(peak * share)}{below}", small) as ours:
            if "too_small" in ours.started:
                continue
            for _ in range(2):
                ours.ask("step")
            row: Row = {"case": name, "share": share, "tiers": "disk" if below else "memory alone"}
            rows.append(row | ours.ask("touched") | {"commit": machine()["commit"]})
    return rows


def main() -> int:
    """1 if a step wrote above its height."""
    parser = arguments(__doc__)
    parser.add_argument("--case", action="append", choices=CASES)
    args = parser.parse_args()
    rows = kept_rows(Path(__file__).stem, args.case or CASES, args.small)
    for name in args.case or CASES:
        rows += measure(name, args.small)
        save(Path(__file__).stem, {"rows": rows}, args.small)
    table = [
        {
            "case": row["case"],
            "share": f"{row['share']:.0%}",
            "tiers": row["tiers"],
            "height": mib(row["height_bytes"]),
            "height, bytes": row["height_bytes"],
            "written up to": row["end_bytes"],
            "not filled": row["height_bytes"] - row["end_bytes"],
        }
        for row in rows
    ]
    show("what steps write of the arena", table)
    exact = sum(row["height_bytes"] == row["end_bytes"] for row in rows)
    print(f"to the byte: {exact} of {len(rows)}")
    return 1 if any(row["end_bytes"] > row["height_bytes"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
