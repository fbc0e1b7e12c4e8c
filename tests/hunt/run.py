"""Runs the hunt: every case in plain PyTorch and through fitstep, one line each.

    python tests/hunt/run.py                    all cases
    python tests/hunt/run.py item optim         those whose name or class matches
    python tests/hunt/run.py --plain            plain PyTorch twice: are the cases themselves right?
    python tests/hunt/run.py --fork             in a process that a crash or a hang may end

Exit status 1 if a case is neither right, refused nor found.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kit


def main() -> int:
    """Parses the command line and runs what it names."""
    parser = argparse.ArgumentParser(description="Hunts for steps that train with other numbers.")
    parser.add_argument("names", nargs="*", help="regular expressions of names or classes")
    parser.add_argument("--json", metavar="FILE", help="write the outcomes to FILE")
    parser.add_argument("--budget", help='bytes, "60%%", or "least"; none if not given')
    parser.add_argument("--plain", action="store_true", help="compare plain PyTorch with itself")
    parser.add_argument("--fork", action="store_true", help="survive crashes and hangs")
    parser.add_argument("--list", action="store_true", help="list the cases, run nothing")
    parser.add_argument("--bad", action="store_true", help="print lines of wrong cases only")
    options = parser.parse_args()
    cases = [case for case in kit.load_cases().values() if matches(case, options.names)]
    if options.list:
        print(*[f"{case.kind:12} {case.name}" for case in cases], sep="\n")
        print(*[f"{n:4} {kind}" for kind, n in Counter(c.kind for c in cases).items()], sep="\n")
        return 0
    budget = int(options.budget) if (options.budget or "").isdigit() else options.budget
    if not options.plain:
        import fitstep  # noqa: F401 - once, before any process is forked.
    if options.plain:
        source = map(run_plain_twice, cases)
    elif options.fork:
        source = in_processes(cases, budget)
    else:
        source = (kit.run_case(case, budget) for case in cases)
    outcomes = []
    for outcome in source:
        outcomes.append(outcome)
        if not options.bad or outcome.outcome not in kit.ALLOWED:
            print(outcome.line(), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps([as_dict(o) for o in outcomes], indent=1) + "\n")
    counts = Counter(outcome.outcome for outcome in outcomes)
    print(f"{len(outcomes)} cases:", ", ".join(f"{n} {name}" for name, n in counts.most_common()))
    return int(any(name not in kit.ALLOWED for name in counts))


def matches(case: kit.Case, patterns: list[str]) -> bool:
    return not patterns or any(re.search(p, f"{case.kind} {case.name}") for p in patterns)


def as_dict(outcome: kit.Outcome) -> dict[str, Any]:
    return {
        "name": outcome.case.name,
        "class": outcome.case.kind,
        "outcome": outcome.outcome,
        "where": outcome.where,
        "detail": re.sub(r"/\S*/(site-packages|tests|python)/", r"\1/", outcome.detail),
        "seconds": round(outcome.seconds, 3),
    }


def run_plain_twice(case: kit.Case) -> kit.Outcome:
    """Whether a case repeats itself in plain PyTorch: if not, it says nothing about fitstep."""
    try:
        with kit.isolated():
            first = kit.train_plain(case)
        with kit.isolated():
            second = kit.train_plain(case)
        kit.compare("results", first.results, second.results)
        kit.compare("end", first.end, second.end)
    except kit.Stop as stop:
        return kit.Outcome(case, "broken", *stop.args[1:])
    return kit.Outcome(case, "right")


def in_processes(cases: list[kit.Case], budget: Any, limit_s: float = 60) -> Iterator[kit.Outcome]:
    """The cases in a child process, and in a new one after a crash or a hang."""
    context = multiprocessing.get_context("fork")
    while cases:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=run_all, args=(cases, budget, theirs))
        child.start()
        theirs.close()
        try:
            while cases and ours.poll(limit_s):
                yield kit.Outcome(cases[0], *ours.recv())
                cases = cases[1:]
            if cases:
                yield kit.Outcome(cases[0], "hang", "", f"no outcome in {limit_s} s")
        except EOFError:
            child.join()
            yield kit.Outcome(cases[0], "crash", "", f"exit code {child.exitcode}")
        cases = cases[1:]
        child.kill()
        child.join()


def run_all(cases: list[kit.Case], budget: Any, pipe: Any) -> None:
    for case in cases:
        outcome = kit.run_case(case, budget)
        pipe.send((outcome.outcome, outcome.where, outcome.detail, outcome.seconds))


if __name__ == "__main__":
    sys.exit(main())
