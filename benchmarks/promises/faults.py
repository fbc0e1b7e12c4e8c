"""Faults: the n-th kernel, call to the disk tier's file, or call of a codec fails, for every n.

    python benchmarks/run.py faults [--small] [--case NAME ...]

Method. Three small models train with a plan that evicts to a file whatever has a gap, a third of
it as it is, the rest in the codes for copies; one of them once more with a plan that evicts to the
host and to a file by turns; another model has parameters at home in a file. A library that is
preloaded (nth_call.cpp) stands between fitstep's module and the dispatcher, the system's calls on
files, and the codecs; it makes the n-th call of a steady step throw or fail, for every n. After
each: a step that says nothing was changed must have left parameters, buffers, optimizer state and
generator as they were; one that names what is unusable must have left everything else as it was,
the generator too, and gets its checkpoint back; either way the next step must have the bits of
plain PyTorch beside it. Anything else counts as wrong. Then all calls are late at random, by 1,000
seeds, and each step must have the same bits. A step that hangs ends the benchmark. Files, threads
and resident memory are counted before and after. With --case, the rows of other models stay as
they were kept. FITSTEP_AUDITS=all has every call audited, so that programs fail in audits, too.
"""

import copy
import ctypes
import errno
import faulthandler
import gc
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from fitstep_kit.measures.bits import Fingerprint, differences, fingerprint
from fitstep_kit.measures.resident import resident_bytes
from fitstep_kit.subjects.home_jobs import Job as Homes
from fitstep_kit.subjects.home_jobs import adamw, on_disk
from fitstep_kit.subjects.jobs import JOBS, Job, compiled, offloaded_plan

import fitstep
from benchmarks.output import MIB, Row, arguments, command_of, kept_rows, machine, mib, save, show

SHIM = Path(__file__).with_name("nth_call.cpp")
KERNELS, FILES, CODES = 1, 2, 3
FAULTS = {
    "kernel throws": (KERNELS, 0),
    "file: I/O error": (FILES, errno.EIO),
    "file: no space": (FILES, errno.ENOSPC),
    "file: no permission": (FILES, errno.EACCES),
    "codec fails": (CODES, 0),
}
VTABLE = "_ZTVN7fitstep5CoderE"
# Where a model's plan evicts to: the tiers, by turns, and the options that give it those.
ON_DISK = ((2,), {"disk_budget": "900%"})
ON_BOTH = ((1, 2), {"disk_budget": "900%", "host_budget": "900%"})
EVICTING = {
    "mlp": (JOBS["mlp"], *ON_DISK),
    "gpt": (JOBS["gpt"], *ON_DISK),
    "conv": (JOBS["conv"], *ON_DISK),
    "mlp, host and disk": (JOBS["mlp"], *ON_BOTH),
}
HOMES = "weights on disk"  # Parameters and state are at home in the file.
CASES = (*EVICTING, HOMES)
LATE = "late calls"
SEEDS = 1000
HANGS_AFTER_S = 120
LEAK_BYTES = 4 * MIB  # In hundreds of failures; allocators keep some.


def build_shim(folder: str) -> str:
    """The library to preload."""
    path = f"{folder}/nth_call.so"
    include = Path(torch.__file__).parent / "include"
    command = ["c++", "-std=c++20", "-O1", "-fPIC", "-shared", f"-I{include}", str(SHIM)]
    subprocess.run([*command, "-o", path, "-ldl"], check=True)
    return path


def vtable_of_coders() -> int:
    """Its address in fitstep's module."""
    command = ["nm", "--defined-only", str(fitstep._core.__file__)]
    symbols = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return next(int(s.split()[0], 16) for s in symbols.splitlines() if s.endswith(" " + VTABLE))


