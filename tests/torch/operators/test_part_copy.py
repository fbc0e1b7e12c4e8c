"""Copies of parts of a storage: what they hold is what was there when it was asked for."""

import random
import resource
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fitstep import _core

LARGE = 1 << 21  # Elements; the copy is mapped page by page.


def window(of: Tensor, draw: random.Random) -> Tensor:
    """Some of it: in one piece, in steps, turned, one element, or nothing."""
    begin = draw.randrange(of.numel() - 60)
    kind = draw.randrange(5)
    piece = of[begin : begin + draw.randrange(1, 60)]
    if kind == 1:
        return piece[::3]
    if kind == 2:
        return of[begin : begin + 24].view(4, 6).t()
    if kind == 3:
        return of[begin]
    return piece[:0] if kind == 4 else piece


@pytest.mark.parametrize("size", [200, LARGE])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_asked_for_again_is_not_copied_again(size: int, seed: int) -> None:
    draw = random.Random(seed)
    original = torch.arange(size, dtype=torch.int32)
    first = draw.randrange(max(1, size - 200))
    near = original[first : first + 200]
    copied = _core.PartCopy(original)
    known: dict[int, int] = {}  # By element.
    for _ in range(60):
        asked = window(near, draw)
        places = [] if asked.numel() == 0 else elements(asked)
        there = all(known.get(i, int(original[i])) == int(original[i]) for i in places)
        assert copied.is_as(asked) == there
        copied.add(asked)
        for i in places:
            known.setdefault(i, int(original[i]))
        original[first + draw.randrange(200)] += draw.randrange(2)
    shown = copied.at(original)
    assert {i: int(shown[i]) for i in known} == known
    into = torch.full_like(original, -1)
    copied.put_into(into)
    assert copied.is_in(into)
    assert {int(i): int(into[i]) for i in (into != -1).nonzero().flatten()} == known
    again = copied.again(original)
    assert {i: int(again.at(original)[i]) for i in known} == {i: int(original[i]) for i in known}
    for i in list(known)[:3]:
        into[i] -= 1
        assert not copied.is_in(into)
        into[i] += 1


def elements(tensor: Tensor) -> range:
    """Those of its storage from its first to its last."""
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return range(tensor.storage_offset(), tensor.storage_offset() + last + 1)


def resident_bytes() -> int:
    """Of this process, now: its peak may be that of another test."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_part_of_much_takes_its_pages_alone() -> None:
    original = torch.empty(1 << 28, dtype=torch.uint8)  # Nobody has touched most of it.
    before = resident_bytes()
    copied = _core.PartCopy(original)
    for i in range(20):
        original[i << 23] = i
        copied.add(original[i << 23 : (i << 23) + 10])
    assert copied.size_bytes() == 20 * 4096
    # The original's pages may be huge ones, 2 MiB each; a copy of all would be 256 MiB.
    assert resident_bytes() - before < 64 << 20
    assert copied.at(original)[5 << 23] == 5
    copied.add(original[: 1 << 23])
    assert copied.size_bytes() == (1 << 23) + 19 * 4096
