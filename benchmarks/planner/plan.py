"""What the planner reaches: layouts, plans beside their bounds, and how it grows (make bench-plan).

    python benchmarks/run.py plan [--quick] [--only layout quality speed] [--jobs N]
        [--limit SECONDS]

Method. The programs are those of benchmarks/programs/, with times by the roofline of a machine's
profile; nothing runs but the command `fitstep`, in the release build. Every plan has passed the
verifier, or there would be none.

layout   Every program with everything kept. Height of the layout over the most bytes that are live
         at once, which no layout can beat.
quality  Predicted time over the proven bound for the same budget, at 70, 50, 30 and 20 % of the
         plain peak, on two machines, by three policies: both moves, recompute only, offload only.
         Where the proven floor is above the percentage there can be no plan: such a program has one
         more row, at the least budget for which a plan was found, which is left out of the mean. A
         row for which no plan was found though the floor allows one is left in and misses the goal.
speed    Synthetic steps of 1,000 to 100,000 ops on the A100: one plan at half of the plain peak,
         the first valid one (as with a time limit that has passed), the whole curve, and resident
         memory. The exponent is the slope of log time over log ops.

Seconds are those of processors, all threads together, which other work on the machine changes
little; for speed those that passed come first. A run of more than SECONDS of processors is cut off
and shows as "late".

--quick takes two programs and two sizes; it and --only write no results.
"""

import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fitstep_kit.programs.synthetic_gpt import make

from benchmarks.output import MIB, ROOT, Row, arguments, save, show
from benchmarks.planner.plan_cli import Answer, ask, policies
from benchmarks.planner.plan_figures import (
    MACHINES,
    MOST_MEAN,
    POLICIES,
    exponent,
    joint_is_best,
    ratio_of,
    ratios_of,
    summary,
)

PROGRAMS = ROOT / "benchmarks" / "programs"
QUICK = ("resnet-50", "unet")
SIZES = (1_000, 1_500, 3_000, 10_000, 30_000, 100_000)
MOST_HEIGHT = 1.02


def programs(quick: bool) -> list[str]:
    """Names of the stored programs."""
    stored = sorted(path.name.removesuffix(".program.zst") for path in PROGRAMS.glob("*.zst"))
    return [name for name in stored if not quick or name in QUICK]


def path_of(name: str) -> Path:
    """Where a program is stored."""
    return PROGRAMS / f"{name}.program.zst"


def on(machine: str, policy: str = "auto") -> list[str]:
    """The options of a machine and a policy."""
    return ["--machine", machine, "--times", "roofline", "--policy", policy]


