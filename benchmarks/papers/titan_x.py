"""Gives the ops of a program the times of vDNN's machine, a Titan X (Maxwell) with cuDNN 4.

    PYTHONPATH=python python -m benchmarks.papers.titan_x [IN.program OUT.program]

The paper shows how long each layer of VGG-E takes with 64 images. That calibrates, separately for
forward and backward,

    convolutions      flops / F + bytes / M      two rates for 16 layers
    matrix products   flops / F                  one rate for 3 layers

and everything else, of which nothing is shown, moves bytes at the machine's memory rate. Each of
the four sums is scaled to be right, so an error is one of how a sum is shared among layers. Without
files it prints the paper's times beside these.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fitstep_kit.programs.capture import STORED, zstd

# Bars of the paper's figure, digitised: within 0.2 ms. conv1 to conv16, then the linear layers.
CONVOLUTIONS_MS = {
    "forward": (11.8, 50.5, 23.7, 41.8, 15.0, 24.7, 23.8, 23.9,
                12.8, 24.7, 23.4, 23.3, 5.4, 5.3, 5.4, 5.4),
    "backward": (47.7, 129.2, 47.4, 80.6, 35.6, 63.9, 63.9, 64.1,
                 33.0, 60.6, 60.9, 60.8, 13.0, 13.0, 13.0, 13.0),
}  # fmt: skip
LINEARS_MS = {"forward": (9.0, 1.9, 0.4), "backward": (15.4, 2.5, 0.5)}
# The row of CONVOLUTIONS_MS or LINEARS_MS that an op belongs to.
CLASSES = {
    "aten::convolution": ("convolution", "forward"),
    "aten::convolution_backward": ("convolution", "backward"),
    "aten::addmm": ("linear", "forward"),
    "aten::mm": ("linear", "backward"),
}
MEMORY_BYTES_PER_S = 0.8 * 336e9  # The paper's 336 GB/s, of which kernels reach some 80 %.
LAUNCH_S = 5e-6
OP = re.compile(
    r'^op \d+ "(?P<name>[^"]*)" \w+(?: source "(?P<module>[^"]*)" "[^"]*" \d+)?'
    r"(?: repeat \d+)?(?: random)?(?: fixed)?(?: optional)?"
    r"(?: flops (?P<flops>\d+))?(?: bytes (?P<bytes>\d+))?"
)

# Of a form: the storages of which it moves bytes, so not those of which it reads the shape alone.
MOVED = re.compile(r" (\d+)\.\d+(?!\S*:shape)(?=[ :<]|$)")


@dataclass(frozen=True)
class Work:
    """What one layer has to do, and how long the paper says that it takes."""

    flops: int
    size_bytes: int
    seconds: float


@dataclass(frozen=True)
class Rates:
    """Seconds of each flop and each byte."""

    per_flop: float
    per_byte: float = 0.0

    def seconds(self, flops: int, size_bytes: int) -> float:
        return flops * self.per_flop + size_bytes * self.per_byte


Key = tuple[str, str]  # ("convolution", "forward"), ...


def layers_of_vgg(text: str) -> dict[Key, list[Work]]:
    """Each layer's ops together, in the order of the layers; `text` is the program vgg-e-64."""
    sums: dict[Key, dict[str, list[int]]] = {}
    for line in text.splitlines():
        found = OP.match(line)
        if found is None or found["name"] not in CLASSES:
            continue
        of_layer = sums.setdefault(CLASSES[found["name"]], {}).setdefault(found["module"], [0, 0])
        of_layer[0] += int(found["flops"] or 0)
        of_layer[1] += int(found["bytes"] or 0)
    works: dict[Key, list[Work]] = {}
    for (kind, way), layers in sums.items():
        times = (CONVOLUTIONS_MS if kind == "convolution" else LINEARS_MS)[way]
        in_order = list(layers.values())[:: 1 if way == "forward" else -1]
        pairs = zip(in_order, times, strict=True)
        works[kind, way] = [Work(*work, seconds=ms / 1e3) for work, ms in pairs]
    return works


