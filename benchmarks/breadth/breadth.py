"""Trains a tiny model of every family of five libraries with fitstep and with plain PyTorch.

    PYTHONPATH=python python -m benchmarks.breadth.breadth [--only PATTERN] [--sample N [--seed S]]
        [--part K/N] [--plain] [--again] [--small] [--results FILE]

Method. Three steps with AdamW, budget=None, nothing run before; compared bit for bit are the
losses, the model's and the optimizer's state, the batches and the generators. Plain PyTorch trains
in a process of its own, from two copies. A subject has 180 seconds in each process; one that dies
or hangs is an error of that subject alone. Each subject is one line of JSON in the results file,
with one of these outcomes; a later run goes on where this one stopped.

    right           the same bits
    wrong           other bits, and plain PyTorch, asked again in a new process, repeats its own
    refused         a CaptureError; the message's first line
    error           any other exception, the process died, or 180 seconds were not enough
    unrepeatable    plain PyTorch does not repeat itself
    plain-fails     plain PyTorch raises

--plain asks plain PyTorch alone; its outcome for what can be compared is "repeats". --small tries
five subjects and writes nothing. Packages: benchmarks/breadth/requirements.txt; the subjects of
those that are missing are left out.
"""

import json
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.breadth.asked import Worker
from benchmarks.breadth.subjects import SKIPPED, library_of, names
from benchmarks.output import RESULTS, Row, arguments, save, show

TIMEOUT_S = 180
OUTCOMES = ("right", "wrong", "refused", "error", "unrepeatable", "plain-fails", "repeats")


def measure(name: str, plain: Worker, fitted: Worker | None) -> Row:
    """The subject's line."""
    start = time.perf_counter()
    row: Row = {"case": name}
    row |= compared(name, plain, fitted)
    row["why"] = re.sub(r"/\S*/(site-packages|fitstep)/", r"\1/", row["why"])
    row["seconds"] = round(time.perf_counter() - start, 2)
    return row


def compared(name: str, plain: Worker, fitted: Worker | None) -> Row:
    """The outcome, and what led to it."""
    want = plain.ask(name)
    if "raised" in want:
        return {"outcome": "plain-fails", "why": want["raised"]}
    if not want["repeats"]:
        return {"outcome": "unrepeatable", "why": ""}
    if fitted is None:
        return {"outcome": "repeats", "why": ""}
    got = fitted.ask(name)
    took: Row = {"compile_s": round(got["compile_s"], 2)} if "compile_s" in got else {}
    if "refused" in got:
        return {"outcome": "refused", "why": got["refused"], **took}
    if "raised" in got:
        fitted.stop()  # What it left behind must not reach the next subject.
        return {"outcome": "error", "why": got["raised"], **took}
    different = differences(want["hashes"], got["hashes"])
    if not different:
        why = "" if got["kept"] else "the state changed in close()"
        return {"outcome": "right" if got["kept"] else "wrong", "why": why, **took}
    fitted.stop()
    plain.stop()
    if plain.ask(name).get("hashes") != want["hashes"]:
        return {"outcome": "unrepeatable", "why": "in a new process", **took}
    shown = ", ".join(different[:4])
    return {"outcome": "wrong", "why": f"{len(different)} differ: {shown}", **took}


def differences(want: dict[str, str], got: dict[str, str]) -> list[str]:
    """What has other bits or is missing on one side, losses first."""
    return [name for name in {**want, **got} if want.get(name) != got.get(name)]


def chosen(only: str | None, sample: int | None, seed: int, part: str) -> list[str]:
    """The names to measure."""
    found = [name for name in names() if re.search(only or "", name)]
    if sample is not None:
        found = random.Random(seed).sample(found, min(sample, len(found)))
    index, count = (int(number) for number in part.split("/"))
    return found[index - 1 :: count]


def rows_of(path: Path | None) -> list[Row]:
    """The lines that a former run has written."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def summary(rows: list[Row]) -> list[Row]:
    """One line per library: how many subjects had which outcome."""
    counts = Counter((library_of(row["case"]), row["outcome"]) for row in rows)
    seen = [outcome for outcome in OUTCOMES if any(of == outcome for _, of in counts)]
    return [
        {"case": library, **{outcome: counts[library, outcome] for outcome in seen}}
        for library in dict.fromkeys(library_of(row["case"]) for row in rows)
    ]


def main() -> int:
    """The number of subjects that are wrong or errors, at most 100."""
    parser = arguments(__doc__)
    parser.add_argument("--only", help="subjects whose names match this regular expression")
    parser.add_argument("--sample", type=int, help="so many of them, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth of them, from the Kth on")
    parser.add_argument("--plain", action="store_true", help="plain PyTorch alone")
    parser.add_argument("--again", action="store_true", help="also what the results file has")
    parser.add_argument("--results", type=Path, default=RESULTS / "breadth.jsonl")
    args = parser.parse_args()
    path = None if args.small else args.results
    wanted = chosen(args.only, 5 if args.small else args.sample, args.seed, args.part)
    known = {} if args.again else {row["case"]: row for row in rows_of(path)}
    plain, fitted = Worker("plain", TIMEOUT_S), Worker("fitstep", TIMEOUT_S)
    for name in wanted:
        if name in known:
            continue
        known[name] = row = measure(name, plain, None if args.plain else fitted)
        print(f"{name:44} {row['outcome']:13} {row['seconds']:6.1f} s  {row['why']}", flush=True)
        if path is not None:
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
    plain.stop()
    fitted.stop()
    rows = [known[name] for name in wanted]
    show("subjects by outcome", summary(rows))
    is_whole = len(wanted) == len(names()) and not args.plain
    save("breadth", {"outcomes": summary(rows), "skipped": SKIPPED}, small=not is_whole)
    return min(100, sum(row["outcome"] in {"wrong", "error"} for row in rows))


if __name__ == "__main__":
    sys.exit(main())
