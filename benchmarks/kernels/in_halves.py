"""A batch in two halves: what it costs, and what plans would gain if they could run it so.

A convolution of planes asks for copies of its operands in another format; on half of the images,
for half of them. The gradient of the weight is a sum over all images: in halves its bits differ.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from fitstep_kit.measures.plain import plain_peak_bytes
from torch import Tensor

import fitstep
from benchmarks.output import MIB, Row, mib
from benchmarks.planner.plan_cli import Answer, ask
from benchmarks.steps.workloads import build

LAST = torch.channels_last
LEAST_SCRATCH_BYTES = MIB
# Any machine with a tier below; times are the program's own.
TIERS = ("--machine", "local-example", "--times", "recorded", "--host-budget", "64GiB")
SHARES = (0.5, 0.3)
SCRATCH = re.compile(r"(\d+)@(\d+)-(\d+)(?: |$)")


def layer(
    shape: tuple[int, int, int, int],
    is_last: bool,
    rounds: int,
    ratio: Callable[[Callable[[], object], Callable[[], object], int], float],
) -> Row:
    """One convolution of 16 images at once and of 8 twice: bits, times, bytes beside results."""
    channels, made, kernel, side = shape
    x = torch.randn(16, channels, side, side)
    x = x.contiguous(memory_format=LAST) if is_last else x
    weight = torch.randn(made, channels, kernel, kernel)
    weight = weight.contiguous(memory_format=LAST) if is_last else weight
    gradient = torch.randn_like(F.conv2d(x, weight, None, 1, kernel // 2))

    def forward(of: slice) -> Tensor:
        return F.conv2d(x[of], weight, None, 1, kernel // 2)

    def back(of: slice) -> Tensor:
        found: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
            gradient[of], x[of], weight, None, [1, 1], [kernel // 2] * 2, [1, 1], False, [0, 0], 1,
            [True, False, False],
        )  # fmt: skip
        return found[0]

    row: Row = {"equal bits": True}
    every, two = slice(None), (slice(8), slice(8, None))
    for name, way in (("forward", forward), ("gradient", back)):
        parts, whole = [way(half) for half in two], way(every)
        row["equal bits"] &= torch.equal(torch.cat(parts), whole)
        at_once, split = partial(way, every), partial(_list_of, way, two)
        row[name] = ratio(at_once, split, rounds)
        scratch = plain_peak_bytes(at_once) - whole.nbytes
        of_half = plain_peak_bytes(partial(way, two[0])) - parts[0].nbytes
        row[f"{name}, scratch"] = f"{mib(scratch)}, {mib(of_half)}"
    return row


def _list_of(way: Callable[[slice], Tensor], parts: tuple[slice, ...]) -> list[Tensor]:
    return [way(part) for part in parts]


def with_halves(program: str) -> tuple[str, int]:
    """The program with one form more wherever bits would be equal, and how many these are.

    Such a form asks for half of the scratch and takes no longer: more than halves can give.
    """
    calls = dict(re.findall(r'^call (\d+) "(.*)"$', program, re.MULTILINE))
    lines, found = [], 0
    for line in program.splitlines():
        lines.append(line)
        form = re.match(r'form "default" call (\d+) (.*) requests (.*)', line)
        if form is None or not _may_be_split(calls[form[1]]):
            continue
        results = re.findall(r"(\d+)@\d+-(\d+)=(\d+)", form[3])
        if len(results) != 1 or sum(scratch_bytes(line)) < LEAST_SCRATCH_BYTES:
            continue
        [(size, end, storage)] = results
        requests = [f"{size}@0-{int(end) + 1}={storage}"]
        for size, begin, end in SCRATCH.findall(form[3]):
            requests.append(f"{-(-int(size) // 2)}@{int(begin) + 1}-{int(end) + 1}")
        lines.append(f'form "halves" call {form[1]} {form[2]} requests {" ".join(requests)}')
        found += 1
    return "\n".join(lines) + "\n", found


def scratch_bytes(form: str) -> list[int]:
    """Of each request of a form that is no result, in the order of its line."""
    return [int(size) for size, _, _ in SCRATCH.findall(form)]


def _may_be_split(call: str) -> bool:
    is_gradient = call.startswith("aten::convolution_backward(")
    return call.startswith("aten::convolution(") or (
        is_gradient and call.endswith("[True, False, False])")
    )


def plans(name: str, small: bool, folder: Path) -> Row:
    """One workload: floors, and predicted times, with such forms over without."""
    workload = build(name, small)
    step = fitstep.compile(workload.train_step, workload.batch(0), budget="100%")
    as_it_is, split = folder / "as_it_is.program", folder / "split.program"
    step.program.save(as_it_is)
    step.close()
    text, count = with_halves(as_it_is.read_text())
    split.write_text(text)
    answers = [ask("plan", path, "--budget", "1MiB", *TIERS) for path in (as_it_is, split)]
    row: Row = {"case": name, "forms in halves": count}
    row["floor"], row["floor with them"] = (mib(it.said["floor_bytes"]) for it in answers)
    for share in SHARES:
        budget = f"{share:.0%}"
        of = [ask("plan", path, "--budget", budget, *TIERS) for path in (as_it_is, split)]
        row[f"time at {budget}"] = _ratio(*of)
    return row


def _ratio(first: Answer, second: Answer) -> float | str:
    if first.outcome != "fits" or second.outcome != "fits":
        return f"{first.outcome}, {second.outcome}"
    times = [it.said["certificate"]["predicted_ps"] for it in (first, second)]
    return float(times[1] / times[0])
