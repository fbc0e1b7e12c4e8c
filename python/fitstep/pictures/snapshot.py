"""A plan as a memory snapshot, in the form of `torch.cuda.memory._dump_snapshot()`.

One segment is the arena. Each block of the plan is one allocation at its planned address. All times
are predicted. https://pytorch.org/memory_viz and `python -m torch.cuda._memory_viz` read the file.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from . import words
from .picture import BlockRow, Picture, Pictured

_ARENA_ADDRESS = 0x7F0000000000  # Any address: readers only compare addresses.
_PROTOCOL = 4  # The newest pickle protocol that memory_viz reads.
_MICROSECOND_PS = 10**6


def save_memory_snapshot(path: str | Path, pictured: Pictured) -> None:
    """Writes the snapshot of one program to a file."""
    with Path(path).open("wb") as file:
        pickle.dump(memory_snapshot(pictured.picture), file, protocol=_PROTOCOL)


def memory_snapshot(picture: Picture) -> dict[str, Any]:
    """The snapshot as a dict: `segments` after the step, `device_traces` with every event of it."""
    events: list[tuple[int, list[dict[str, Any]]]] = []
    for block in picture.blocks:
        frames = _frames(picture, block)
        events.append((block.opened, [_event("alloc", picture, block, block.begin_ps, frames)]))
        if block.ended_position < 0:
            continue
        freed = ("free_requested", "free_completed")
        both = [_event(action, picture, block, block.end_ps, frames) for action in freed]
        events.append((block.closed, both))
    events.sort(key=lambda event: event[0])
    trace = [_arena_event(picture), *(one for _, both in events for one in both)]
    return {
        "segments": [_arena(picture)],
        "device_traces": [trace],
        "allocator_settings": {},
        "external_annotations": [],
    }


def _event(
    action: str, picture: Picture, block: BlockRow, time_ps: int, frames: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "action": action,
        "addr": _ARENA_ADDRESS + block.offset_bytes,
        "size": block.size_bytes,
        "stream": 0,
        "time_us": time_ps // _MICROSECOND_PS,
        "category": words.BANDS[picture.band_of(block)],
        "frames": frames,
    }


def _arena_event(picture: Picture) -> dict[str, Any]:
    """The allocation of the arena. memory_viz fails unless some event has this category."""
    return {
        "action": "segment_alloc",
        "addr": _ARENA_ADDRESS,
        "size": picture.height_bytes,
        "stream": 0,
        "time_us": 0,
        "category": "unknown",
        "frames": [],
    }


def _arena(picture: Picture) -> dict[str, Any]:
    """The segment after the step, when only homes are left."""
    left = [block for block in picture.blocks if block.ended_position < 0]
    blocks: list[dict[str, Any]] = []
    end = 0
    for block in sorted(left, key=lambda block: block.offset_bytes):
        _add_gap(blocks, end, block.offset_bytes)
        blocks.append(_block(block.offset_bytes, block.size_bytes, "active_allocated"))
        blocks[-1]["frames"] = _frames(picture, block)
        end = block.offset_bytes + block.size_bytes
    _add_gap(blocks, end, picture.height_bytes)
    held = sum(block.size_bytes for block in left)
    return {
        "device": 0,
        "address": _ARENA_ADDRESS,
        "total_size": picture.height_bytes,
        "allocated_size": held,
        "active_size": held,
        "requested_size": held,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def _add_gap(blocks: list[dict[str, Any]], begin: int, end: int) -> None:
    if begin < end:
        blocks.append(_block(begin, end - begin, "inactive"))


def _block(offset_bytes: int, size_bytes: int, state: str) -> dict[str, Any]:
    return {
        "address": _ARENA_ADDRESS + offset_bytes,
        "size": size_bytes,
        "requested_size": size_bytes if state == "active_allocated" else 0,
        "state": state,
        "frames": [],
    }


def _frames(picture: Picture, block: BlockRow) -> list[dict[str, Any]]:
    """Says what a block is, where frames of a call stack are expected: the innermost first."""
    lines = words.of_block(picture, block)
    op = words.maker_of(picture, block)
    file, line = ("", 0) if op < 0 else (picture.ops[op].file, picture.ops[op].line)
    frames = [{"filename": file or "fitstep", "line": line, "name": lines[0]}]
    return frames + [{"filename": "fitstep", "line": 0, "name": text} for text in lines[1:]]