class Shim:
    """The preloaded library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.fault_calls.restype = ctypes.c_int64
        self._library.fault_coders(ctypes.c_int64(vtable_of_coders()))

    def arm(self, kind: int, n: int, error: int = 0) -> None:
        """The n-th call of that kind goes wrong from now on; -1: they are counted."""
        self._library.fault_arm(kind, ctypes.c_int64(n), error)

    def disarm(self) -> int:
        """How many calls there were."""
        calls = int(self._library.fault_calls())
        self.arm(0, -1)
        return calls

    def delay(self, seed: int) -> None:
        """Every call is late by dice; 0: none is."""
        self._library.fault_delay(ctypes.c_uint64(seed))


class Trial:
    """One model with its plain twin."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.ours: Any
        self.plain: Any
        if kind == HOMES:
            self.ours, self.plain = Homes(adamw), Homes(adamw)
            self.step = on_disk(self.ours, folder)
            self.example: tuple[Any, ...] = (self.ours.x,)
        else:
            make, tiers, options = EVICTING[kind]
            below: dict[str, Any] = {**options, "disk_dir": folder}
            codes = ("none", "zero_value", "zstd")
            plan = offloaded_plan(make, folder / "plan", tiers, codes, **below)
            self.ours, self.plain = make(), make()
            self.step = compiled(self.ours, "900%", plan=plan, **below)
            self.example = self.ours.x, self.ours.y
        self.shim = Shim()
        for _ in range(2):  # The first makes optimizer state.
            self.is_equal_after_a_step()

    def is_equal_after_a_step(self) -> bool:
        """Whether both have equal bits, loss and generator included, after a step of each."""
        found = self.ours.train(self.step, 1)
        return differences(found, self.plain.train(self.plain.step, 1)) == []

    def calls(self, kind: int) -> int:
        """Of a step."""
        self.shim.arm(kind, -1)
        self.is_equal_after_a_step()
        return self.shim.disarm()

    def outcome(self, kind: int, n: int, error: int) -> str:
        """What a step says whose n-th call goes wrong, checked."""
        torch.manual_seed(6)
        before, homes, saved = bits(self.ours), self.homes(), checkpoint(self.ours)
        self.shim.arm(kind, n, error)
        try:
            self.step(*self.example)
            said = "ran on"
        except fitstep.StepFailed as failed:
            said = "named what is unusable" if failed.unusable else "did not happen"
            named = failed.unusable
        finally:
            self.shim.disarm()
        if said == "ran on":
            torch.manual_seed(6)
            self.plain.step(*self.example)
            before = bits(self.plain)
        elif said == "named what is unusable":
            changed = differences(self.homes(), homes)
            if not {*changed} <= {*named} or len(differences(bits(self.ours), before)) > len(
                changed
            ):
                return "WRONG"
            self.ours.model.load_state_dict(saved[0])
            self.ours.optimizer.load_state_dict(saved[1])
        is_right = bits(self.ours) == before and self.is_equal_after_a_step()
        return said if is_right else "WRONG"

    def homes(self) -> Fingerprint:
        """The bits of all tensors that the step knows, by the names that its errors have."""
        homes = self.step._session.homes.items()
        return fingerprint(**{name: home.tensor for name, home in homes})


def checkpoint(job: Job | Homes) -> Any:
    """What a user keeps."""
    return copy.deepcopy((job.model.state_dict(), job.optimizer.state_dict()))


def bits(job: Job | Homes) -> Fingerprint:
    """Of all that a step may change, and the generator that all draw from."""
    return fingerprint(model=job.model, optimizer=job.optimizer, random=torch.get_rng_state())


def resources() -> tuple[int, int, int]:
    """Open files, threads (the lanes' too), resident bytes without what is free in the heap: each
    failure has its checkpoint copied, and glibc keeps the holes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    files = len(os.listdir("/proc/self/fd"))
    return files, len(os.listdir("/proc/self/task")), resident_bytes()


def run(kind: str, seeds: int) -> Row:
    """All of one model, in this process."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        trial = Trial(kind, Path(name))
        found: Row = {}
        for fault, (of, error) in FAULTS.items():
            calls = trial.calls(of)
            if calls == 0:
                continue  # Homes have no codes.
            faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)  # Has a thread.
            files, threads, resident = resources()
            counts: Counter[str] = Counter()
            for n in range(calls):
                faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
                counts[trial.outcome(of, n, error)] += 1
            after = resources()
            found[fault] = {
                "calls": calls, **counts,
                "files": after[0] - files, "threads": after[1] - threads,
                "resident_bytes": after[2] - resident,
            }  # fmt: skip
        wrong = 0
        for seed in range(1, seeds + 1):
            faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
            trial.shim.delay(seed)
            wrong += not trial.is_equal_after_a_step()
        faulthandler.cancel_dump_traceback_later()
        trial.shim.delay(0)
        trial.step.close()
    found[LATE] = {"calls": seeds, "ran on": seeds - wrong, "WRONG": wrong}
    return found


def main() -> int:
    """1 if an outcome was wrong, or something leaked."""
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=CASES, help="measure in this process, for the driver")
    parser.add_argument("--case", action="append", choices=CASES)
    args = parser.parse_args()
    cases = args.case or CASES
    seeds = 20 if args.small else SEEDS
    if args.only:
        print(json.dumps(run(args.only, seeds)))
        return 0
    measured = [f"{kind}, {fault}" for kind in cases for fault in (*FAULTS, LATE)]
    rows: list[Row] = kept_rows(Path(__file__).stem, measured, args.small)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LD_PRELOAD": build_shim(folder)}
        for kind in cases:
            command = [*command_of(__file__), "--only", kind, *(["--small"] * args.small)]
            answer = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=True, env=environment
            )
            for fault, row in json.loads(answer.stdout.splitlines()[-1]).items():
                here = {"case": f"{kind}, {fault}", "commit": machine()["commit"]}
                rows.append(here | row)
            save(Path(__file__).stem, {"rows": rows}, args.small)
            print(f"{kind}: done", flush=True)
    outcomes = ("did not happen", "named what is unusable", "ran on", "WRONG")
    table = [
        {
            "case": row["case"],
            "calls": row["calls"],
            **{name: row.get(name, 0) for name in outcomes},
            "files left": row.get("files", 0),
            "threads left": row.get("threads", 0),
            "resident": mib(row.get("resident_bytes", 0)),
        }
        for row in rows
    ]
    show("the n-th call of a step goes wrong, for every n", table)
    is_right = all(
        not row.get("WRONG")
        and row.get("files", 0) <= 0
        and row.get("threads", 0) <= 0
        and row.get("resident_bytes", 0) <= LEAK_BYTES
        for row in rows
    )
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
