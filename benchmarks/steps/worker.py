"""One training in a process of its own, driven line by line through its standard input.

    PYTHONPATH=python python -m benchmarks.steps.worker WORKLOAD HOW SMALL

HOW is "plain", a rival (rivals.py), or a budget in bytes, with ":disk" behind it for a disk tier in
the folder of temporary files, ":disk-as-is" for one without codes, ":host" for a host tier,
":host-coded" for one with codes, and a policy behind that after a colon. It answers every line with
one line of JSON: first how compiling went, then to `step` the seconds of one training step and its
loss, to `turn` the seconds per step of as many as fill a tenth of a second, to `peak` the bytes it
needed, to `predicted` the seconds that its plan says, to `disk` and `host` what it copies there, to
`resident` its anonymous resident memory, to `touched` how much of the arena two steps wrote, to
`bits` the hashes of everything it trained. Two workers that take turns share the machine's moods,
and neither sees the other's memory.
"""

import json
import statistics
import sys
import time
from dataclasses import asdict
from typing import Any

import torch
from fitstep_kit.measures.bits import fingerprint
from fitstep_kit.measures.plain import plain_peak_bytes
from fitstep_kit.measures.resident import resident_bytes
from fitstep_kit.measures.touched import touched

import fitstep
from benchmarks.steps.rivals import install
from benchmarks.steps.workloads import Workload, build

Answer = dict[str, Any]
DISK_BUDGET = "16GiB"
HOST_BUDGET = "6GiB"
TURN_S = 0.1  # Shorter steps would be measured with caches that hold the other workers' bytes.


class Worker:
    """Plain PyTorch, a rival, or a compiled step."""

    def __init__(self, workload: Workload, how: str) -> None:
        self.workload = workload
        self.index = 0
        budget, below, policy = [*how.split(":"), "", ""][:3]
        self.is_ours = budget.isdigit()
        if self.is_ours:
            self.step: Any = fitstep.compile(
                workload.train_step,
                example=workload.batch(0),
                budget=int(budget),
                disk_budget=DISK_BUDGET if below.startswith("disk") else None,
                disk_codes=below != "disk-as-is",
                host_budget=HOST_BUDGET if below.startswith("host") else None,
                host_codes=below == "host-coded",
                policy=policy or "auto",
                audits="off",  # Audited calls take plain PyTorch's time, too: see audits.py.
            )
        else:
            install(workload, how)
            self.step = workload.train_step

    def do_step(self) -> Answer:
        batch = self.workload.batch(self.index)
        self.index += 1
        start = time.perf_counter()
        loss = self.step(*batch)
        return {"seconds": time.perf_counter() - start, "loss": float(loss.detach())}

    def do_turn(self) -> Answer:
        seconds: list[float] = []
        while sum(seconds) < TURN_S:
            seconds.append(self.do_step()["seconds"])
        return {"seconds": statistics.median(seconds)}

    def do_peak(self) -> Answer:
        """Others run a step for it, which counts as a training step."""
        if self.is_ours:
            variants = self.step.report().variants
            return {"bytes": max(variant.total_bytes for variant in variants)}
        self.workload.optimizer.zero_grad()  # The step replaces them.
        batch = self.workload.batch(self.index)
        self.index += 1
        held = (self.workload.model, self.workload.optimizer, batch)
        return {"bytes": plain_peak_bytes(lambda: self.step(*batch), *held)}

    def do_predicted(self) -> Answer:
        """What the plan of the steps that ran last says that one of them takes."""
        return {"seconds": self.step.report().variants[-1].predicted_s}

    def do_disk(self) -> Answer:
        """What the plan of the steps that ran last copies there in one of them."""
        variant = self.step.report().variants[-1]
        coded = len(variant.coded_copies)
        return {"written_bytes": variant.disk_written_bytes, "coded_copies": coded}

    def do_host(self) -> Answer:
        """The same of the host tier."""
        variant = self.step.report().variants[-1]
        coded = len(variant.coded_copies)
        return {"evicted_bytes": variant.evicted_bytes, "coded_copies": coded}

    def do_resident(self) -> Answer:
        return {"bytes": resident_bytes()}

    def do_touched(self) -> Answer:
        """What two steps write, in bytes, beside what their plan says."""
        return asdict(touched(self.step, self.do_step))

    def do_bits(self) -> Answer:
        random = torch.get_rng_state()
        return fingerprint(
            model=self.workload.model, optimizer=self.workload.optimizer, random=random
        )


def main() -> None:
    """Serves until the input ends."""
    name, how, small = sys.argv[1:]
    start = time.perf_counter()
    try:
        worker = Worker(build(name, small == "small"), how)
    except fitstep.BudgetTooSmall as error:
        found = {"floor_bytes": error.floor_bytes, "least_found_bytes": error.least_found_bytes}
        print(json.dumps({"too_small": found, "message": str(error)}), flush=True)
        return
    print(json.dumps({"compile_seconds": time.perf_counter() - start}), flush=True)
    for line in sys.stdin:
        answer = getattr(worker, f"do_{line.strip()}")()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
