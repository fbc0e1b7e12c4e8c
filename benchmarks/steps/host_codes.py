"""What codes of copies to the host tier save there, and what they cost.

    python benchmarks/run.py host_codes [--small] [--rounds N] [--case NAME ...]

Method. Trainings under a policy that offloads all it can, in the plain peak, beside a host tier in
RAM. Two processes take turns step by step: one as it is by default, one with `host_codes=True`,
whose first step samples its copies. Evicted are bytes per step, by the lanes' count; held is the
anonymous resident memory that the process has more than before its first step, in which all of the
arena has its pages already: what the host tier takes. With --case, the rows of the others stay as
they were kept.
"""

import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.output import Row, arguments, kept_rows, machine, mib, save, show
from benchmarks.steps.prediction import peak_bytes
from benchmarks.steps.workers import WorkerProcess, by_turns

CASES = ("vgg16", "resnet50_16_nchw", "unet")
POLICY = "vdnn++-all-m"
WAYS = {"coded": f":host-coded:{POLICY}", "as they are": f":host:{POLICY}"}
WARM = 3  # The first makes optimizer state, the second is sampled, the third is in codes.


def measure(name: str, rounds: int, small: bool) -> Row:
    """One training."""
    budget = int(peak_bytes(name, small) * 1.1)
    row: Row = {"case": name, "policy": POLICY, "budget_bytes": budget, "rounds": rounds}
    with ExitStack() as stack:
        workers = {
            way: stack.enter_context(WorkerProcess(name, f"{budget}{below}", small))
            for way, below in WAYS.items()
        }
        before = {way: worker.ask("resident")["bytes"] for way, worker in workers.items()}
        seconds = by_turns(workers, WARM, rounds)
        for way, worker in workers.items():
            row[way] = worker.ask("host") | {"seconds": statistics.median(seconds[way])}
            row[way]["held_bytes"] = worker.ask("resident")["bytes"] - before[way]
        coded, plain = (worker.ask("bits") for worker in workers.values())
        row["same_bits"] = coded == plain
    return row | {"commit": machine()["commit"]}


def main() -> int:
    """1 if bits differed, or no copy was in a code."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", action="append", choices=CASES)
    args = parser.parse_args()
    rows = kept_rows(Path(__file__).stem, args.case or CASES, args.small)
    for name in args.case or CASES:
        rows.append(measure(name, args.rounds, args.small))
        save(Path(__file__).stem, {"rows": rows}, args.small)
    table: list[Row] = []
    for row in rows:
        coded, plain = (row[way] for way in WAYS)
        line: Row = {"case": row["case"], "policy": row["policy"]}
        line |= {"in codes": coded["coded_copies"]}
        line |= {"evicted": mib(coded["evicted_bytes"]), "without": mib(plain["evicted_bytes"])}
        line |= {"held": mib(coded["held_bytes"]), "held without": mib(plain["held_bytes"])}
        line |= {"step": f"{coded['seconds']:.3f} s", "step without": f"{plain['seconds']:.3f} s"}
        line |= {"ratio": f"{coded['seconds'] / plain['seconds']:.3f}"}
        line |= {"bits as without": "yes" if row["same_bits"] else "NO"}
        table.append(line)
    show("codes of copies to the host, medians of interleaved steps", table)
    return 0 if all(row["same_bits"] and row["coded"]["coded_copies"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
