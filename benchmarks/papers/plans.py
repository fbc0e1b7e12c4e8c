"""Plans of the papers' programs, in the papers' accounting: what reproduce.py asks for."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.output import Row
from benchmarks.papers.densities import kept_densities, with_densities
from benchmarks.papers.programs import (
    MIB,
    VDNN,
    captured,
    convolution_weight_bytes,
    counted,
    for_titan_x,
    in_place,
    on_titan_x,
    outside_bytes,
    written,
)
from benchmarks.planner.plan_cli import COMMAND, ask

GIB = 1 << 30
CARD_BYTES = 12 * GIB
LAYRUB_BYTES = 11_580_000_000
PLENTY = "400GiB"
# With the host memory of the papers, 64 GiB of vDNN and 256 GB of Layrub, and no disk. TF-swap does
# not say what it had.
TITAN_X = ("--machine", "titan-x-maxwell", "--host-budget", "64GiB", "--disk-budget", "0")
M40 = ("--machine", "titan-x-maxwell", "--host-budget", "256GB", "--disk-budget", "0")
K40 = (
    *("--machine", "k40", "--times", "roofline"),
    *("--host-budget", "256GB", "--disk-budget", "0"),
)
MAPS = ("maps", "map_gradients", "workspace")
ANSWERS: Counter[str] = Counter()  # Of the command in this run: kept ones, and new.


@dataclass(frozen=True)
class Made:
    """What one policy made of a program."""

    fits: bool
    needs_bytes: int
    said: dict[str, Any]

    @property
    def is_out_of_reach(self) -> bool:
        """No plan needs less than `needs_bytes`, which is too much."""
        return bool(self.said.get("is_floor"))

    @property
    def step_ps(self) -> int:
        return int(self.said["step_ps"])

    def counted(self) -> tuple[int, int]:
        """Most bytes of maps, their gradients and workspace at one time, and on average."""
        rows = [self.said["map"]["bytes"][kind] for kind in MAPS]
        sums = [sum(at) for at in zip(*rows, strict=True)]
        ends = [0, *self.said["map"]["end_ps"]]
        spans = [b - a for a, b in pairwise(ends)]
        average = sum(s * t for s, t in zip(sums, spans, strict=True)) / max(ends[-1], 1)
        return max(sums), round(average)


@cache
def made(path: Path, machine: tuple[str, ...], capacity: str, policy: str) -> Made:
    """By `fitstep compare`; without an answer in 15 minutes it does not fit. Equal files give
    equal plans, so an answer is kept for the next run: one that was interrupted goes on."""
    options = ("--capacity", capacity, *machine, "--policy", policy, "--map")
    key = hashlib.sha256(_command() + path.read_bytes() + repr(options).encode()).hexdigest()
    kept = path.parent / "answers" / f"{key}.json"
    ANSWERS["kept" if kept.exists() else "new"] += 1
    if kept.exists():
        said = json.loads(kept.read_text())
    else:
        said = ask("compare", path, *options, limit_s=900).said
        if said:  # Being late is the machine's answer of today.
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(json.dumps(said))
    if not said:
        return Made(False, 0, {})
    one = said["policies"][0]
    return Made(bool(one["fits"]), int(one["needs_bytes"]), one)


@cache
def _command() -> bytes:
    return hashlib.sha256(COMMAND.read_bytes()).digest()


@cache
def vdnn(name: str, *, counts_all: bool = False) -> Path:
    """A program of vDNN's evaluation, with what the paper counts or with everything."""
    text = for_titan_x(captured(name), VDNN[name])
    return written(f"{name}-all", text) if counts_all else written(name, counted(text))


@cache
def vdnn_at_one_speed(name: str) -> Path:
    """A program of vDNN's evaluation where form (m) is as fast as (p)."""
    text = for_titan_x(captured(name), VDNN[name], slower=1.0)
    return written(f"{name}-one-speed", counted(text))


@cache
def titan(name: str, *, counts_all: bool = True) -> Path:
    """Another one on its machine, without workspace."""
    text = on_titan_x(captured(name))
    return written(f"{name}-all", text) if counts_all else written(name, counted(text))


