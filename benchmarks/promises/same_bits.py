"""Same bits as plain PyTorch over 8 steps, for every case, at 100 %, 60 % and the least budget.

    python benchmarks/run.py same_bits [--small] [--case NAME ...]

Every case has a process of its own, so one that dies is one failed row. Compared are parameters,
buffers, optimizer and scheduler state, the random generator and the loss of every step.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from fitstep_kit.subjects.cases import CASES
from fitstep_kit.subjects.equal_bits import differing_bits, least_budget, plain_peak, train_fitstep

import fitstep
from benchmarks.output import Row, arguments, command_of, mib, save, share, show

STEPS = 8


def budgets(case: str, tiny: bool) -> dict[str, int]:
    """The budgets to try, in bytes. A share below the least budget is left out: it cannot run."""
    peak, least = plain_peak(case, tiny), least_budget(case, tiny)
    shares = {"100 %": peak, "60 %": int(0.6 * peak)}
    return {name: size for name, size in shares.items() if size > least} | {"least": least}


def measure(case: str, label: str, budget: int, tiny: bool) -> Row:
    """Trains once in `budget` and compares."""
    row: Row = {"case": case, "budget": label, "budget_bytes": budget}
    row["plain_peak_bytes"] = plain_peak(case, tiny)
    start = time.perf_counter()
    try:
        run = train_fitstep(case, budget, STEPS, tiny)
    except fitstep.FitstepError as error:
        return row | {"same_bits": False, "why": f"{type(error).__name__}: {error}"}
    different = differing_bits(case, run, STEPS, tiny)
    row["seconds"] = round(time.perf_counter() - start, 1)
    row["peak_bytes"] = run.held_bytes
    row["within_budget"] = row["peak_bytes"] <= budget
    row["same_bits"] = not different
    row["why"] = f"{len(different)} differ: {', '.join(different[:3])}" if different else ""
    return row


def run_case(case: str, small: bool) -> list[Row]:
    """All budgets of one case, in another process."""
    command = [*command_of(__file__), "--only", case] + (["--small"] if small else [])
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    rows = [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
    if answer.returncode != 0:
        why = f"stopped with code {answer.returncode}"
        rows.append({"case": case, "budget": "?", "same_bits": False, "why": why})
    for row in rows:
        verdict = "same bits" if row["same_bits"] else f"FAILED: {row['why']}"
        print(f"{case:24} {row['budget']:6} {verdict}", flush=True)
    return rows


def only(case: str, small: bool) -> int:
    """The other process: one line of JSON per budget."""
    try:
        for label, budget in budgets(case, small).items():
            print(json.dumps(measure(case, label, budget, small)), flush=True)
    except fitstep.FitstepError as error:
        why = f"{type(error).__name__}: {error}"
        print(json.dumps({"case": case, "budget": "?", "same_bits": False, "why": why}))
    return 0


def main() -> int:
    """1 if any row has other bits than plain PyTorch or failed."""
    parser = arguments(__doc__)
    parser.add_argument("--case", nargs="*", default=list(CASES), help="only these")
    parser.add_argument("--only", help="run one case in this process, for the driver")
    args = parser.parse_args()
    if args.only:
        return only(args.only, args.small)
    rows = [row for case in args.case for row in run_case(case, args.small)]
    table = [
        {
            "case": row["case"],
            "budget": row["budget"],
            "bytes": mib(row.get("budget_bytes")),
            "of plain peak": share(row.get("budget_bytes"), row.get("plain_peak_bytes") or 1),
            "held at most": mib(row.get("peak_bytes")),
            "same bits": "yes" if row["same_bits"] else f"NO: {row['why']}",
        }
        for row in rows
    ]
    show(f"{STEPS} steps against plain PyTorch", table)
    good = sum(bool(row["same_bits"]) for row in rows)
    print(f"{good} of {len(rows)} runs have the same bits; {len(args.case)} cases")
    is_whole = not args.small and args.case == list(CASES)
    save(Path(__file__).stem, {"steps": STEPS, "rows": rows}, small=not is_whole)
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
