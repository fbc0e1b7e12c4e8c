"""Plots what policies do: bytes over time by kind, and bars of time and memory.

    PYTHONPATH=python python -m benchmarks.papers.plot_policies PROGRAM CAPACITY FOLDER
        [--machine M] [--policy P,P,...]

PROGRAM is a program file with times; FOLDER gets `bytes.png` and `bars.png`. Asks the command
`fitstep` in the release build.
"""

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from benchmarks.planner.plan_cli import ask

GIB = 1 << 30
POLICIES = "auto,vdnn-none-p,vdnn-conv-p,vdnn-all-p,vdnn++-all-p,tf-swap,layrub"


def draw_bytes(rows: list[dict[str, Any]], path: Path) -> None:
    """One panel for each policy: what lies on the device, stacked by kind."""
    figure, panels = plt.subplots(len(rows), 1, figsize=(9, 2.2 * len(rows)), sharey=True)
    for panel, row in zip(panels if len(rows) > 1 else [panels], rows, strict=True):
        ends = [0, *row["map"]["end_ps"]]
        seconds = [at * 1e-12 for pair in pairwise(ends) for at in pair]
        kinds = row["map"]["bytes"]
        layers = [[v / GIB for v in values for _ in (0, 1)] for values in kinds.values()]
        panel.stackplot(seconds, layers, labels=[name.replace("_", " ") for name in kinds])
        panel.set_title(row["policy"], loc="left", fontsize=9)
        panel.set_ylabel("GiB")
        panel.set_xlim(0, max(ends) * 1e-12)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=6, fontsize=8)
    figure.axes[-1].set_xlabel("seconds of a step")
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path, dpi=110)


def draw_bars(rows: list[dict[str, Any]], path: Path) -> None:
    """Peak and average bytes, and time with its stalls and recompute."""
    figure, (memory, time) = plt.subplots(1, 2, figsize=(10, 0.5 * len(rows) + 1.6), sharey=True)
    names = [row["policy"] for row in rows]
    peaks = [row["certificate"]["peak_bytes"] / GIB for row in rows]
    memory.barh(names, peaks, color="lightsteelblue", label="peak")
    averages = [row["average_bytes"] / GIB for row in rows]
    memory.barh(names, averages, height=0.4, color="steelblue", label="average over time")
    memory.set_xlabel("GiB on the device")
    starts = [0.0] * len(rows)
    steps = {"stall_ps": "stalls", "recompute_ps": "recompute"}
    others = [row["step_ps"] - sum(row[key] for key in steps) for row in rows]
    parts = {"ops": others, **{name: [row[key] for row in rows] for key, name in steps.items()}}
    for (name, values), color in zip(parts.items(), ("silver", "firebrick", "orange"), strict=True):
        widths = [value * 1e-12 for value in values]
        time.barh(names, widths, left=starts, color=color, label=name)
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    time.set_xlabel("seconds of a step")
    for panel in (memory, time):
        panel.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    memory.invert_yaxis()  # Both: they share it.
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> int:
    """1 where no policy fits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("capacity")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--machine", default="titan-x-maxwell")
    parser.add_argument("--policy", default=POLICIES)
    args = parser.parse_args()
    options = ("--capacity", args.capacity, "--machine", args.machine, "--policy", args.policy)
    said = ask("compare", args.program, *options, "--map").said
    rows = [row for row in said["policies"] if row["fits"]]
    if not rows:
        print("no policy fits")
        return 1
    args.folder.mkdir(parents=True, exist_ok=True)
    draw_bytes(rows, args.folder / "bytes.png")
    draw_bars(rows, args.folder / "bars.png")
    print(f"{len(rows)} policies in {args.folder}/bytes.png and {args.folder}/bars.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
