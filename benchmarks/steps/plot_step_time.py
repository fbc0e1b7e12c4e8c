"""Draw step time over budget for the README, from results/step_time.json.

python -m benchmarks.steps.plot_step_time        # writes docs/images/step_time.svg
"""

import json
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

from benchmarks.output import RESULTS

PICTURE = RESULTS.parent / "docs" / "images" / "step_time.svg"
NAMES = {
    "resnet50_16_nchw": "ResNet-50, NCHW",
    "resnet50_16_channels_last": "ResNet-50, channels_last",
    "vgg16": "VGG-16",
    "unet": "U-Net",
    "gpt": "GPT, 12 layers",
    "lstm": "LSTM, 4 layers",
}
PANELS = {"": "memory alone", ":disk": "with a disk file below 100 %"}


def points(rows: list[dict[str, Any]], case: str, below: str) -> list[tuple[float, float]]:
    """(budget in % of the plain peak, time over plain PyTorch's), from the least budget up."""
    found = {
        round(100 * row["budget_bytes"] / row["peak_bytes"], 1): row["ratio"]
        for row in rows
        if row["case"] == case and (row["below"] == below or row["share"] == 1)
    }
    return sorted(found.items())


def main() -> None:
    rows = json.loads((RESULTS / "step_time.json").read_text())["rows"]
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "fitstep", "font.size": 9}
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
    for axes, (below, title) in zip(panels, PANELS.items(), strict=True):
        for case, name in NAMES.items():
            x, y = zip(*points(rows, case, below), strict=True)
            axes.plot(x, y, "o-", markersize=3, linewidth=1, label=name)
        axes.axhline(1, color="black", linewidth=0.8, linestyle="--")
        axes.set_title(title)
        axes.set_xlabel("budget, % of plain PyTorch's peak")
        axes.set_xlim(0, 105)
        axes.set_ylim(0, 4)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("time of a step, plain PyTorch = 1")
    panels[1].legend(loc="upper right")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
