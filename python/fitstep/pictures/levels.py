"""Levels: the bytes of every band over the time of a step, one row for each run of an op.

bytes
  3 |      ###        a row has the bytes at the fullest moment between the begin of its op and
  2 |   #########     the begin of the next one
  1 +---============
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from .picture import COMPUTE, Picture, SpanRow
from .words import BANDS


@dataclass(eq=False)
class Levels:
    """Columns of equal length, in order of time."""

    spans: list[SpanRow]  # The runs on the compute lane.
    bands: dict[str, list[int]]  # Bytes by band of `words.BANDS`.
    totals: list[int]  # Their sums: bytes of the arena that are live.

    @property
    def peak_bytes(self) -> int:
        return max(self.totals, default=0)

    @property
    def peak_at(self) -> int:
        """The row with the peak, the first of several. REQUIRES: there is a row."""
        return self.totals.index(self.peak_bytes)


_Change = tuple[str, int]  # Band, bytes more or less.


def levels_of(picture: Picture) -> Levels:
    """The levels of a step."""
    spans = [span for span in picture.spans if span.lane == COMPUTE]
    now = dict.fromkeys(BANDS, 0)
    levels = Levels(spans, {band: [] for band in BANDS}, [])
    for changes in _changes(picture, [span.begin_ps for span in spans]):
        fullest, most = dict(now), sum(now.values())
        total = most
        for band, more in changes:
            now[band] += more
            total += more
            if total > most:
                fullest, most = dict(now), total
        levels.totals.append(most)
        for band, size in fullest.items():
            levels.bands[band].append(size)
    return levels


def _changes(picture: Picture, begins_ps: list[int]) -> list[list[_Change]]:
    """For each run, the changes in their order. What an op frees at its end is its own change;
    those of copies belong to the op that begins last before them."""
    events: list[tuple[int, int, _Change]] = []  # Place in the order, row, change.

    def add(place: int, lane: str, position: int, time_ps: int, change: _Change) -> None:
        is_op = lane == COMPUTE and position >= 0
        row = position if is_op else max(bisect_right(begins_ps, time_ps) - 1, 0)
        events.append((place, row, change))

    for block in picture.blocks:
        band, size = picture.band_of(block), block.size_bytes
        begun = block.begun_lane, block.begun_position
        add(block.opened, *begun, block.begin_ps, (band, size))
        if block.ended_position >= 0:
            ended = block.ended_lane, block.ended_position
            add(block.closed, *ended, block.end_ps, (band, -size))
    rows: list[list[_Change]] = [[] for _ in begins_ps]
    last = 0
    for _, row, change in sorted(events):
        last = max(last, row)
        if rows:
            rows[last].append(change)
    return rows
