"""How little memory ResNet-50 and a 12-layer GPT need, beside plain PyTorch and the proven floor.

    python benchmarks/run.py memory [--small]

For each: the plain peak, counted at PyTorch's allocator in a steady step; the target share of it;
the least budget with a plan, and the floor below which provably none exists. The step is then run
at the target (or at the least budget where that is above the target) and compared bit for bit.
"""

import sys
from pathlib import Path

from benchmarks.output import Row, arguments, mib, save, share, show
from benchmarks.steps.workers import WorkerProcess

TARGETS = {"resnet50_channels_last": 0.45, "resnet50_nchw": None, "gpt": 0.40}
STEPS = 2


def measure(name: str, target: float | None, small: bool) -> Row:
    """One workload."""
    with WorkerProcess(name, "plain", small) as plain:
        plain_seconds = [plain.ask("step")["seconds"] for _ in range(STEPS)][-1]
        plain_bits = plain.ask("bits")
        peak = plain.ask("peak")["bytes"]
    with WorkerProcess(name, 1, small) as refused:  # One byte: the answer is what would do.
        answer = refused.started["too_small"]
    floor, least = answer["floor_bytes"], answer["least_found_bytes"]
    wanted = int(peak * target) if target else least
    budget = max(wanted, least)
    with WorkerProcess(name, budget, small) as ours:
        seconds = [ours.ask("step")["seconds"] for _ in range(STEPS)][-1]
        same = ours.ask("bits") == plain_bits
        held = ours.ask("peak")["bytes"]
        compile_seconds = ours.started["compile_seconds"]
    row = {"case": name, "plain_peak_bytes": peak, "floor_bytes": floor, "least_bytes": least}
    row |= {"target": target, "budget_bytes": budget, "peak_bytes": held, "same_bits": same}
    row |= {"seconds": seconds, "plain_seconds": plain_seconds, "compile_seconds": compile_seconds}
    reached = target is None or least <= wanted
    return row | {"target_reached": reached and held <= budget and same}


def main() -> int:
    """1 if a target was missed."""
    args = arguments(__doc__).parse_args()
    rows = []
    for name, target in TARGETS.items():
        rows.append(measure(name, target, args.small))
        row, peak = rows[-1], rows[-1]["plain_peak_bytes"]
        print(f"{name}: least {share(row['least_bytes'], peak)} of {mib(peak)}", flush=True)
    table = [
        {
            "case": row["case"],
            "plain peak": mib(row["plain_peak_bytes"]),
            "floor": share(row["floor_bytes"], row["plain_peak_bytes"]),
            "least": share(row["least_bytes"], row["plain_peak_bytes"]),
            "target": "-" if row["target"] is None else f"{100 * row['target']:.0f} %",
            "run at": mib(row["budget_bytes"]),
            "held": mib(row["peak_bytes"]),
            "step": f"{row['seconds']:.2f} s",
            "plain step": f"{row['plain_seconds']:.2f} s",
            "same bits": "yes" if row["same_bits"] else "NO",
            "target reached": "yes" if row["target_reached"] else "NO",
        }
        for row in rows
    ]
    show("memory", table)
    save(Path(__file__).stem, {"rows": rows}, args.small)
    return 0 if all(row["target_reached"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
