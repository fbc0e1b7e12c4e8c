"""How much of what a trained VGG-E keeps is not zero, layer by layer.

    python benchmarks/run.py densities [--small] [--epochs N]

Method. VGG-E (16 convolutions, all its channels) learns the 1,797 handwritten digits of
scikit-learn, as images of 32x32, until an epoch's error is below 3 % or the epochs are over. Then
the density of what every ReLU and every pool makes is counted on the images that were held back:
the share of values that are not zero, so of the words that zero-value codes keep (vDNN++ compresses
such maps on the host, and its published figures assume densities of 10 to 50 %).

    coded bytes of a map = bytes * (density + 1/32)      a bit per word says which words follow
"""

import json
import re
import statistics
import sys
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from fitstep_kit.models import vgg19
from torch import Tensor, nn

from benchmarks.output import RESULTS, Row, arguments, save, show

SIDE = 32
HELD_BACK = 297
BATCH = 50
GOAL = 0.03
# Ops whose results are maps of the two kinds, as captured programs name them.
MAP_OP = re.compile(r'^op \d+ "aten::(relu_?|max_pool2d_with_indices)" ')
STORAGE = re.compile(r'^storage (?P<id>\d+) "[^"]*" (?P<bytes>\d+) ')
WRITES = re.compile(r" writes (?P<first>\d+)\.\d+")


def digits() -> tuple[Tensor, Tensor]:
    """1797x3xSIDExSIDE float32 in [-1, 1], and 1797 classes."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    images = torch.tensor(loaded.images, dtype=torch.float32)[:, None] / 8 - 1
    large = F.interpolate(images, size=(SIDE, SIDE), mode="bilinear")
    return large.repeat(1, 3, 1, 1), torch.tensor(loaded.target)


def trained(width: float, hidden: int, epochs: int) -> tuple[nn.Module, float, Tensor]:
    """The model, its share of errors on the images held back, and these."""
    torch.manual_seed(0)
    model = vgg19(10, width, hidden)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):  # As deep nets without norms need it.
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)
    images, classes = digits()
    order = torch.randperm(len(images))
    held, used = order[:HELD_BACK], order[HELD_BACK:]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    error = 1.0
    for epoch in range(epochs):
        for part in used[torch.randperm(len(used))].split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(images[part]), classes[part]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            error = float((model(images[held]).argmax(1) != classes[held]).float().mean())
        model.train()
        print(f"epoch {epoch + 1}: {error:.1%} of {HELD_BACK} images wrong", flush=True)
        if error < GOAL:
            break
    return model, error, images[held]


def densities(model: nn.Module, images: Tensor) -> list[Row]:
    """Of each ReLU and pool of the convolutional part, in order."""
    found: list[Row] = []
    with torch.no_grad():
        for layer in model.features:  # type: ignore[union-attr]
            images = layer(images)
            if isinstance(layer, nn.ReLU | nn.MaxPool2d):
                kind = "pool" if isinstance(layer, nn.MaxPool2d) else "relu"
                share = float((images != 0).float().mean())
                found.append({"case": f"{kind} {len(found) + 1}", "kind": kind, "density": share})
    return found


def coded_bytes(size_bytes: int, density: float) -> int:
    """Of a map in the zero-value code; never 0, which would say that nobody has looked."""
    return max(1, round(size_bytes * (density + 1 / 32)))


def with_densities(text: str, kept: list[Row]) -> str:
    """The program with the sizes that maps have in the code, in the order of its ReLUs and pools.
    Raises ValueError where it has other layers than `kept`. Linear layers' ReLUs are left out: the
    convolutional part's come first."""
    lines = text.splitlines()
    maps: list[str] = []  # Storages.
    kinds: list[str] = []
    for line, form in pairwise(lines):
        op = MAP_OP.match(line)
        if op and len(maps) < len(kept):
            written = WRITES.search(form)
            assert written is not None
            maps.append(written["first"])
            kinds.append("relu" if op[1].startswith("relu") else "pool")
    if kinds != [row["kind"] for row in kept]:
        raise ValueError(f"{len(kinds)} ReLUs and pools, other than the {len(kept)} measured")
    density = {storage: row["density"] for storage, row in zip(maps, kept, strict=True)}
    for i, line in enumerate(lines):
        storage = STORAGE.match(line)
        if storage and storage["id"] in density:
            size = coded_bytes(int(storage["bytes"]), density[storage["id"]])
            lines[i] = f"{line} zero_value {size}"
    return "\n".join(lines) + "\n"


def kept_densities() -> list[Row]:
    """Those that are in the repository."""
    rows: list[Row] = json.loads((RESULTS / "densities.json").read_text())["rows"]
    return rows


def main() -> int:
    """1 if the digits were not learnt."""
    parser = arguments(__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    width, hidden = (0.125, 64) if args.small else (1.0, 4096)
    model, error, images = trained(width, hidden, 1 if args.small else args.epochs)
    rows = densities(model.eval(), images)
    table = [{"case": row["case"], "density": f"{row['density']:.1%}"} for row in rows]
    show("what is not zero", table)
    mean = statistics.fmean(row["density"] for row in rows)
    print(f"wrong: {error:.1%}; mean density {mean:.1%}")
    save(Path(__file__).stem, {"rows": rows, "error": error, "mean": mean}, args.small)
    return 0 if error < GOAL or args.small else 1


if __name__ == "__main__":
    sys.exit(main())
