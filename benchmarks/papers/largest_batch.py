"""The largest batch of a network whose step fits into a memory with plain PyTorch.

    PYTHONPATH=python python -m benchmarks.papers.largest_batch [--memory 12GiB] FAMILY ...

Families are those of `families.py`. A batch fits if the plain peak of its program does: captured on
fake tensors, so nothing is run, and without what kernels request for themselves.
"""

import argparse
import sys
from collections.abc import Callable
from functools import cache

from fitstep_kit.programs.capture import UntouchedMemory, steady_step

from benchmarks.papers.families import FAMILIES
from fitstep import _core


def largest(peak_bytes: Callable[[int], int], memory_bytes: int, first: int) -> int:
    """The largest batch whose peak is at most `memory_bytes`; 0 if one image is too much.

    Secants from `first`, which find the end of a straight line at once: a peak is the largest of
    sums that grow with the batch. REQUIRES: `first` is at least 2, the peak never shrinks.
    """
    fits, too_much = 0, first
    while peak_bytes(too_much) <= memory_bytes:
        other = fits or too_much // 2
        slope = max(1, (peak_bytes(too_much) - peak_bytes(other)) // (too_much - other))
        more = (memory_bytes - peak_bytes(too_much)) // slope + 1
        fits, too_much = too_much, too_much + more
    while too_much - fits > 1:
        aim = too_much // 2
        if fits:
            rise = peak_bytes(too_much) - peak_bytes(fits)
            room = memory_bytes - peak_bytes(fits)
            aim = fits + room * (too_much - fits) // rise
        aim = min(max(aim, fits + 1), too_much - 1)
        if peak_bytes(aim) <= memory_bytes:
            fits = aim
        else:
            too_much = aim
    return fits


def main() -> int:
    """Prints one line for each family."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("families", nargs="+", choices=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--memory", default="12GiB")
    args = parser.parse_args()
    memory_bytes = _core.parse_budget(args.memory, "--memory").bytes
    for name in args.families:

        @cache
        def peak_bytes(batch: int, name: str = name) -> int:
            with UntouchedMemory():
                function, example = FAMILIES[name].make(batch)
            return int(steady_step(function, example).plain_peak_bytes())

        found = largest(peak_bytes, memory_bytes, FAMILIES[name].batches[0])
        print(f"{name}: {found} in {_core.format_bytes(memory_bytes)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
