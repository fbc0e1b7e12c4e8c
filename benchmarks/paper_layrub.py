"""Layrub's targets: activations and gradients of convolutional nets on its K40 (reproduce.py)."""

from collections.abc import Iterator
from statistics import mean

from paper_plans import (
    K40,
    LAYRUB_BYTES,
    PLENTY,
    arena,
    auto_within,
    faster,
    in_maps,
    judged,
    made,
    mib,
    most_speed,
    plain,
    row,
    speed,
    speed_text,
)
from paper_programs import MIB, in_place, of_family, written
from results import Row

# Of Layrub: MiB of all and of hybrid, and seconds more (its K40).
LAYRUB = {
    "caffenet-256": (1900, 640, 0.2185), "vgg-d-32": (3700, 970, 0.2063),
    "resnet-34-32": (1750, 290, 0.2552), "resnet-v1-50-32": (5380, 759.5, 0.5676),
}  # fmt: skip


def layrub(full: bool) -> Iterator[Row]:
    """14, 16, 17: activations and gradients; auto within as much as the paper has."""
    saved: list[float] = []
    for name, (base, hybrid, more) in LAYRUB.items():
        path = plain(name)
        one = made(path, K40, PLENTY, "layrub")
        auto = auto_within(path, K40, int(hybrid * MIB))
        policy = f"{mib(one.counted()[0])} +{1 / speed(path, K40, one) - 1:.0%}"
        found, rate = "none", 0.0
        if auto is not None:
            rate = speed(path, K40, auto)
            found = f"{mib(auto.counted()[0])} +{1 / rate - 1:.0%}"
            saved.append(1 - auto.counted()[0] / (base * MIB))
        most = most_speed(path, K40, auto)
        theirs, total = f"{base} -> {hybrid} +{more:.0%}", arena(path, auto)
        verdict = faster(rate, 1 / (1 + more), most)
        yield row(17, name, "maps", theirs, policy, found, total, verdict, most)
    # What does not fit saves nothing.
    text = f"-{sum(saved) / len(LAYRUB):.1%}, {len(saved)} of {len(LAYRUB)} fit"
    verdict = judged(len(saved) == len(LAYRUB) and mean(saved) > 0.582, True)
    yield row(16, "mean of these, of their base", "maps", "-58.2 %", "-", text, "-", verdict)
    depths = [50, 101, *([152, 200] if full else [])]
    sizes = [made(plain(f"resnet-v1-{n}-32"), K40, PLENTY, "layrub").counted()[0] for n in depths]
    path = plain(f"resnet-v1-{depths[-1]}-32")
    auto = auto_within(path, K40, int(759.5 * MIB))
    found = f"{mib(auto.counted()[0])} at {depths[-1]} layers" if auto else "none"
    policy, total = ", ".join(mib(size) for size in sizes), arena(path, auto)
    verdict = judged(auto is not None, True)
    yield row(14, f"ResNet-50 to {depths[-1]}", "maps", "759.5", policy, found, total, verdict)


# Layrub's largest batches in 11580 MB, and the two that were captured.
LARGEST = {
    "caffe-alexnet": (2100, (128, 256)), "vgg-d": (240, (32, 64)), "resnet-34": (416, (32, 64)),
    "resnet-v1-50": (272, (32, 144)),
}  # fmt: skip


def largest_batches(_: bool) -> Iterator[Row]:
    """18: a quarter more images than theirs, at a loss of at most 10 %."""
    for family, (theirs, captured_at) in LARGEST.items():
        batch = theirs * 5 // 4
        path = written(f"{family}-{batch}", in_place(of_family(family, batch, captured_at)))
        one = made(path, K40, str(LAYRUB_BYTES), "layrub")
        auto = made(path, K40, str(LAYRUB_BYTES), "auto")
        text = [speed_text(path, K40, it) for it in (one, auto)]
        most = most_speed(path, K40, auto)
        verdict = faster(speed(path, K40, auto) if auto.fits else 0.0, 0.9, most)
        case, total = f"{family} with {batch}", arena(path, auto)
        yield row(18, case, "arena", f"{theirs}", *text, total, verdict, most)


def wide(_: bool) -> Iterator[Row]:
    """19: their WRN-8-256 cannot be rebuilt (depths are 6 n + 4), so WRN-10-34 within the same
    share of what it needs with everything kept."""
    path = plain("wrn-10-34-128")
    kept = made(path, K40, PLENTY, "none")
    one = made(path, K40, PLENTY, "layrub")
    auto = auto_within(path, K40, kept.counted()[0] * 1820 // 3760)
    found, _ = in_maps(path, K40, auto, 0)
    verdict = judged(auto is not None, True)
    case = f"WRN-10-34, {mib(kept.counted()[0])} by none"
    policy, total = f"{mib(one.counted()[0])} at {speed(path, K40, one):.2f}", arena(path, auto)
    yield row(19, case, "maps", "3760 -> 1820", policy, found, total, verdict)
