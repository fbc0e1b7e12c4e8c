"""What each part of the planner gives and costs: left out one at a time, over all programs.

    python -m benchmarks.planner.ablation [--only PART ...] [--programs REGEX] [--jobs N]

Method. A build of its own (`make ablation` makes it, -DFITSTEP_ABLATION=ON) plans with everything,
and then without each part in turn, with one thread. Cases are the programs of benchmarks/programs/
at 70, 50, 30 and 20 % of the plain peak and, below the floor, at the least budget with a plan, on
two machines, by both moves together; at 50 % by either alone, too, and by recompute down to 10 %;
everything kept, for heights; and the small programs of tests/golden/ on the A100. Programs in
benchmarks/programs/packed/ have optional ops, as those that run have; the others were captured
without. What was measured of the four largest, and of recompute below 50 %, is of few parts.

gain     How much longer the predicted step takes without the part: mean over the cases, most, and
         worst (below zero: a plan that is faster without it); the same by either move alone.
bound    How much lower the proven bound is without it: mean and most.
height   How much higher the layout with everything kept is without it: most.
lost     Cases for which no plan is found without it; found: for which one is found only without.
seconds  Of processors, without the part over with it, all cases together.
lines    Of its own files (others have a few more).

`ablation.jsonl` beside the table has every row; a part that is asked for by --only is measured
again, others are taken from there.
"""

import json
import math
import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from benchmarks.output import RESULTS, ROOT, Row, arguments, show
from benchmarks.planner import plan_cli
from benchmarks.planner.plan import on, path_of, programs, progress
from benchmarks.planner.plan_figures import MACHINES, MOST_MEAN

PLANNER = ROOT / "fitstep" / "planner"
ROWS = RESULTS / "ablation.jsonl"
GOLDEN = ROOT / "tests" / "golden"
ALL = "all parts"
SMALL = ("gpt", "lstm", "mlp", "unet")
PACKED = ("packed/dcgan-d", "packed/resnet-50", "packed/unet", "packed/vgg-e-64")
TIGHT = (40, 30, 20, 15, 10)  # For recompute alone.
ASKED = ("program", "machine", "policy", "budget")
# By name in the planner's own `has(...)`: the files that are there for it alone.
PARTS = {
    "order": ("orders/order.cpp", "orders/order.h"),
    "try orders": ("orders/try_orders.cpp", "orders/try_orders.h"),
    "reorder": ("orders/reorder.cpp", "orders/reorder.h"),
    "drafts": (),
    "prices": (),
    "drops": ("recompute/drops.cpp", "recompute/drops.h"),
    "reversal": ("recompute/reversal.cpp", "recompute/reversal.h"),
    "flips of values": (),
    "flips of homes": (),
    "keep more": (),
    "lower target": (),
    "faster forms": (),
    "eviction rules": (),
    "tier rules": (),
    "roomy ways": (),
    "early": ("offload/early.cpp", "offload/early.h"),
    "holes": ("candidates/holes.cpp", "candidates/holes.h"),
    "guides": (),
    "exact layout": (
        "layout/exact_layout.cpp", "layout/exact_layout_state.cpp", "layout/exact_layout.h",
    ),
    "packing": (
        "packing/packing.cpp", "packing/packing.h", "packing/reduced.cpp", "packing/reduced.h",
    ),
    "chain charge": ("bounds/chain_charge.cpp", "bounds/chain_charge.h"),
    "path bound": ("bounds/path_bound.cpp", "bounds/path_bound.h"),
}  # fmt: skip

# Lines of what has gone for giving nothing.
DELETED = {
    "cover bound": 331,
    "bisections": 15,
    "exhaustive": 257,
    "every offload": 120,
    "flips": 48,
    "flips of forms": 178,
    "frugal": 40,
    "packing sets": 254,
    "other space": 20,
    "eviction sets": 25,
    "shrinking": 158,
}


def plan(asked: Row, without: str) -> Row:
    """What the planner answers to `asked` without that part."""
    program = asked["program"]
    is_small = program.startswith("small ")
    path = GOLDEN / f"{program[6:]}.program" if is_small else path_of(program)
    options = on(asked["machine"], asked["policy"])
    answer = plan_cli.ask("plan", path, "--budget", asked["budget"], *options, "--threads", "1")
    row = {"part": without, **asked, "outcome": answer.outcome, "seconds": answer.seconds}
    certificate = answer.said.get("certificate", {})
    for key in ("predicted_ps", "bound_ps", "height_bytes", "peak_bytes"):
        row[key] = certificate.get(key)
    for key in ("floor_budget_bytes", "least_found_budget_bytes"):
        row[key] = answer.said.get(key)
    return row


