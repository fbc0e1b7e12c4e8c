"""TF-swap's targets: convolutional, recurrent and very deep nets on its M40 (reproduce.py)."""

import math
from collections.abc import Iterator

from paper_plans import (
    CARD_BYTES,
    LAYRUB_BYTES,
    PLENTY,
    TITAN_X,
    arena,
    faster,
    judged,
    made,
    mib,
    most_speed,
    row,
    speed,
    speed_text,
    titan,
)
from paper_programs import largest_plain, of_family, on_titan_x, written
from results import Row

# Of TF-swap: a program, what it is, MB of the paper or the largest batch.
PEAKS = {"resnet-v1-101-32": (5815, 2660), "resnet-v1-200-32": (10662, 3052)}
BATCHES = {"resnet-v1-50-664": ("144 -> 664", False), "inception-v3-548": ("208 -> 548", True)}


def tf_swap(full: bool) -> Iterator[Row]:
    """9, 11: a batch, or a peak, at a loss of at most 10 %."""
    for name, (theirs, is_slow) in BATCHES.items():
        if is_slow and not full:
            yield row(9, name, "arena", theirs, "-", "with --full", "-", "short")
            continue
        path = titan(name)
        one = made(path, TITAN_X, str(CARD_BYTES), "tf-swap")
        auto = made(path, TITAN_X, str(CARD_BYTES), "auto")
        text = [f"{speed(path, TITAN_X, x):.2f}" if x.fits else "does not fit" for x in (one, auto)]
        rate = speed(path, TITAN_X, auto) if auto.fits else 0.0
        most = most_speed(path, TITAN_X, auto)
        total, verdict = arena(path, auto), faster(rate, 0.9, most)
        yield row(9, name, "arena", f"{theirs} at > .90", *text, total, verdict, most)
    for name, (base, swapped) in PEAKS.items():
        if name.startswith("resnet-v1-200") and not full:
            yield row(11, name, "arena", f"{base} -> {swapped}", "-", "with --full", "-", "short")
            continue
        path, most = titan(name), swapped * 1_000_000
        one = made(path, TITAN_X, str(most), "tf-swap")
        auto = made(path, TITAN_X, str(most), "auto")
        policy = f"needs {mib(one.needs_bytes)}" if not one.fits else mib(one.needs_bytes)
        rate = speed(path, TITAN_X, auto) if auto.fits else 0.0
        found = f"{mib(auto.needs_bytes)} at {rate:.2f}"
        most = most_speed(path, TITAN_X, auto)
        theirs, total = f"{base} -> {swapped} MB", arena(path, auto)
        verdict = faster(rate, 0.9, most)
        yield row(11, name, "arena", theirs, policy, found, total, verdict, most)


# TF-swap's factors of the batch: a family, and whether it is captured in minutes only.
FACTORS = {
    12: {"tf-nmt-50": (3.14, True)},
    13: {"tf-lm-1": (1.67, False), "tf-lm-4": (2.0, False), "tf-lm-8": (2.57, True),
         "tf-lm-16": (3.73, True)},
}  # fmt: skip


def recurrent(target: int, full: bool) -> Iterator[Row]:
    """12, 13: the factor by which the batch grows in 12 GiB; our policy is the model by hand."""
    for family, (factor, is_slow) in FACTORS[target].items():
        if is_slow and not full:
            yield row(target, family, "arena", f"x{factor}", "-", "with --full", "-", "short")
            continue
        base = largest_plain(family, CARD_BYTES)
        by_hand = largest_plain(f"{family}-by-hand", CARD_BYTES) / base
        batch = math.ceil(base * factor)
        path = written(f"{family}-{batch}", on_titan_x(of_family(family, batch)))
        text = of_family(f"{family}-by-hand", batch)
        hand = written(f"{family}-by-hand-{batch}", on_titan_x(text))
        auto = made(path, TITAN_X, str(CARD_BYTES), "auto")
        rate = speed(path, TITAN_X, auto) if auto.fits else 0.0
        kept_ps = [made(it, TITAN_X, PLENTY, "none").step_ps for it in (path, hand)]
        policy = f"by hand x{by_hand:.2f} at {kept_ps[0] / kept_ps[1]:.2f}"
        found = (
            f"x{batch / base:.2f} at {rate:.2f}" if auto.fits else f"needs {mib(auto.needs_bytes)}"
        )
        most = most_speed(path, TITAN_X, auto)
        case, total = f"{family}, {base} -> {batch}", arena(path, auto)
        verdict = faster(rate, 0.9, most)
        yield row(target, case, "arena", f"x{factor}", policy, found, total, verdict, most)
    if target == 12:
        why = "not run: 26,000 ops and more"
        yield row(12, "attention T = 100 ... 400", "arena", "x6.1 ... x30", "-", why, "-", "short")


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
            auto = made(path, TITAN_X, str(most_bytes), "auto")
            found, total = speed_text(path, TITAN_X, auto), arena(path, auto)
            most = most_speed(path, TITAN_X, auto)
            verdict = judged(auto.fits, True)
            yield row(target, case, "arena", text, "-", found, total, verdict, most)
