"""The papers' training steps as they count them: times of their machine, workspace, ReLU in place.

    text = for_titan_x(captured("vgg-e-64"), VDNN["vgg-e-64"])

Captured programs know neither times nor workspace. What is put in here:

    times       of a Titan X, calibrated on VGG-E (titan_x.py); elsewhere the roofline
    ReLU        its gradient may take the place of the gradient that comes, as in Torch and Caffe
    workspace   assumed: a convolution's fastest form (p) has one, in proportion to the bytes that
                it moves, the largest as large as the paper's bar of base(p) says; its form (m) has
                none and is so slow that base(m) has the speed of the paper's bar
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

from fitstep_kit.programs.capture import capture, zstd
from fitstep_kit.programs.trainings import Training

from benchmarks.output import MIB, ROOT
from benchmarks.papers.families import ALL, FAMILIES
from benchmarks.papers.largest_batch import largest
from benchmarks.papers.titan_x import calibrated, layers_of_vgg, timed
from fitstep import _core

FOLDER = ROOT / "build" / "reproduce"
OP = re.compile(r'^op \d+ "(?P<name>[^"]*)" (?P<kind>\w+).* bytes (?P<bytes>\d+)$')
FORM = re.compile(r'^form "default"(?P<call> call \d+)? time (?P<time>\d+)(?P<rest>.*)$')
STORAGE = re.compile(
    r'^(?P<head>storage (?P<id>\d+) "[^"]*" (?P<bytes>\d+)) (?P<kind>\w+)(?P<rest>.*)$'
)
NUMBER = re.compile(r"(\d+)")
READS = re.compile(r"reads \S+:sign (?P<gradient>\d+)\.\d+ writes (?P<result>\d+\.\d+)")


@dataclass(frozen=True)
class Bars:
    """What vDNN's figures show of a network."""

    workspace_mib: int  # The part of base(p).
    base_m_speed: float  # Of base(p)'s.
    base_p_mib: int
    least_mib: int  # The most bytes of all(m),
    all_p_speed: float  # and how fast its quicker relative is.
    dyn_mib: int
    dyn_speed: float
    dyn_saved: float  # Of base(p), on average over time.


VDNN = {
    "alexnet-128": Bars(330, 0.40, 1130, 276, 0.78, 664, 1.00, 0.637),
    "overfeat-128": Bars(1581, 0.57, 4362, 1286, 0.91, 2416, 1.00, 0.745),
    "googlenet-128": Bars(405, 0.62, 4517, 1014, 0.63, 2532, 1.00, 0.577),
    "vgg-e-64": Bars(2449, 0.47, 8602, 2455, 0.84, 6346, 1.00, 0.571),
    "vgg-e-128": Bars(2739, 0.42, 14474, 4866, 0.84, 6346, 1.00, 0.733),
    "vgg-e-256": Bars(5009, 0.38, 27977, 9612, 0.79, 9612, 0.82, 0.900),
}


def captured(name: str) -> str:
    """The program's text, captured where it is not cached: those that are stored for the planner
    are older than packing. Of a family any batch will do."""
    path = FOLDER / f"{name}.program.zst"
    if path.exists():
        return zstd("-dc", path.read_bytes()).decode()
    training = ALL.get(name)
    if training is None:
        family, batch = name.rsplit("-", 1)
        made = FAMILIES[family]
        training = Training(made.what.format(batch), lambda: made.make(int(batch)))
    text = capture(name, training)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstd("-6", text.encode()))
    return text


def in_place(text: str) -> str:
    """ReLU's gradient may lie where the gradient that it reads was."""
    lines = text.splitlines()
    is_relu = False
    for i, line in enumerate(lines):
        if line.startswith("op "):
            is_relu = ' "aten::threshold_backward" ' in line
        elif is_relu and line.startswith("form ") and "<" not in line:
            lines[i] = READS.sub(lambda m: f"{m[0]}<{m['gradient']}", line)
    return "\n".join(lines) + "\n"


def at_batch(one: str, other: str, batches: tuple[int, int], batch: int) -> str:
    """The program of another batch, by a line through two: they differ in sizes, flops and bytes.
    Raises where they differ in anything else."""
    share = Fraction(batch - batches[0], batches[1] - batches[0])
    lines: list[str] = []
    for a, b in zip(one.splitlines(), other.splitlines(), strict=True):
        if a == b or a.startswith(("#", "name", "call")):
            lines.append(a)
            continue
        of_a, of_b = NUMBER.split(a), NUMBER.split(b)  # Text, number, text, ...
        if of_a[::2] != of_b[::2]:
            raise ValueError(f"not the same step: {a} and {b}")
        for i in range(1, len(of_a), 2):
            first, second = int(of_a[i]), int(of_b[i])
            of_a[i] = str(round(first + share * (second - first)))
        lines.append("".join(of_a))
    return "\n".join(lines) + "\n"


