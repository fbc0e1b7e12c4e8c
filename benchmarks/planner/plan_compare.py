"""Compares what the planner reaches with what it reached at an earlier commit.

    python benchmarks/run.py plan_compare --before COMMIT

Both are results/plan.json, that of the work tree and that of the commit; `make bench-plan` writes
it. Rows are paired by machine, program, share of the plain peak and policy. Rows below the floor
are left out: each is measured at a budget of its own.

quality  Time over bound, after over before: mean by policy, at most 1.002, and worst row, at most
         1.02. A row that had a plan and has none now misses the goal.
layout   Height over peak, after over before, of the worst program: at most 1.
seconds  Of processors for all plans of `quality`, and for those of `speed`, after over before: at
         most 1, as far as two runs repeat, which is 10 % here.
"""

import json
import subprocess
import sys

from benchmarks.output import RESULTS, ROOT, Row, arguments, save, show
from benchmarks.planner.plan_figures import POLICIES, geometric_mean

MOST_MEAN, MOST_WORST, MOST_SECONDS = 1.002, 1.02, 1.1
SAME_HEIGHT = 1.00001  # Times the height: alignment.


def ratios(before: Row, after: Row) -> list[Row]:
    """By policy: mean and worst of time over bound, after over before."""
    places = ("machine", "program", "percent")
    now = {tuple(row[key] for key in places): row for row in after["quality"]}
    found: list[Row] = []
    for policy in POLICIES:
        rows: dict[str, float] = {}
        lost: list[str] = []
        for old in before["quality"]:
            new = now.get(tuple(old[key] for key in places))
            was = old["ratios"].get(policy)
            if old["below_floor"] or new is None or new["below_floor"] or was is None:
                continue
            name = f"{old['program']} at {old['percent']} % on {old['machine']}"
            ratio = new["ratios"].get(policy)
            if ratio is None:
                lost.append(name)
            else:
                rows[name] = ratio / was
        mean, worst = geometric_mean(list(rows.values())), max(rows, key=lambda one: rows[one])
        found.append(
            {"policy": policy, "rows": len(rows), "mean": mean, "worst": rows[worst],
             "worst_row": worst, "without_plan": lost,
             "reached": mean is not None and mean <= MOST_MEAN and rows[worst] <= MOST_WORST
                        and not lost}
        )  # fmt: skip
    return found


def heights(before: Row, after: Row) -> Row:
    """The program whose layout has grown most."""
    now = {row["program"]: row["ratio"] for row in after["layout"]}
    grown = {row["program"]: now[row["program"]] / row["ratio"] for row in before["layout"]}
    worst = max(grown, key=lambda one: grown[one])
    return {"worst": grown[worst], "program": worst, "reached": grown[worst] <= SAME_HEIGHT}


def seconds(before: Row, after: Row) -> list[Row]:
    """Of processors, by part."""
    found: list[Row] = []
    for part, column in (
        ("quality", "seconds"), ("speed", "plan_seconds"), ("speed", "first_seconds"),
    ):  # fmt: skip
        was, now = (sum(row[column] for row in one[part]) for one in (before, after))
        found.append(
            {"part": f"{part}, {column}", "before_s": was, "after_s": now, "ratio": now / was,
             "reached": now / was <= MOST_SECONDS}
        )  # fmt: skip
    return found


def main() -> int:
    """1 if a goal was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--before", default="HEAD", help="the commit whose plan.json is compared")
    args = parser.parse_args()
    path = (RESULTS / "plan.json").relative_to(ROOT)
    command = ["git", "show", f"{args.before}:{path}"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    before, after = json.loads(shown), json.loads((ROOT / path).read_text())
    result: Row = {"before": before["machine"], "after": after["machine"]}
    result["quality"] = ratios(before, after)
    result["layout"] = heights(before, after)
    result["seconds"] = seconds(before, after)
    print(f"before: {before['machine']['commit']}; after: {after['machine']['commit']}")
    show(
        "time over bound, after over before",
        [
            {"case": row["policy"], "rows": row["rows"], "mean": f"{row['mean']:.5f}",
             "worst": f"{row['worst']:.4f}", "of": row["worst_row"],
             "without a plan now": ", ".join(row["without_plan"]) or "none",
             "reached": "yes" if row["reached"] else "NO"}
            for row in result["quality"]
        ],
    )  # fmt: skip
    layout = result["layout"]
    print(f"layout: at worst {layout['worst']:.6f} times the height, of {layout['program']}")
    show(
        "seconds of processors",
        [
            {"case": row["part"], "before": f"{row['before_s']:.1f}",
             "after": f"{row['after_s']:.1f}", "after / before": f"{row['ratio']:.2f}",
             "reached": "yes" if row["reached"] else "NO"}
            for row in result["seconds"]
        ],
    )  # fmt: skip
    result["target_reached"] = layout["reached"] and all(
        row["reached"] for row in result["quality"] + result["seconds"]
    )
    save("plan_compare", result, args.small)
    return 0 if result["target_reached"] else 1


if __name__ == "__main__":
    sys.exit(main())
