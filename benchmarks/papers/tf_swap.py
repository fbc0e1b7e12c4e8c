"""TF-swap's targets: convolutional, recurrent and very deep nets on its M40 (reproduce.py)."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.output import Row
from benchmarks.papers.plans import (
    CARD_BYTES,
    LAYRUB_BYTES,
    M40,
    PLENTY,
    arena,
    faster,
    judged,
    made,
    mib,
    most_speed,
    row,
    speed,
    speed_text,
    text_of_need,
    titan,
)
from benchmarks.papers.programs import largest_plain, of_family, on_titan_x, written

# Of TF-swap: the factor of the batch of a family, and whether that takes more than minutes.
CONVOLUTIONAL = {
    "resnet-v1-50": (664 / 144, False), "inception-v3": (548 / 208, True), "dcgan-d": (2.0, False),
    "dcgan-g": (2.0, False), "tf-nmt-50": (824 / 496, True),
}  # fmt: skip
# MB of all that is kept, and of theirs.
PEAKS = {"resnet-v1-101-32": (5815, 2660), "resnet-v1-200-32": (10662, 3052)}
BIGGER = 1.05  # A factor that is larger by so much beats theirs.


def tf_swap(full: bool) -> Iterator[Row]:
    """9, 11: a factor of the largest plain batch, or a peak, at a loss of at most 10 %."""
    for family, (factor, is_slow) in CONVOLUTIONAL.items():
        yield factor_row(9, family, factor, 0.9, is_slow and not full, "tf-swap")
    for name, (base, swapped) in PEAKS.items():
        if name.startswith("resnet-v1-200") and not full:
            yield row(11, name, "arena", f"{base} -> {swapped}", "-", "with --full", "-", "short")
            continue
        path, most_bytes = titan(name), swapped * 1_000_000
        one = made(path, M40, str(most_bytes), "tf-swap")
        auto = made(path, M40, str(most_bytes), "auto")
        policy = f"needs {mib(one.needs_bytes)}" if not one.fits else mib(one.needs_bytes)
        rate = speed(path, M40, auto) if auto.fits else 0.0
        found = f"{mib(auto.needs_bytes)} at {rate:.2f}"
        most = most_speed(path, M40, auto)
        theirs, total = f"{base} -> {swapped} MB", arena(path, auto)
        verdict = faster(rate, 0.9, most)
        yield row(11, name, "arena", theirs, policy, found, total, verdict, most)


def factor_row(
    target: int, family: str, factor: float, wanted: float, is_left_out: bool, policy: str
) -> Row:
    """By how much the batch grows in 12 GiB from the largest that everything is kept of, at a speed
    of at least `wanted`. The same factor meets theirs, a larger one beats it."""
    theirs = f"x{factor:.2f} at {wanted:.2f}"
    if is_left_out:
        return row(target, family, "arena", theirs, "-", "with --full", "-", "short")
    base = largest_plain(family, CARD_BYTES)
    verdict, found, total, most, rate = "short", "", "-", 1.0, 0.0
    batch = math.ceil(base * factor)
    for wider in (BIGGER, 1.0):
        batch = math.ceil(base * factor * wider)
        path = written(f"{family}-{batch}", on_titan_x(of_family(family, batch)))
        auto = made(path, M40, str(CARD_BYTES), "auto")
        rate, most = speed(path, M40, auto) if auto.fits else 0.0, most_speed(path, M40, auto)
        found = f"x{batch / base:.2f} at {rate:.2f}" if auto.fits else text_of_need(auto)
        is_bounded = auto.is_out_of_reach or most < wanted
        total, verdict = arena(path, auto), judged(rate >= wanted, wider > 1, is_bounded)
        if rate >= wanted:
            break
    ours = by_hand(family, base, batch) if policy == "by hand" else by_policy(path, policy)
    case = f"{family}, {base} -> {batch}"
    return row(target, case, "arena", theirs, ours, found, total, verdict, most)


def by_policy(path: Path, policy: str) -> str:
    """What the policy makes of the same batch."""
    one = made(path, M40, str(CARD_BYTES), policy)
    return f"{speed(path, M40, one):.2f}" if one.fits else text_of_need(one)


def by_hand(family: str, base: int, batch: int) -> str:
    """What the model does that keeps less by itself, and its time beside the other's."""
    grown = largest_plain(f"{family}-by-hand", CARD_BYTES) / base
    plain, hand = (
        written(f"{it}-{batch}", on_titan_x(of_family(it, batch)))
        for it in (family, f"{family}-by-hand")
    )
    kept = [made(it, M40, PLENTY, "none") for it in (plain, hand)]
    if not all(one.said for one in kept):
        return f"by hand x{grown:.2f}"
    return f"by hand x{grown:.2f} at {kept[0].step_ps / kept[1].step_ps:.2f}"


# TF-swap's factors of the batch: a family, and whether it takes more than minutes.
FACTORS = {
    12: {"tf-nmt-50": (3.14, True), "tf-nmt-100": (6.11, True), "tf-nmt-200": (11.5, True),
         "tf-nmt-400": (30.0, True)},
    13: {"tf-lm-1": (1.67, False), "tf-lm-4": (2.0, False), "tf-lm-8": (2.57, True),
         "tf-lm-16": (3.73, True)},
}  # fmt: skip
# Attention is not to be slower, less than 1 % of it; of the language models nothing is said.
WANTED = {12: 0.99, 13: 0.9}


def recurrent(target: int, full: bool, families: Sequence[str] = ()) -> Iterator[Row]:
    """12, 13: our policy is the model that keeps less by hand. Without names, of all families."""
    for family, (factor, is_slow) in FACTORS[target].items():
        if families and family not in families:
            continue
        yield factor_row(target, family, factor, WANTED[target], is_slow and not full, "by hand")


# TF-swap's MB by depth; 2000 layers are deeper than Layrub's 1517, too.
DEEP = {1001: 5979, 2000: 10650}


def deep(full: bool) -> Iterator[Row]:
    """10, 15: very deep nets with 32 images, everything on the device counted."""
    for layers, theirs in DEEP.items():
        cases = [(10, f"ResNet-{layers}", theirs * 1_000_000, f"{theirs} MB")]
        if layers > 1517:
            cases.append((15, f"ResNet-{layers}", LAYRUB_BYTES, "1517 layers in 11580 MB"))
        for target, case, most_bytes, text in cases:
            if not full:
                yield row(target, case, "arena", text, "-", "with --full", "-", "short")
                continue
            path = titan(f"resnet-v1-{layers}-32")
            auto = made(path, M40, str(most_bytes), "auto")
            found, total = speed_text(path, M40, auto), arena(path, auto)
            most = most_speed(path, M40, auto)
            verdict = judged(auto.fits, True)
            yield row(target, case, "arena", text, "-", found, total, verdict, most)