class Bench:
    """The three parts; each fills rows and shows them as a table."""

    def __init__(self, quick: bool, jobs: int, limit_s: int) -> None:
        self._quick = quick
        self._jobs = jobs
        self._limit_s = limit_s
        self._policies = policies()

    def _plan(self, path: Path, budget: str, *options: str) -> Answer:
        return ask("plan", path, "--budget", budget, *options, limit_s=self._limit_s)

    def layout(self) -> list[Row]:
        """Height over peak with everything kept."""
        rows: list[Row] = []
        for name in programs(self._quick):
            answer = self._plan(path_of(name), "1000%", *on(MACHINES[0], "none"))
            plan = answer.said.get("certificate")
            ratio = plan["height_bytes"] / plan["peak_bytes"] if plan else None
            rows.append(
                {"program": name, "outcome": answer.outcome, "ratio": ratio,
                 "peak_bytes": plan and plan["peak_bytes"], "seconds": answer.seconds}
            )  # fmt: skip
            rows[-1]["reached"] = ratio is not None and ratio <= MOST_HEIGHT
            progress(f"layout of {name}: {number(ratio)}")
        show("layout with everything kept", [self._layout_row(row) for row in rows])
        return rows

    @staticmethod
    def _layout_row(row: Row) -> Row:
        return {
            "case": row["program"],
            "peak": gib(row["peak_bytes"]),
            "height / peak": number(row["ratio"], 4),
            f"at most {MOST_HEIGHT}": verdict(row["reached"]),
            "seconds": f"{row['seconds']:.1f}",
        }

    def quality(self) -> list[Row]:
        """Time over bound by machine, program, share of the plain peak and policy."""
        cases = [(machine, name) for machine in MACHINES for name in programs(self._quick)]
        with ThreadPoolExecutor(self._jobs) as pool:
            rows = [row for found in pool.map(self._quality_of, cases) for row in found]
        for machine in MACHINES:
            of_machine = [row for row in rows if row["machine"] == machine]
            show(f"time over bound on {machine}", [self._shown(row) for row in of_machine])
        return rows

    def _quality_of(self, case: tuple[str, str]) -> list[Row]:
        """From the largest budget down; all that are below the floor are one row."""
        rows: list[Row] = []
        for percent in MOST_MEAN:
            rows.append(self._quality_row(*case, percent))
            if rows[-1]["below_floor"]:
                break
        return rows

    def _quality_row(self, machine: str, name: str, percent: int) -> Row:
        row: Row = {"machine": machine, "program": name, "percent": percent}
        budget = f"{percent}%"
        answer = self._plan(path_of(name), budget, *on(machine))
        row["below_floor"] = answer.outcome == "too small"
        if row["below_floor"]:
            answer = self._at_least_budget(path_of(name), answer, on(machine))
        row["seconds"], row["outcome"] = answer.seconds, answer.outcome
        if answer.outcome == "fits":
            budget = str(answer.said["question"]["budget_bytes"])
            row["budget_bytes"] = int(budget)
            row["share"] = int(budget) / answer.said["question"]["plain_peak_bytes"]
        if answer.outcome == "gave up":
            least = answer.said["least_found_budget_bytes"]
            row["least_found_share"] = least / answer.said["question"]["plain_peak_bytes"]
        said = {"auto": answer.said}
        for policy in POLICIES[1:]:
            if policy in self._policies:
                said[policy] = self._plan(path_of(name), budget, *on(machine, policy)).said
        row["ratios"] = ratios_of(said)
        row["joint_is_best"] = joint_is_best(row["ratios"])
        shown = ", ".join(f"{key} {number(value)}" for key, value in row["ratios"].items())
        progress(f"{machine}, {name} at {percent} %: {row['outcome']}, {shown}")
        return row

    def _at_least_budget(self, path: Path, refused: Answer, options: list[str]) -> Answer:
        """The answer at the floor or, where no plan is found there, at the least budget found."""
        answer = self._plan(path, str(refused.said["floor_budget_bytes"]), *options)
        if answer.outcome == "gave up":
            answer = self._plan(path, str(answer.said["least_found_budget_bytes"]), *options)
        return answer

    @staticmethod
    def _shown(row: Row) -> Row:
        percent, is_below, outcome = row["percent"], row["below_floor"], row["outcome"]
        if "least_found_share" in row:
            outcome += f" above {100 * row['least_found_share']:.1f} %"
        shown = {
            "case": row["program"],
            "budget": f"{percent} % and less" if is_below else f"{percent} %",
            "measured at": f"{100 * row['share']:.1f} %" if "share" in row else "-",
            "outcome": outcome,
        }
        shown |= {name: number(row["ratios"].get(policy)) for policy, name in _COLUMNS.items()}
        return {**shown, "joint best": verdict(row["joint_is_best"]),
                "seconds": f"{row['seconds']:.1f}"}  # fmt: skip

    def speed(self) -> list[Row]:
        """Seconds and memory at each size."""
        rows: list[Row] = []
        with tempfile.TemporaryDirectory() as folder:
            for size in SIZES[: 2 if self._quick else None]:
                path = Path(folder) / f"{size}.program"
                path.write_text(make(size, seed=1))
                plan = self._plan(path, "50%", *on(MACHINES[0]))
                first = self._plan(path, "50%", *on(MACHINES[0]), "--time-limit", "0.001")
                curve = ask("curve", path, *on(MACHINES[0]), limit_s=self._limit_s)
                points = curve.said.get("points")
                rows.append(
                    {"ops": size, "outcome": plan.outcome, "ratio": ratio_of(plan.said),
                     "plan_seconds": plan.seconds, "plan_elapsed_s": plan.elapsed_s,
                     "plan_bytes": plan.memory_bytes, "first_ratio": ratio_of(first.said),
                     "first_seconds": first.seconds, "first_elapsed_s": first.elapsed_s,
                     "curve_seconds": curve.seconds, "curve_elapsed_s": curve.elapsed_s,
                     "curve_bytes": curve.memory_bytes,
                     "points": None if points is None else len(points)}
                )  # fmt: skip
                progress(f"{size} ops: plan {plan.elapsed_s:.1f} s, curve {curve.elapsed_s:.1f} s")
        show("how the planner grows", [self._speed_row(row) for row in rows])
        return rows

    @staticmethod
    def _speed_row(row: Row) -> Row:
        is_late = row["points"] is None
        return {
            "case": f"{row['ops']:,} ops",
            "outcome at 50 %": row["outcome"],
            "time / bound": number(row["ratio"]),
            "one plan": f"{row['plan_elapsed_s']:.2f} s, {row['plan_seconds']:.2f} s",
            "its memory": f"{row['plan_bytes'] / MIB:.0f} MiB",
            "first plan": f"{row['first_elapsed_s']:.2f} s, {row['first_seconds']:.2f} s",
            "its time / bound": number(row["first_ratio"]),
            "curve": ("over " if is_late else "")
            + f"{row['curve_elapsed_s']:.0f} s, {row['curve_seconds']:.0f} s",
            "curve's memory": f"{row['curve_bytes'] / MIB:.0f} MiB",
            "points": "-" if is_late else row["points"],
        }


