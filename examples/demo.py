"""The demo (`make demo`): two models trained by PyTorch, then in 100, 60 and 40 % of its peak.

Every row of the table is a fresh process that trains the same model from the same seed, so peaks
and times are its own. "Same bits" compares parameters, buffers, optimizer and scheduler state, the
random generator and the loss of every step with plain PyTorch's, as bit patterns.

    PYTHONPATH=python python examples/demo.py [--steps N] [--only-plain]
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch
from fitstep_kit.measures.bits import differences, fingerprint
from fitstep_kit.measures.plain import plain_peak_bytes
from rich.bar import Bar
from rich.console import Console
from rich.table import Table

import fitstep

MODELS = {"gpt_text": "GPT", "resnet_digits": "ResNet-18"}
BUDGETS = ("plain", "100%", "60%", "40%")
MIB = 1 << 20


@dataclass(frozen=True)
class Row:
    """One training: what its process told, and what plain PyTorch's did."""

    model: str
    budget: str
    run: dict[str, Any]
    plain: dict[str, Any]

    def same(self) -> str:
        if "error" in self.run:
            return "failed"
        if self.budget == "plain":
            return ""
        return "no" if differences(self.run["bits"], self.plain["bits"]) else "yes"

    def is_good(self) -> bool:
        return self.same() in ("yes", "")

    def share(self, what: str) -> float:
        """Of plain PyTorch's; 0 for a training that failed."""
        return 0.0 if "error" in self.run else float(self.run[what]) / float(self.plain[what])

    def cells(self) -> list[str]:
        """The measured part of the row."""
        if "error" in self.run:
            return ["-", "-", "-", "-", self.same()]
        return [
            f"{self.run['peak_bytes'] / MIB:.0f} MiB",
            f"{self.run['step_seconds']:.2f} s",
            f"{self.run['compile_seconds']:.0f} s" if self.budget != "plain" else "",
            f"{self.run['loss']:.6f}",
            self.same(),
        ]


def worker(model: str, budget: str, steps: int) -> dict[str, Any]:
    """Trains in this process and tells what it took."""
    train_step, batch, state = importlib.import_module(model).setup(steps)
    started = time.perf_counter()
    step = train_step
    if budget != "plain":
        step = fitstep.compile(train_step, example=batch(0), budget=int(budget))
    compiled = time.perf_counter()
    losses, seconds = [], []
    for index in range(steps):
        inputs = batch(index)
        start = time.perf_counter()
        losses.append(step(*inputs).detach().clone())
        seconds.append(time.perf_counter() - start)
    bits = fingerprint(losses=losses, random=torch.get_rng_state(), **state)
    answer = {
        "bits": bits,
        "loss": float(losses[-1]),
        # The first step creates the optimizer's state and warms caches up.
        "step_seconds": statistics.median(seconds[1:]),
        "compile_seconds": compiled - started,
    }
    if budget == "plain":
        state["optimizer"].zero_grad()  # The next step replaces them: not held across it.
        inputs = batch(0)
        answer["peak_bytes"] = plain_peak_bytes(lambda: step(*inputs), *state.values(), inputs)
    else:
        variants = step.report().variants
        answer["peak_bytes"] = max(variant.total_bytes for variant in variants)
    return answer


def run_worker(model: str, budget: str, steps: int) -> dict[str, Any]:
    """One row, in a process of its own."""
    command = [sys.executable, __file__, "--worker", model, budget, "--steps", str(steps)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if answer.returncode != 0:
        return {"error": answer.stdout.strip() or f"stopped with code {answer.returncode}"}
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def rows_of(model: str, budgets: tuple[str, ...], steps: int, console: Console) -> list[Row]:
    """The model's rows; the plain one comes first, the others are compared with it."""
    rows: list[Row] = []
    plain: dict[str, Any] = {}
    for budget in budgets:
        console.print(f"{MODELS[model]}: {budget} …", style="dim")
        share = 1.0 if budget == "plain" else float(budget.rstrip("%")) / 100
        limit = budget if not plain else str(int(share * int(plain["peak_bytes"])))
        run = run_worker(model, limit, steps)
        rows.append(Row(MODELS[model], budget, run, plain or run))
        if "error" in run:
            console.print(str(run["error"]), style="red")
            if not plain:
                break  # Nothing to compare with.
        plain = plain or run
    return rows


def table_of(rows: list[Row], title: str) -> Table:
    """What was measured, one line for each row."""
    table = Table(title=title)
    for heading in ("model", "budget"):
        table.add_column(heading, no_wrap=True)
    for heading in ("peak", "per step", "compile", "loss", "same bits"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        is_last = after is None or after.model != row.model
        table.add_row(row.model, row.budget, *row.cells(), end_section=is_last)
    return table


def chart_of(rows: list[Row]) -> Table:
    """Bars of memory and step time, as shares of plain PyTorch's."""
    table = Table(
        title="memory and time of a step, plain PyTorch = 100 %", box=None, padding=(0, 1)
    )
    for heading in ("model", "budget", "memory", "", "time", ""):
        table.add_column(heading, no_wrap=True)
    most = max([1.0, *(row.share(what) for row in rows for what in ("peak_bytes", "step_seconds"))])
    for row in rows:
        cells: list[Bar | str] = []
        for what, color in (("peak_bytes", "green"), ("step_seconds", "blue")):
            share = row.share(what)
            cells += [Bar(most, 0, share, width=20, color=color), f"{share:4.0%}" if share else "-"]
        table.add_row(row.model, row.budget, *cells)
    return table


def next_steps() -> list[str]:
    """Three things to try, as commands that work as they are in this folder."""
    python = os.path.relpath(sys.executable) if "/.venv" in sys.executable else sys.executable
    find = [
        sys.executable,
        "-c",
        "import importlib.util as u, sys; sys.exit(not u.find_spec('fitstep'))",
    ]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if subprocess.run(find, env=env, cwd="/", check=False).returncode != 0:
        python = f"PYTHONPATH=python {python}"
    return [
        "train in a budget of your own    " + f"{python} examples/gpt_text.py --budget 30%",
        "train a model of your own        docs/tutorial.md, in ten minutes",
        "read all documents as a site     make docs",
    ]


def main() -> int:
    """Prints the table; 1 if any row failed or had other bits."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--only-plain", action="store_true", help="PyTorch's own rows alone")
    parser.add_argument("--worker", nargs=2, metavar=("MODEL", "BUDGET"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        try:
            print(json.dumps(worker(*args.worker, args.steps)))
        except fitstep.FitstepError as error:
            print(error)
            return 1
        return 0
    console = Console()
    budgets = BUDGETS[:1] if args.only_plain else BUDGETS
    rows = [row for model in MODELS for row in rows_of(model, budgets, args.steps, console)]
    title = f"{args.steps} training steps, {torch.get_num_threads()} threads"
    console.print(table_of(rows, title), chart_of(rows), "", "Try next:", sep="\n")
    for line in next_steps():
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    return 0 if all(row.is_good() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
