"""The demo (`make demo`): two models trained by PyTorch, then in 100, 60 and 40 % of its peak.

Every row of the table is a fresh process that trains the same model from the same seed, so peaks
and times are its own. "Same bits" compares parameters, buffers, optimizer and scheduler state, the
random generator and the loss of every step with plain PyTorch's, as bit patterns.

    PYTHONPATH=python python examples/demo.py [--steps N] [--only-plain]
"""

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time

import torch
from fitstep_kit.measures.bits import differences, fingerprint
from fitstep_kit.measures.plain import plain_peak_bytes
from rich.console import Console
from rich.table import Table

import fitstep

MODELS = {"gpt_text": "GPT", "resnet_digits": "ResNet-18"}
BUDGETS = ("plain", "100%", "60%", "40%")
MIB = 1 << 20


def worker(model: str, budget: str, steps: int) -> dict[str, object]:
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


def run_worker(model: str, budget: str, steps: int) -> dict[str, object]:
    """One row, in a process of its own."""
    command = [sys.executable, __file__, "--worker", model, budget, "--steps", str(steps)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if answer.returncode != 0:
        return {"error": answer.stdout.strip() or f"stopped with code {answer.returncode}"}
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def rows_of(model: str, budgets: tuple[str, ...], steps: int, console: Console) -> list[list[str]]:
    """The model's rows; the plain one comes first, the others are compared with it."""
    rows: list[list[str]] = []
    plain: dict[str, object] = {}
    for budget in budgets:
        console.print(f"{MODELS[model]}: {budget} …", style="dim")
        share = 1.0 if budget == "plain" else float(budget.rstrip("%")) / 100
        limit = budget if not plain else str(int(share * int(str(plain["peak_bytes"]))))
        run = run_worker(model, limit, steps)
        if "error" in run:
            console.print(str(run["error"]), style="red")
            rows.append([MODELS[model], budget, "-", "-", "-", "-", "failed"])
            continue
        plain = plain or run
        rows.append([MODELS[model], budget, *cells(run, plain)])
    return rows


def cells(run: dict, plain: dict) -> list[str]:
    """The measured part of a row."""
    same = "" if run is plain else "yes" if not differences(run["bits"], plain["bits"]) else "no"
    return [
        f"{run['peak_bytes'] / MIB:.0f} MiB",
        f"{run['step_seconds']:.2f} s",
        f"{run['compile_seconds']:.0f} s" if run is not plain else "",
        f"{run['loss']:.6f}",
        same,
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
    table = Table(title=f"{args.steps} training steps, {torch.get_num_threads()} threads")
    for heading in ("model", "budget"):
        table.add_column(heading, no_wrap=True)
    for heading in ("peak", "per step", "compile", "loss", "same bits"):
        table.add_column(heading, justify="right", no_wrap=True)
    budgets = BUDGETS[:1] if args.only_plain else BUDGETS
    rows = [row for model in MODELS for row in rows_of(model, budgets, args.steps, console)]
    for row in rows:
        table.add_row(*row, end_section=row[1] == budgets[-1])
    console.print(table)
    return 0 if all(row[-1] in ("yes", "") for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
