"""Plans of the traces that G10 published, beside the bound, an earlier prototype, and G10.

    python benchmarks/run.py traces [--small]

Method. The programs and the machine are those of benchmarks/traces/; nothing runs but the command
`fitstep`, in the release build. Budgets are shares of the plain peak and G10's 40 GiB, all of them
for the arena. The prototype's figures are those that it reached on the same traces with any number
of bytes on the host: without a layout, and, where it had one, with it. G10's step is the one that
its evaluation publishes. --small takes one share of one trace, and writes no results.
"""

import sys
from pathlib import Path

from benchmarks.output import ROOT, Row, arguments, save, show
from benchmarks.planner.plan_cli import ask

FOLDER = ROOT / "benchmarks" / "traces"
MACHINE = FOLDER / "g10.machine.json"
G10_BYTES = 40 << 30
# Seconds of G10 at 40 GiB; of the prototype by share: offload alone, joint, joint with a layout.
PUBLISHED = {
    "bert-256": (7.311, {
        0.7: (7.514, 7.297, 7.344), 0.5: (8.164, 7.347, 7.391), 0.4: (8.513, 7.677, None),
        0.3: (9.037, 8.195, 8.339), 0.2: (9.667, 8.853, None),
    }),
    "vit-1280": (5.540, {
        0.7: (4.374, 3.795, 3.795), 0.5: (5.149, 3.853, 3.890), 0.4: (5.541, 4.243, None),
        0.3: (6.051, 4.735, 4.898), 0.2: (6.859, 5.519, None),
    }),
}  # fmt: skip


def planned(name: str, capacity_bytes: int, policy: str) -> tuple[float, float]:
    """Seconds of the plan, and of its bound."""
    options = ("--capacity", str(capacity_bytes), "--machine", str(MACHINE), "--policy", policy)
    answer = ask("plan", FOLDER / f"{name}.program.zst", *options)
    certificate = answer.said["certificate"]
    return certificate["predicted_ps"] / 1e12, certificate["bound_ps"] / 1e12


def plain_peak_bytes(name: str) -> int:
    """What the step holds with everything kept."""
    path = FOLDER / f"{name}.program.zst"
    answer = ask("plan", path, "--budget", "100%", "--machine", str(MACHINE))
    return int(answer.said["question"]["plain_peak_bytes"])


def measure(name: str, capacity_bytes: int, case: str) -> Row:
    """One capacity."""
    offload, offload_bound = planned(name, capacity_bytes, "offload")
    joint, bound = planned(name, capacity_bytes, "auto")
    return {
        "case": f"{name}, {case}",
        "offload": offload,
        "offload / bound": offload / offload_bound,
        "joint": joint,
        "joint / bound": joint / bound,
    }


def main() -> int:
    """0: what the prototype reached stands beside ours."""
    args = arguments(__doc__).parse_args()
    rows: list[Row] = []
    for name, (g10_s, prototype) in PUBLISHED.items():
        peak_bytes = plain_peak_bytes(name)
        for share, (offload, joint, laid_out) in prototype.items():
            row = measure(
                name, int(share * peak_bytes), f"{share:.0%} of {peak_bytes / 1e9:.2f} GB"
            )
            rows.append({**row, "prototype": (offload, joint, laid_out), "G10": None})
            if args.small:
                break
        rows.append({**measure(name, G10_BYTES, "40 GiB"), "prototype": None, "G10": g10_s})
        if args.small:
            break
    table = [
        {
            "case": row["case"],
            "offload": f"{row['offload']:.3f} s",
            "of its bound": f"{row['offload / bound']:.3f}",
            "joint": f"{row['joint']:.3f} s",
            "of bound": f"{row['joint / bound']:.3f}",
            "prototype: offload, joint, laid out": ", ".join(
                "-" if value is None else f"{value:.3f}" for value in row["prototype"] or ()
            ),
            "G10": row["G10"],
        }
        for row in rows
    ]
    show("traces of G10: seconds of a step", table)
    save(Path(__file__).stem, {"rows": rows}, args.small)
    return 0


if __name__ == "__main__":
    sys.exit(main())