@cache
def coded_titan(name: str) -> Path:
    """VGG-E on its machine, with everything, and what its maps are in the zero-value code."""
    text = with_densities(on_titan_x(captured(name)), kept_densities())
    return written(f"{name}-coded", text)


@cache
def plain(name: str) -> Path:
    """With ReLU in place, and what Layrub counts; times by the roofline."""
    return written(f"{name}-plain", counted(in_place(captured(name))))


def speed(path: Path, machine: tuple[str, ...], one: Made) -> float:
    """Of everything kept, without a limit, the fastest forms; 0 where there is no answer."""
    kept = made(path, machine, PLENTY, "none")
    return kept.step_ps / one.step_ps if one.said and kept.said else 0.0


def most_speed(path: Path, machine: tuple[str, ...], one: Made | None) -> float:
    """What no plan of this program in this memory can beat, by the certificate's bound; 1 where
    there is no plan, so no certificate."""
    kept = made(path, machine, PLENTY, "none")
    if one is None or not one.fits or not kept.said:
        return 1.0
    return float(kept.step_ps / one.said["certificate"]["bound_ps"])


@cache
def weight_bytes(name: str) -> int:
    """That vDNN counts: a network's without its linear layers."""
    return convolution_weight_bytes(captured(name))


def auto_within(path: Path, machine: tuple[str, ...], most_bytes: int) -> Made | None:
    """The plan of auto in an arena of so many bytes; none where none was found."""
    one = made(path, machine, str(most_bytes), "auto")
    return one if one.fits else None


def in_maps(
    path: Path, machine: tuple[str, ...], one: Made | None, extra_bytes: int
) -> tuple[str, float]:
    """Its bytes in the paper's accounting and its speed, as text; and the speed."""
    if one is None:
        return "none", 0.0
    rate = speed(path, machine, one)
    return f"{mib(one.counted()[0] + extra_bytes)} at {rate:.2f}", rate


def text_of_need(one: Made) -> str:
    """Of one that does not fit."""
    if not one.said:
        return "no answer in time"
    return f"{'floor' if one.is_out_of_reach else 'needs'} {mib(one.needs_bytes)}"


def speed_text(path: Path, machine: tuple[str, ...], one: Made) -> str:
    if not one.fits:
        return text_of_need(one)
    return f"{speed(path, machine, one):.2f}"


def mib(size_bytes: float) -> str:
    return f"{size_bytes / MIB:.0f}"


def judged(is_met: bool, is_better: bool, is_out_of_reach: bool = False) -> str:
    """`is_out_of_reach`: a certificate's bound says so, for its arena, its orders and what is
    assumed."""
    if is_met:
        return "beaten" if is_better else "met"
    return "bounded" if is_out_of_reach else "short"


def faster(rate: float, wanted: float, most: float = 1.0) -> str:
    """A speed that is to be more than `wanted`; none is more than `most`."""
    return judged(rate >= wanted, rate > wanted, most <= wanted)


# What the figures of a target rest on beside its paper.
ASSUMED = {
    **dict.fromkeys((1, 2, 3, 4, 8), "workspace, copies at 12 GB/s"),
    **dict.fromkeys((5, 6, 7), "no workspace, copies at 12 GB/s"),
    **dict.fromkeys((9, 10, 11, 12, 13), "no workspace, no context; 256 GB of host"),
    **dict.fromkeys((14, 15, 16, 17, 18, 19), "roofline, no workspace, no context"),
}


def row(
    target: int,
    case: str,
    counted: str,
    theirs: str,
    policy: str,
    auto: str,
    total: str,
    verdict: str,
    at_most: float | str = "-",
) -> Row:
    return {
        "case": f"{target} {case}", "counted": counted, "theirs": theirs, "our policy": policy,
        "auto": auto, "at most": at_most if isinstance(at_most, str) else f"{at_most:.3f}",
        "auto's total": total, "assumed": ASSUMED.get(target, "-"),
        "verdict": verdict,
    }  # fmt: skip


@cache
def outside(path: Path) -> int:
    """Bytes that the program has outside of the arena."""
    return outside_bytes(path.read_text())


def arena(path: Path, one: Made | None) -> str:
    """All bytes of the device, in MiB."""
    if one is None or not one.fits:
        return "-"
    return mib(one.said["certificate"]["height_bytes"] + outside(path))
