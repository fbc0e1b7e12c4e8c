"""The report as one HTML file, which opens without a network."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

from .. import _core
from ..base.describe import format_seconds
from ..errors import FitstepError
from . import words
from .charts import Compared, Legend, Line, Spot, chart_of_budgets, charts_over_time
from .levels import Levels, levels_of
from .picture import SECOND_PS, Picture, Pictured

_MOST_AT_PEAK = 15
_HOW_TO_READ = (
    "All charts are predicted. Bytes are those at the fullest moment of each op. In the lanes, "
    "orange runs are recomputes. In the arena, each block is a tensor or the workspace of a "
    "kernel. Point at anything to see what it is, where it comes from and why it is there."
)
_CHECKPOINTING_IS = (
    'Checkpointing is fitstep\'s policy "recompute-sqrt": of n narrow places of the step it keeps '
    "every k-th, k about the square root of n, and recomputes all between them once, like "
    "torch.utils.checkpoint.checkpoint_sequential with equal segments. It releases tensors as "
    "early as fitstep does, so PyTorch's own checkpointing usually holds more."
)
_CHECKPOINTING = "recompute-sqrt"  # The policy that is like torch.utils.checkpoint.


@dataclass(frozen=True)
class Part:
    """One program on the page. Sizes in bytes, times in seconds, as in the report."""

    pictured: Pictured
    total_bytes: int  # All that the step holds.
    outside_bytes: int  # Of it: what is not in the arena.
    external_bytes: int  # Of that: inputs, outputs and constants.
    floor_bytes: int
    plain_peak_bytes: int  # Of this program.
    predicted_s: float
    measured_s: float | None


def page_of(
    title: str,
    facts: Sequence[tuple[str, str]],
    table: Sequence[Sequence[str]],
    parts: Sequence[Part],
    text: str,
    budget_bytes: int,
    curve: Sequence[tuple[int, float]] = (),
) -> str:
    """The page as text.

    `facts`: (name, value) of the whole step. `table`: rows of texts, the first of them the head.
    `parts`: the programs with charts, the most important first. `text`: the report as text.
    `curve`: (bytes, seconds) of plans for other budgets of the first program. Raises FitstepError
    if Bokeh is missing.
    """
    scripts = _bokeh()
    body = [f"<h1>{escape(title)}</h1>", _cards(facts), _table(table)]
    for index, part in enumerate(parts):
        body.append(_part(part, index, budget_bytes, curve if index == 0 else ()))
    text = f"<pre>{escape(text)}</pre>"
    body.append(f"<details><summary>The report as text</summary>{text}</details>")
    head = f'<meta charset="utf-8"><title>{escape(title)}</title>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return "\n".join(
        [
            f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}{view}',
            f"<style>{_file('page.css')}</style></head>\n<body>",
            *body,
            *(f"<script>{script}</script>" for script in scripts),
            f"<script>{_file('page.js')}</script>\n</body>\n</html>\n",
        ]
    )


def as_frame(page: str) -> str:
    """The page as a part of a notebook, which neither changes nor is changed by what is around."""
    quoted = page.replace("&", "&amp;").replace('"', "&quot;")
    style = "width:100%;height:1500px;border:0"
    return f'<iframe srcdoc="{quoted}" style="{style}" title="fitstep report"></iframe>'


def _bokeh() -> list[str]:
    """Bokeh's scripts."""
    try:
        from bokeh.resources import Resources
    except ImportError:
        raise FitstepError(
            "a report as a page needs the package bokeh, which is not installed",
            todo='run: pip install "bokeh>=3.4,<4"',
        ) from None
    return list(Resources(mode="inline", components=["bokeh"]).js_raw)


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _cards(facts: Sequence[tuple[str, str]]) -> str:
    cards = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for name, value in facts
    )
    return f'<div class="cards">{cards}</div>'


def _table(rows: Sequence[Sequence[str]], wide: frozenset[int] = frozenset({0})) -> str:
    """`wide`: columns of long texts; the others are numbers."""

    def cells(row: Sequence[str], tag: str) -> str:
        kinds = ["wide" if index in wide else "number" for index in range(len(row))]
        return "".join(
            f'<{tag} class="{kind}">{escape(cell)}</{tag}>'
            for kind, cell in zip(kinds, row, strict=True)
        )

    head, *others = rows
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in others)
    table = f"<table><thead><tr>{cells(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _part(part: Part, index: int, budget_bytes: int, curve: Sequence[tuple[int, float]]) -> str:
    picture = part.pictured.picture
    label = escape(part.pictured.label)
    levels = levels_of(picture)
    if not levels.spans:
        return f"<details><summary>{label}</summary><p>It runs no operators.</p></details>"
    other = part.pictured.simpler(_CHECKPOINTING)
    compared = _compared(part, budget_bytes, other)
    compared.curve = list(curve)
    return "\n".join(
        [
            f"<details{' open' if index == 0 else ''}><summary>{label}</summary>",
            _comparison(part, picture, other),
            f'<p class="soft">{_HOW_TO_READ}</p>',
            _charts(f"charts-{index}", *charts_over_time(picture, compared)),
            _charts(f"budgets-{index}", *chart_of_budgets(picture, compared)),
            _at_peak(picture, levels),
            "</details>",
        ]
    )