def fitted(works: Sequence[Work], uses_bytes: bool) -> Rates:
    """Least squares of the relative errors, then scaled so that the sum is right."""
    a = [(w.flops / w.seconds, w.size_bytes / w.seconds if uses_bytes else 0.0) for w in works]
    ff, fb, bb = (sum(x[i] * x[j] for x in a) for i, j in ((0, 0), (0, 1), (1, 1)))
    f, b = (sum(x[i] for x in a) for i in (0, 1))
    if uses_bytes:
        determinant = ff * bb - fb * fb
        rates = Rates((f * bb - b * fb) / determinant, (b * ff - f * fb) / determinant)
    else:
        rates = Rates(f / ff)
    scale = sum(w.seconds for w in works) / sum(rates.seconds(w.flops, w.size_bytes) for w in works)
    return replace(rates, per_flop=rates.per_flop * scale, per_byte=rates.per_byte * scale)


def calibrated(works: dict[Key, list[Work]]) -> dict[Key, Rates]:
    """The rates of each class of ops."""
    return {key: fitted(layers, key[0] == "convolution") for key, layers in works.items()}


def errors(works: Sequence[Work], rates: Rates) -> list[float]:
    """Of each layer, relative."""
    return [rates.seconds(w.flops, w.size_bytes) / w.seconds - 1 for w in works]


def timed(text: str, rates: dict[Key, Rates]) -> str:
    """The program with a time for each form. Forms of an op take the same but for bytes: where one
    reads a code in place of a whole value, it moves as many fewer."""
    lines = text.splitlines()
    sizes = dict(re.findall(r'^storage (\d+) "[^"]*" (\d+)', text, re.MULTILINE))
    op: re.Match[str] | None = None
    default_bytes = 0  # That the op's first form moves.
    for i, line in enumerate(lines):
        if found := OP.match(line):
            op, default_bytes = found, 0
        elif line.startswith("form ") and op is not None:
            moved = sum(int(sizes[storage]) for storage in MOVED.findall(line))
            default_bytes = default_bytes or moved
            flops = int(op["flops"] or 0)
            size_bytes = max(0, int(op["bytes"] or 0) + moved - default_bytes)
            key = CLASSES.get(op["name"])
            seconds = rates[key].seconds(flops, size_bytes) if key else 0.0
            time_ps = round(1e12 * (LAUNCH_S + max(seconds, size_bytes / MEMORY_BYTES_PER_S)))
            lines[i] = re.sub(
                r'^(form "[^"]*"(?: call \d+)?)(?: time \d+)?', rf"\1 time {time_ps}", line
            )
    return "\n".join(lines) + "\n"


def table(works: dict[Key, list[Work]], rates: dict[Key, Rates]) -> str:
    """The paper's times and ours."""
    lines: list[str] = []
    for (kind, way), layers in works.items():
        one = rates[kind, way]
        found = errors(layers, one)
        rate = f"{1e-12 / one.per_flop:.2f} Tflop/s"
        if one.per_byte:
            rate += f" and {1e-9 / one.per_byte:.0f} GB/s"
        mean, most = sum(map(abs, found)) / len(found), max(map(abs, found))
        lines.append(f"{kind} {way}: {rate}; error {mean:.1%} on average, at most {most:.1%}")
        for number, (work, error) in enumerate(zip(layers, found, strict=True), 1):
            theirs, ours = 1e3 * work.seconds, 1e3 * work.seconds * (1 + error)
            lines.append(f"  {number:2} {theirs:7.1f} ms {ours:7.1f} {error:+6.1%}")
    return "\n".join(lines)


def main() -> int:
    """Prints the calibration; writes a program if there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="IN OUT")
    files = parser.parse_args().files
    if len(files) not in (0, 2):
        parser.error("two files, or none")
    works = layers_of_vgg(zstd("-dc", (STORED / "vgg-e-64.program.zst").read_bytes()).decode())
    rates = calibrated(works)
    if not files:
        print(table(works, rates))
        return 0
    packed = files[0].read_bytes()
    is_packed = packed.startswith(b"\x28\xb5\x2f\xfd")
    text = (zstd("-dc", packed) if is_packed else packed).decode()
    files[1].write_text(timed(text, rates))
    return 0


if __name__ == "__main__":
    sys.exit(main())
