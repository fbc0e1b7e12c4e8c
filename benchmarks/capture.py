"""Capture and planning of a step of 5,000 recorded calls.

    python benchmarks/capture.py [--small]

A deep and narrow GPT, so that there is much to record and little to compute; the calls of one plain
step are counted by a dispatch mode of this file's own. Reported are the seconds of all recordings
together, milliseconds per recorded call, and the seconds of planning. Recording is timed from
outside, by wrapping its one entrance; measuring ops for the profile is another thing, kept on disk,
and reported beside it.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fitstep.maker import _Recording
from fitstep.zoo import GPT
from results import Row, arguments, save, show
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import fitstep

CALLS = 5000
CAPTURE_SECONDS, PLAN_SECONDS = 8.0, 10.0


class CallCounter(TorchDispatchMode):
    """Counts what reaches the dispatcher below autograd."""

    calls = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.calls += 1
        return function(*args, **(kwargs or {}))


class Stopwatch:
    """Seconds spent inside a method, outermost calls only."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    @contextmanager
    def around(self, owner: Any, name: str) -> Iterator[None]:
        """Times `owner.name` while the context lasts."""
        original = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            start = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.seconds += time.perf_counter() - start

        setattr(owner, name, timed)
        try:
            yield
        finally:
            setattr(owner, name, original)


def training(layers: int) -> tuple[Any, tuple[Tensor, Tensor]]:
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


def calls_of(layers: int) -> int:
    """Recorded calls of a steady step, which is the second."""
    train_step, example = training(layers)
    train_step(*example)
    with CallCounter() as counter:
        train_step(*example)
    return counter.calls


def layers_for(calls: int) -> int:
    """The fewest layers whose step has at least so many calls: their number grows linearly."""
    one, two = calls_of(1), calls_of(2)
    return 1 + max(0, -(-(calls - one) // (two - one)))


def measure(calls: int) -> Row:
    """Compiles once, at 60 % of the plain peak."""
    layers = layers_for(calls)
    train_step, example = training(layers)
    recording = Stopwatch()
    with recording.around(_Recording, "run"):
        step = fitstep.compile(train_step, example=example, budget="60%")
    row: Row = {
        "layers": layers,
        "calls": calls_of(layers),
        "recorded_calls": step.recorded_calls,
        "capture_seconds": recording.seconds,
        "profile_seconds": step.compile_seconds["capture"] - recording.seconds,
        "plan_seconds": step.compile_seconds["plan"],
    }
    step.close()
    return row


def main() -> int:
    """1 if capture or planning took longer than promised."""
    args = arguments(__doc__).parse_args()
    row = measure(CALLS // 10 if args.small else CALLS)
    per_call_ms = 1000 * row["capture_seconds"] / row["recorded_calls"]
    table = {
        "calls per step": row["calls"],
        "recorded in all": row["recorded_calls"],
        "capture": f"{row['capture_seconds']:.1f} s (at most {CAPTURE_SECONDS:.0f})",
        "per call": f"{per_call_ms:.2f} ms",
        "profile": f"{row['profile_seconds']:.1f} s",
        "planning": f"{row['plan_seconds']:.1f} s (at most {PLAN_SECONDS:.0f})",
    }
    show("capture", [table])
    reached = row["capture_seconds"] <= CAPTURE_SECONDS and row["plan_seconds"] <= PLAN_SECONDS
    save(Path(__file__).stem, {**row, "target_reached": reached}, args.small)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
