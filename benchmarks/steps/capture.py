"""Recording, and cold compile times, of steps with thousands of recorded calls.

    python benchmarks/run.py capture [--small]

    gpt             deep and narrow: much to record and little to compute; about 5,000 calls a step,
                    in 60 % of plain PyTorch's peak
    efficientvit    timm's efficientvit_m0 at 224 x 224, batch 2, AdamW, in 100 %

Method. Each case has a process of its own and an empty cache of measurements. Recording is timed
from outside, around its one entrance, so it holds all that is done to undo what the function has
done; it is divided by the calls recorded in all previews. Beside it stands what plain PyTorch takes
per call of its second step, kernels included: the function runs there, too, so that much of a
recording is Python's and autograd's own. Measuring ops for the plan, and planning, are other
things, reported beside. timm: benchmarks/breadth/requirements.txt; without it that case is left
out.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from fitstep.follow.recordings import Recordings
from fitstep_kit.models import GPT
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import fitstep
from benchmarks.output import Row, arguments, command_of, save, show

CALLS = 5000
PER_CALL_MS = 0.15
BUDGETS = {"gpt": "60%", "efficientvit": "100%"}
COMPILE_S = {"gpt": 18.0, "efficientvit": 8.0}

Training = tuple[Callable[..., Tensor], tuple[Tensor, Tensor]]


class CallCounter(TorchDispatchMode):
    """Counts what reaches the dispatcher below autograd."""

    calls = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.calls += 1
        return function(*args, **(kwargs or {}))


class Stopwatch:
    """Seconds spent inside a method."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def around(self, owner: Any, name: str) -> Iterator[None]:
        """Times `owner.name` while the context lasts."""
        original = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - start

        setattr(owner, name, timed)
        try:
            yield
        finally:
            setattr(owner, name, original)


def gpt(calls: int) -> Training:
    """The fewest layers whose step has at least so many calls: their number grows linearly."""
    one, two = (calls_of(gpt_of(layers)) for layers in (1, 2))
    return gpt_of(1 + max(0, -(-(calls - one) // (two - one))))


def gpt_of(layers: int) -> Training:
    """A step function and its batch."""
    torch.manual_seed(0)
    model = GPT(vocab=64, context=32, width=32, layers=layers, heads=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 64, (4, 33))

    def train_step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return train_step, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def efficientvit(_calls: int) -> Training:
    """A step function and its batch."""
    from benchmarks.breadth.tiny_torchvision import import_torchvision

    import_torchvision()
    import timm

    torch.manual_seed(0)
    model = timm.create_model("efficientvit_m0", num_classes=1000)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def train_step(images: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), targets)
        loss.backward()
        optimizer.step()
        return loss

    return train_step, (torch.randn(2, 3, 224, 224), torch.randint(0, 1000, (2,)))


CASES: dict[str, Callable[[int], Training]] = {"gpt": gpt, "efficientvit": efficientvit}


def calls_of(training: Training) -> int:
    """Recorded calls of a steady step, which is the second."""
    train_step, example = training
    train_step(*example)
    with CallCounter() as counter:
        train_step(*example)
    return counter.calls


def plain_seconds(training: Training) -> float:
    """Of a steady step: the least of five, the first left out."""
    train_step, example = training
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        train_step(*example)
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def measure(case: str, calls: int) -> Row:
    """Compiles once."""
    train_step, example = CASES[case](calls)
    recording = Stopwatch()
    start = time.perf_counter()
    budget = BUDGETS[case] if calls == CALLS else None
    with recording.around(Recordings, "run"):
        step = fitstep.compile(train_step, example=example, budget=budget, progress=False)
    compiled = time.perf_counter()
    row: Row = {
        "case": case,
        "recorded_calls": step.recorded_calls,
        "recording_seconds": recording.seconds,
        "profile_seconds": step.compile_seconds["preview"] - recording.seconds,
        "plan_seconds": step.compile_seconds["plan"],
        "compile_seconds": compiled - start,
    }
    step.close()
    twin = CASES[case](calls)
    row["plain_seconds"] = plain_seconds(twin)
    row["calls"] = calls_of(twin)
    row["per_call_ms"] = 1000 * recording.seconds / row["recorded_calls"]
    row["plain_per_call_ms"] = 1000 * row["plain_seconds"] / row["calls"]
    return row


def in_a_process(case: str, calls: int) -> Row:
    """The case's row, measured where nothing has been measured before."""
    with tempfile.TemporaryDirectory() as empty:
        command = [*command_of(__file__), "--only", case, "--calls", str(calls)]
        answer = subprocess.run(
            command, env={**os.environ, "FITSTEP_CACHE": empty}, stdout=subprocess.PIPE, check=True
        )
    row: Row = json.loads(answer.stdout.splitlines()[-1])
    return row


def shown(row: Row) -> Row:
    """A line of the table."""
    return {
        "case": row["case"],
        "calls per step": row["calls"],
        "recorded in all": row["recorded_calls"],
        "recording": f"{row['recording_seconds']:.2f} s",
        "per call": f"{row['per_call_ms']:.3f} ms (at most {PER_CALL_MS})",
        "plain step, per call": f"{row['plain_per_call_ms']:.3f} ms",
        "measuring ops": f"{row['profile_seconds']:.1f} s",
        "planning": f"{row['plan_seconds']:.1f} s",
        "compile": f"{row['compile_seconds']:.1f} s (at most {COMPILE_S[row['case']]:.0f})",
    }


def main() -> int:
    """1 if recording or a compile took longer than promised."""
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=CASES, help="of the processes that this one starts")
    parser.add_argument("--calls", type=int, default=CALLS)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(measure(args.only, args.calls)))
        return 0
    wanted = [case for case in CASES if case == "gpt" or importlib.util.find_spec("timm")]
    rows = [in_a_process(case, CALLS // 10 if args.small else CALLS) for case in wanted]
    show("capture", [shown(row) for row in rows])
    reached = all(
        row["per_call_ms"] <= PER_CALL_MS and row["compile_seconds"] <= COMPILE_S[row["case"]]
        for row in rows
    )
    save("capture", {"rows": rows, "target_reached": reached}, args.small)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