_COLUMNS = {"auto": "joint", "recompute": "recompute only", "offload": "offload only"}


def number(value: float | None, digits: int = 3) -> str:
    """For a table."""
    return "-" if value is None else f"{value:.{digits}f}"


def gib(size_bytes: int | None) -> str:
    """For a table."""
    return "-" if size_bytes is None else f"{size_bytes / 2**30:.2f} GiB"


def verdict(reached: bool) -> str:
    """For a table."""
    return "yes" if reached else "NO"


def progress(line: str) -> None:
    """To whoever waits."""
    print(line, file=sys.stderr, flush=True)


def show_summary(rows: list[Row]) -> None:
    """The means as a table."""
    shown = []
    for row in rows:
        means = {
            name: number(row["means"][policy]) + f" ({row['solved'][policy]})"
            for policy, name in _COLUMNS.items()
        }
        shown.append(
            {"case": f"{row['machine']} at {row['percent']} %", "programs": row["rows"], **means,
             "goal": f"{row['goal']:.2f}", "worst": number(row["worst"]),
             "reached": verdict(row["reached"])}
        )  # fmt: skip
    show("geometric means of time over bound (over so many programs with a plan)", shown)


def main() -> int:
    """1 if a goal was missed."""
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", dest="small", help="the same as --small")
    parser.add_argument("--jobs", type=int, default=1, help="plans at a time, for quality alone")
    parser.add_argument("--limit", type=int, default=1200, help="processor seconds for one run")
    parts = ("layout", "quality", "speed")
    parser.add_argument("--only", nargs="*", choices=parts, default=parts)
    args = parser.parse_args()
    bench = Bench(args.small, args.jobs, args.limit)
    runs: dict[str, Callable[[], list[Row]]] = {part: getattr(bench, part) for part in parts}
    result: dict[str, Any] = {part: runs[part]() for part in parts if part in args.only}
    reached = all(row["reached"] for row in result.get("layout", []))
    if "quality" in result:
        result["means"] = summary(result["quality"])
        show_summary(result["means"])
        reached = reached and all(row["reached"] for row in result["means"])
        reached = reached and all(row["joint_is_best"] for row in result["quality"])
    if "speed" in result:
        columns = ("plan_seconds", "curve_seconds")
        result["exponents"] = {column: exponent(result["speed"], column) for column in columns}
        shown = [f"{key} {number(value, 2)}" for key, value in result["exponents"].items()]
        print(f"growth exponents: {', '.join(shown)}")
    is_partial = args.small or args.only != parts
    save(Path(__file__).stem, {**result, "target_reached": reached}, is_partial)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