def whole(case: tuple[str, str]) -> list[Row]:
    """Rows of one program on one machine, by all parts: those that have a plan."""
    program, machine = case

    def ask(budget: object, policy: str = "auto") -> Row:
        asked = (program, machine, policy, str(budget))
        return plan(dict(zip(ASKED, asked, strict=True)), ALL)

    rows: list[Row] = []
    for percent in MOST_MEAN:
        row = ask(f"{percent}%")
        is_last = row["outcome"] == "too small"
        if is_last:
            row = ask(row["floor_budget_bytes"])
        if row["outcome"] == "gave up":
            row = ask(row["least_found_budget_bytes"])
        rows.append(row)
        if is_last:
            break
    rows += [ask("50%", "recompute"), ask("50%", "offload"), ask("1000%", "none")]
    rows += [ask(f"{percent}%", "recompute") for percent in TIGHT]
    found = [row for row in rows if row["outcome"] != "too small"]
    progress(f"{program}, {machine}: {len(found)} cases")
    return found


def run(part: str, jobs: int, wanted: str) -> Iterator[Row]:
    """Rows without the part, as they come."""
    os.environ["FITSTEP_WITHOUT"] = part
    with ThreadPoolExecutor(jobs) as pool:
        if part == ALL:
            names = (*programs(quick=False), *PACKED)
            large = [(name, machine) for machine in MACHINES for name in names]
            cases = [(f"small {name}", MACHINES[0]) for name in SMALL] + large
            cases = [case for case in cases if re.search(wanted, case[0])]
            yield from chain.from_iterable(pool.map(whole, cases))
        else:
            asked = [{key: row[key] for key in ASKED} for row in stored()[ALL].values()]
            asked = [one for one in asked if re.search(wanted, one["program"])]
            yield from pool.map(lambda one: plan(one, part), asked)


def stored() -> dict[str, dict[tuple[str, ...], Row]]:
    """By part and by what was asked, the newest of each."""
    found: dict[str, dict[tuple[str, ...], Row]] = {}
    for line in ROWS.read_text().splitlines() if ROWS.exists() else ():
        row = json.loads(line)
        found.setdefault(row["part"], {})[tuple(row[key] for key in ASKED)] = row
    return found


def times(rows: list[tuple[Row, Row]], key: str) -> list[float]:
    """How many times as much of it there is without as with the part, where both have a plan."""
    pairs = [(without[key], with_it[key]) for without, with_it in rows]
    return [a / b for a, b in pairs if a is not None and b is not None]


def more(ratios: list[float], how: str) -> str:
    """For a table, in percent."""
    if not ratios:
        return "-"
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    chosen = {"mean": mean, "most": max(ratios), "least": min(ratios)}[how]
    return f"{100 * (chosen - 1):+.2f} %"


def lines_of(part: str) -> int | None:
    """Of the files that are there for the part alone."""
    if part in DELETED:
        return DELETED[part]
    counts = [len((PLANNER / file).read_text().splitlines()) for file in PARTS[part]]
    return sum(counts) if counts else None


def shown(part: str, rows: dict[tuple[str, ...], Row], all_rows: dict[tuple[str, ...], Row]) -> Row:
    """One line of the table."""
    pairs = [(row, all_rows[key]) for key, row in rows.items()]
    planned = [pair for pair in pairs if pair[0]["policy"] == "auto"]
    alone = [pair for pair in pairs if pair[0]["policy"] in ("recompute", "offload")]
    plain = [pair for pair in pairs if pair[0]["policy"] == "none"]
    outcomes = [(without["outcome"] == "fits", with_it["outcome"] == "fits")
                for without, with_it in pairs]  # fmt: skip
    gain, bound = times(planned, "predicted_ps"), times(planned + alone, "bound_ps")
    seconds = times(pairs, "seconds")
    total = sum(row["seconds"] for row, _ in pairs) / sum(row["seconds"] for _, row in pairs)
    return {
        "case": part,
        "gain": more(gain, "mean"),
        "most": more(gain, "most"),
        "worst": more(gain, "least"),
        "alone": more(times(alone, "predicted_ps"), "mean"),
        "most alone": more(times(alone, "predicted_ps"), "most"),
        "bound": more(bound, "mean"),
        "most of bound": more(bound, "least"),
        "height": more(times(plain, "height_bytes"), "most"),
        "lost": outcomes.count((False, True)),
        "found": outcomes.count((True, False)),
        "cases": len(seconds),
        "seconds": f"{total:.2f}",
        "lines": lines_of(part),
    }


def main() -> int:
    """Measures what is asked for, and shows all that is known."""
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="*", default=[ALL, *PARTS], help="parts; none: the table")
    parser.add_argument("--programs", default="", help="a regular expression")
    parser.add_argument("--jobs", type=int, default=2, help="plans at a time")
    args = parser.parse_args()
    plan_cli.COMMAND = ROOT / "build" / "ablation" / "fitstep"
    for part in args.only:
        for row in run(part, args.jobs, args.programs):
            with ROWS.open("a") as file:
                file.write(json.dumps(row) + "\n")
        progress(f"without {part}: done" if part != ALL else "with all parts: done")
    known = stored()
    all_rows = known.pop(ALL)
    show("without one part", [shown(part, rows, all_rows) for part, rows in known.items()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