def _charts(name: str, model: Any, legend: Legend) -> str:
    """A place for charts, with their legend and data; page.js draws them."""
    from bokeh.embed import json_item

    text = json.dumps(json_item(model), separators=(",", ":"))
    data = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")
    entries = "".join(
        f'<span><i style="background:{color}"></i>{escape(label)}</span>' for color, label in legend
    )
    return (
        f'<div class="legend">{entries}</div><div class="charts" id="{name}"></div>'
        f'<script type="application/octet-stream" id="{name}-data">{data}</script>'
    )


def _compared(part: Part, budget_bytes: int, other: Picture | None) -> Compared:
    picture = part.pictured.picture
    plain_s = picture.plain_ps / SECOND_PS
    compared = Compared(budget_bytes, part.floor_bytes, part.outside_bytes)
    compared.lines.append(_plain_line(picture))
    compared.spots = [Spot("this plan, predicted", part.total_bytes, part.predicted_s)]
    if part.measured_s is not None:
        compared.spots.append(Spot("this plan, measured", part.total_bytes, part.measured_s))
    compared.spots.append(Spot("plain PyTorch, predicted", part.plain_peak_bytes, plain_s))
    if other is not None:
        levels = levels_of(other)
        held = [part.external_bytes + size for size in levels.totals]
        begins = [span.begin_ps for span in levels.spans]
        compared.lines.append(Line("checkpointing, predicted", begins, held, other.total_ps))
        spot = Spot("checkpointing, predicted", max(held, default=0), other.total_ps / SECOND_PS)
        compared.spots.append(spot)
    return compared


def _plain_line(picture: Picture) -> Line:
    begin_ps, begins, sizes = 0, [], []
    for op, size in zip(picture.ops, picture.plain_bytes, strict=True):
        if op.is_optional:
            continue
        begins.append(begin_ps)
        sizes.append(size)
        begin_ps += op.plain_ps
    return Line("plain PyTorch, predicted", begins, sizes, begin_ps)


def _comparison(part: Part, picture: Picture, other: Picture | None) -> str:
    size = _core.format_bytes
    again = sum(span.is_again for span in picture.spans)
    rows = [["", "bytes", "predicted", "measured", "recomputed ops"]]
    measured = "not run" if part.measured_s is None else format_seconds(part.measured_s)
    plan = [size(part.total_bytes), format_seconds(part.predicted_s), measured, str(again)]
    rows.append(["fitstep, this plan", *plan])
    plain_s = picture.plain_ps / SECOND_PS
    rows.append(["plain PyTorch", size(part.plain_peak_bytes), format_seconds(plain_s), "", "0"])
    notes = "Plain PyTorch and checkpointing were not run: their bytes and times are predicted "
    notes += "from the same measured operators, without what an allocator adds. "
    if other is not None:
        held = part.external_bytes + levels_of(other).peak_bytes
        other_again = str(sum(span.is_again for span in other.spans))
        took = words.of_time(other.total_ps)
        rows.append(["checkpointing", size(held), took, "", other_again])
        notes += _CHECKPOINTING_IS
    return _table(rows) + f'<p class="soft">{escape(notes)}</p>'


def _at_peak(picture: Picture, levels: Levels) -> str:
    """The largest blocks while the op with the peak runs."""
    span = levels.spans[levels.peak_at]
    middle_ps = (span.begin_ps + span.end_ps) // 2
    held = [
        block
        for block in picture.blocks
        if block.begin_ps <= middle_ps < block.end_ps
        or (block.begun_lane, block.begun_position) == (span.lane, span.position)
    ]
    held.sort(key=lambda block: (-block.size_bytes, block.opened))
    rows = [["size", "what", "where", "why it is there"]]
    for block in held[:_MOST_AT_PEAK]:
        name, *_ = words.of_block(picture, block)
        op = words.maker_of(picture, block)
        place = words.where(picture, op) if op >= 0 else ""
        reason = "; ".join(words.why(picture, block.storage)) if block.storage >= 0 else ""
        rows.append([_core.format_bytes(block.size_bytes), name, place, reason])
    left = len(held) - _MOST_AT_PEAK
    more = f" {left} smaller ones are left out." if left > 0 else ""
    peak = f"The arena is fullest, {_core.format_bytes(levels.peak_bytes)}, while "
    peak += f"{words.of_op(picture, span.op)} runs." if span.op >= 0 else "a copy runs."
    table = _table(rows, frozenset({1, 2, 3}))
    return f"<h2>At the peak</h2><p>{escape(peak + more)}</p>{table}"