def of_family(family: str, batch: int, batches: tuple[int, int] = (64, 128)) -> str:
    """A family's program for any batch, from two that were captured."""
    one, other = (captured(f"{family}-{it}") for it in batches)
    return at_batch(one, other, batches, batch)


@cache
def _rates() -> object:
    return calibrated(layers_of_vgg(captured("vgg-e-64")))


def on_titan_x(text: str) -> str:
    """With times, ReLU in place, no workspace."""
    return in_place(timed(text, _rates()))  # type: ignore[arg-type]


def with_workspace(text: str, bars: Bars, slower: float | None = None) -> str:
    """Two forms for each convolution; (m) is so many times slower, or as base(m) says. REQUIRES:
    the program has times."""
    lines = text.splitlines()
    found: list[tuple[int, int]] = []  # Line of the form, bytes that its op moves.
    total_ps = slow_ps = size_bytes = 0
    is_convolution = is_optional = False
    for i, line in enumerate(lines):
        if line.startswith("op "):
            op = OP.match(line)
            is_convolution = op is not None and op["kind"] == "convolution"
            is_optional = " optional " in line
            size_bytes = int(op["bytes"]) if op else 0
        elif not is_optional and (form := FORM.match(line)):
            total_ps += int(form["time"])
            if is_convolution:
                slow_ps += int(form["time"])
                found.append((i, size_bytes))
    factor = slower or 1 + total_ps * (1 / bars.base_m_speed - 1) / slow_ps
    largest = max(size for _, size in found)
    for i, size in found:
        form = FORM.match(lines[i])
        assert form is not None
        scratch = bars.workspace_mib * MIB * size // largest // 512 * 512
        slow = round(int(form["time"]) * factor)
        small = f'form "small"{form["call"] or ""} time {slow}{form["rest"]}'
        lines[i] += (f" requests {scratch}@0-1" if scratch else "") + f"\n{small}"
    return "\n".join(lines) + "\n"


def for_titan_x(text: str, bars: Bars, slower: float | None = None) -> str:
    """All of it."""
    return with_workspace(on_titan_x(text), bars, slower)


def counted(text: str) -> str:
    """Without what vDNN and Layrub neither count nor manage: weights, their gradients and the
    optimizer's state lie outside of the arena. So a capacity is one of what they do count.
    """
    lines = text.splitlines()
    updates = [i for i, line in enumerate(lines) if re.match(r'op \d+ "[^"]*" update', line)]
    moved = {it for i in updates for it in re.findall(r" (\d+)\.\d+", lines[i + 1])}
    for i, line in enumerate(lines):
        found = STORAGE.match(line)
        if found is None:
            continue
        if found["kind"] in ("parameter", "optimizer_state", "buffer"):
            kind = "constant start"
        elif found["kind"] == "temporary" and found["id"] in moved:
            kind = "output"
        else:
            continue
        recorded = found["rest"].partition(" recorded ")
        lines[i] = f"{found['head']} {kind}{''.join(recorded[1:])}"
    return "\n".join(lines) + "\n"


def largest_plain(family: str, memory_bytes: int) -> int:
    """The largest batch that fits with everything kept as long as PyTorch keeps it."""

    @cache
    def peak_bytes(batch: int) -> int:
        return int(_core.facts_of_program(of_family(family, batch))["plain_peak_bytes"])

    return largest(peak_bytes, memory_bytes, 64)


def outside_bytes(text: str) -> int:
    """Of what counted() has moved out, all of it."""
    found = (STORAGE.match(line) for line in text.splitlines())
    return sum(int(one["bytes"]) for one in found if one and one["kind"] in ("constant", "output"))


def convolution_weight_bytes(text: str) -> int:
    """Of parameters that convolutions read: those of vDNN's feature extraction."""
    sizes = dict(re.findall(r'^storage (\d+) "[^"]*" (\d+) parameter', text, re.MULTILINE))
    forms = r'^op \d+ "aten::convolution" .*\nform .* reads (.*) writes'
    read = {
        part.split(".")[0] for it in re.findall(forms, text, re.MULTILINE) for part in it.split()
    }
    return sum(int(sizes[storage]) for storage in read & {*sizes})


def parameter_bytes(text: str) -> int:
    """Of all parameters."""
    sizes = re.findall(r'^storage \d+ "[^"]*" (\d+) parameter', text, re.MULTILINE)
    return sum(map(int, sizes))


def written(name: str, text: str) -> Path:
    """A file for the command."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.program"
    path.write_text(text)
    return path
