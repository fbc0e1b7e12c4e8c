"""What codes of copies to the disk tier are worth: steps that may use them beside others.

    python benchmarks/run.py codes [--small] [--rounds N] [--case NAME ...]

Method. Trainings in a small share of their plain peak beside a disk tier, on the drive of the
folder of temporary files and on one that is made slower (slow_drive.cpp is preloaded, also while
the drive's rates are measured). Two processes take turns step by step: one with `disk_codes=False`,
one whose first step samples its copies, behind which the planner chooses. Where it chooses none,
both do the same. Written are bytes per step. With --case, the rows of the others stay as they were
kept.
"""

import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.output import Row, arguments, kept_rows, machine, mib, save, show
from benchmarks.steps.prediction import peak_bytes
from benchmarks.steps.workers import WorkerProcess, by_turns

CASES = {"resnet50_16_channels_last": 0.20, "unet": 0.25, "vgg16": 0.35, "gpt": 0.20}
DRIVES_MB_PER_S = (None, 500, 200)  # None: the one that is there.
SHIM = Path(__file__).with_name("slow_drive.cpp")
WAYS = {"coded": ":disk", "as they are": ":disk-as-is"}
WARM = 3  # The first makes optimizer state, the second is sampled, the third is in codes.


def build_shim(folder: str) -> str:
    """The library to preload."""
    path = f"{folder}/slow_drive.so"
    command = ["c++", "-std=c++20", "-O1", "-fPIC", "-shared", str(SHIM), "-o", path, "-ldl"]
    subprocess.run(command, check=True)
    return path


def measure(name: str, budget: int, drive: int | None, rounds: int, small: bool) -> Row:
    """One training on one drive."""
    row: Row = {"case": name, "drive_mb_per_s": drive, "budget_bytes": budget, "rounds": rounds}
    with tempfile.TemporaryDirectory() as folder:
        env = {"FITSTEP_CACHE": folder}
        if drive is not None:
            env |= {"LD_PRELOAD": build_shim(folder), "SLOW_DRIVE": str(drive * 10**6)}
        with ExitStack() as stack:
            workers = {
                way: stack.enter_context(WorkerProcess(name, f"{budget}{below}", small, env))
                for way, below in WAYS.items()
            }
            seconds = by_turns(workers, WARM, rounds)
            for way, worker in workers.items():
                row[way] = worker.ask("disk") | {"seconds": statistics.median(seconds[way])}
                row[way]["predicted_s"] = worker.ask("predicted")["seconds"]
            coded, plain = (worker.ask("bits") for worker in workers.values())
            row["same_bits"] = coded == plain
    return row | {"commit": machine()["commit"]}


def main() -> int:
    """1 if bits differed."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", action="append", choices=CASES)
    args = parser.parse_args()
    rows = kept_rows(Path(__file__).stem, args.case or [*CASES], args.small)
    for name in args.case or CASES:
        budget = int(peak_bytes(name, args.small) * (0.9 if args.small else CASES[name]))
        for drive in DRIVES_MB_PER_S:
            rows.append(measure(name, budget, drive, args.rounds, args.small))
            save(Path(__file__).stem, {"rows": rows}, args.small)
    table: list[Row] = []
    for row in rows:
        drive = row["drive_mb_per_s"]
        coded, plain = (row[way] for way in WAYS)
        line: Row = {"case": row["case"], "drive": f"{drive} MB/s" if drive else "as it is"}
        line |= {"budget": mib(row["budget_bytes"]), "in codes": coded["coded_copies"]}
        line |= {"written": mib(coded["written_bytes"]), "without": mib(plain["written_bytes"])}
        line |= {"step": f"{coded['seconds']:.3f} s", "without codes": f"{plain['seconds']:.3f} s"}
        line |= {"ratio": f"{coded['seconds'] / plain['seconds']:.3f}"}
        line |= {"predicted": f"{coded['predicted_s'] / plain['predicted_s']:.3f}"}
        line |= {"same bits": "yes" if row["same_bits"] else "NO"}
        table.append(line)
    show("codes of copies to the disk, medians of interleaved steps", table)
    return 0 if all(row["same_bits"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
