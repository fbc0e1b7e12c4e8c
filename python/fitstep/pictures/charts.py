"""The charts of one program, drawn by Bokeh.

    bytes over time     bands by kind, the budget, plain PyTorch, checkpointing
    lanes               runs of ops, copies to lower tiers and back
    addresses           every block of the arena: offset and time
    time over bytes     this plan beside others

The first three have one time axis. All draw from columns of numbers; texts for the mouse are in a
table of their own, so that each is there once. Legends are for the page, as (color, text).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .levels import Levels, levels_of
from .picture import COMPUTE, SECOND_PS, Picture, SpanRow
from .words import BANDS, of_block, of_span

_COLORS = {
    "outside": "#8c8c8c",
    "weights": "#0072b2",
    "states": "#56b4e9",
    "weight_gradients": "#e69f00",
    "maps": "#009e73",
    "map_gradients": "#cc79a7",
    "workspace": "#b3a23e",
}
_RUN, _AGAIN, _DOWN, _UP = "#009e73", "#d55e00", "#0072b2", "#56b4e9"
_BUDGET, _FLOOR, _LINES = "#e3342f", "#888888", ("#a0522d", "#9467bd")
_SPOTS = ("#009e73", "#0072b2", *_LINES)
_TIP = "white-space:pre-line;max-width:min(480px,80vw);overflow-wrap:anywhere;font-size:12px"
_SEPARATOR = "|||"  # Between texts of the table: one long text is read faster than many.
_OUTSIDE = "inputs, outputs, constants and reserve"
_LANES = {
    COMPUTE: "compute",
    "evict": "evict (to the host)",
    "prefetch": "prefetch (from the host)",
    "disk write": "write to the disk",
    "disk read": "read from the disk",
}


@dataclass(eq=False)
class Line:
    """Another way to train, for comparison: bytes over its own time."""

    label: str
    begin_ps: list[int]
    bytes: list[int]
    total_ps: int


@dataclass(eq=False)
class Spot:
    """A point of the chart of time over bytes."""

    label: str
    bytes: int
    seconds: float


@dataclass(eq=False)
class Compared:
    """What the charts of one program stand beside; all sizes in bytes."""

    budget_bytes: int
    floor_bytes: int
    outside_bytes: int  # Inputs, outputs, constants, reserve: held during the whole step.
    lines: list[Line] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)
    curve: list[tuple[int, float]] = field(default_factory=list)  # (bytes, seconds).


Legend = list[tuple[str, str]]


def charts_over_time(picture: Picture, compared: Compared) -> tuple[Any, Legend]:
    """A Bokeh model with the three charts over time. REQUIRES: Bokeh is there; ops run."""
    from bokeh.layouts import column

    texts = _Texts()
    scale = _Scale.of(picture, compared)
    levels = levels_of(picture)
    first = _bytes_chart(levels, picture, compared, scale, texts)
    second = _lanes_chart(picture, scale, texts, first.x_range)
    third = _addresses_chart(picture, scale, texts, first.x_range)
    texts.finish()
    names = {"outside": _OUTSIDE, **BANDS}
    used = [band for band in names if band == "outside" or max(levels.bands[band]) > 0]
    lines = zip(_LINES, (line.label for line in compared.lines), strict=False)
    bands = [(_COLORS[band], names[band]) for band in used]
    legend = [(_BUDGET, "budget"), *lines, *bands, (_AGAIN, "recomputes")]
    return column([first, second, third], sizing_mode="stretch_width"), legend


@dataclass(frozen=True)
class _Scale:
    """Units in which axes count, so that their ticks are round numbers."""

    time_ps: int
    time: str
    bytes: int
    size: str

    @staticmethod
    def of(picture: Picture, compared: Compared) -> _Scale:
        longest = max([picture.total_ps, *(line.total_ps for line in compared.lines)])
        most = max([compared.budget_bytes, *(spot.bytes for spot in compared.spots), 1])
        times = ((10**12, "s"), (10**9, "ms"), (10**6, "us"))
        sizes = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
        time_ps, time = next((one for one in times if longest >= 2 * one[0]), (10**6, "us"))
        size_bytes, size = next((one for one in sizes if most >= 2 * one[0]), (1, "bytes"))
        return _Scale(time_ps, time, size_bytes, size)

    def times(self, values_ps: list[int]) -> Any:
        return _floats([value / self.time_ps for value in values_ps])

    def sizes(self, values: list[int]) -> Any:
        return _floats([value / self.bytes for value in values])


def _floats(values: list[float]) -> Any:
    import numpy as np

    return np.asarray(values, dtype=np.float32)


class _Texts:
    """The table of texts, which the charts of a program share."""

    def __init__(self) -> None:
        from bokeh.models import ColumnDataSource

        self._places: dict[str, int] = {}
        self._table: list[str] = []
        self._source = ColumnDataSource({"text": []})

    def finish(self) -> None:
        """Gives the charts the table. REQUIRES: all texts are in it."""
        self._source.data = {"text": [_SEPARATOR.join(self._table)]}

    def place(self, lines: list[str]) -> int:
        """The row of a text, which is added if it is new."""
        text = "\n".join(lines).replace(_SEPARATOR, "||")
        found = self._places.setdefault(text, len(self._table))
        if found == len(self._table):
            self._table.append(text)
        return found

    def places(self, every: list[list[str]]) -> Any:
        import numpy as np

        return np.asarray([self.place(lines) for lines in every], dtype=np.int32)

    def hover(self, renderers: list[Any], more: str = "", mode: str = "mouse") -> Any:
        """Shows the text of what is below the mouse; with "vline", of what is at its time."""
        from bokeh.models import CustomJSHover, HoverTool

        look_up = CustomJSHover(
            args={"texts": self._source},
            code=f"""
                texts.rows ??= texts.data.text[0].split("{_SEPARATOR}");
                return texts.rows[value];
            """,
        )
        return HoverTool(
            renderers=renderers,
            tooltips=f'<div style="{_TIP}">@text{{custom}}{more}</div>',
            formatters={"@text": look_up},
            attachment="below",
            mode=mode,
        )


def _figure(title: str, height: int, **options: Any) -> Any:
    from bokeh.plotting import figure

    chart = figure(
        title=title,
        height=height,
        sizing_mode="stretch_width",
        tools="xpan,xwheel_zoom,xbox_zoom,reset" if height > 200 else "",
        active_scroll=None,
        background_fill_alpha=0,
        border_fill_alpha=0,
        **options,
    )
    chart.toolbar.logo = None
    if not chart.toolbar.tools:
        chart.toolbar_location = None
    return chart


def _bytes_chart(
    levels: Levels, picture: Picture, compared: Compared, scale: _Scale, texts: _Texts
) -> Any:
    from bokeh.models import ColumnDataSource, Span

    chart = _figure("Bytes over time", 340)
    spans, outside = levels.spans, compared.outside_bytes
    begins = [span.begin_ps for span in spans]
    columns = {
        "x": scale.times([*begins, picture.total_ps]),
        "right": scale.times([*begins[1:], picture.total_ps, picture.total_ps]),
        "text": texts.places([*(of_span(picture, span) for span in spans), [""]]),
    }
    names = {"outside": _OUTSIDE, **BANDS}
    bands = {"outside": [outside] * len(spans), **levels.bands}
    bands = {band: [*sizes, sizes[-1]] for band, sizes in bands.items() if max(sizes) > 0}
    tops = [0] * (len(spans) + 1)
    for band, sizes in bands.items():
        columns |= {band: scale.sizes(sizes), f"{band}_low": scale.sizes(tops)}
        tops = [low + size for low, size in zip(tops, sizes, strict=True)]
        columns[f"{band}_top"] = scale.sizes(tops)
    source = ColumnDataSource(columns | {"total": scale.sizes(tops)})
    for band in bands:
        chart.varea_step(
            "x", f"{band}_low", f"{band}_top", source=source, step_mode="after",
            fill_color=_COLORS[band], fill_alpha=0.85,
        )  # fmt: skip
    below = chart.quad("x", "right", "total", 0, source=source, fill_color=None, line_color=None)
    rows = "".join(f"\n{names[band]}: @{band}{{0,0.000}} {scale.size}" for band in bands)
    total = f"\nall: @total{{0,0.000}} {scale.size}"
    chart.add_tools(texts.hover([below], rows + total, "vline"))
    for line, color in zip(compared.lines, _LINES, strict=False):
        chart.step(
            scale.times([*line.begin_ps, line.total_ps]),
            scale.sizes([*line.bytes, line.bytes[-1]]),
            mode="after", color=color, line_width=1.5,
        )  # fmt: skip
    budget = compared.budget_bytes / scale.bytes
    chart.add_layout(Span(location=budget, dimension="width", line_color=_BUDGET, line_width=2))
    most = max([compared.budget_bytes, *(size for line in compared.lines for size in line.bytes)])
    longest = max([picture.total_ps, *(line.total_ps for line in compared.lines)])
    chart.y_range.start, chart.y_range.end = 0, 1.05 * most / scale.bytes
    chart.x_range.start, chart.x_range.end = 0, 1.01 * longest / scale.time_ps
    chart.x_range.bounds = (0, 1.01 * longest / scale.time_ps)
    chart.yaxis.axis_label = scale.size
    chart.xaxis.axis_label = f"time in the step ({scale.time})"
    return chart


def _lanes_chart(picture: Picture, scale: _Scale, texts: _Texts, x_range: Any) -> Any:
    used = [lane for lane in _LANES if any(span.lane == lane for span in picture.spans)]
    rows = {lane: len(used) - index for index, lane in enumerate(used)}
    chart = _figure("Lanes", 90 + 40 * len(used), x_range=x_range)
    bars = []
    for color in (_RUN, _AGAIN, _DOWN, _UP):
        spans = [span for span in picture.spans if _color_of(span) == color]
        if spans:
            columns = {
                "left": scale.times([span.begin_ps for span in spans]),
                "right": scale.times([span.end_ps for span in spans]),
                "bottom": _floats([rows[span.lane] - 0.4 for span in spans]),
                "top": _floats([rows[span.lane] + 0.4 for span in spans]),
                "text": texts.places([of_span(picture, span) for span in spans]),
            }
            bars.append(_bars(chart, columns, color))
    chart.add_tools(texts.hover(bars))
    chart.yaxis.ticker = list(rows.values())
    chart.yaxis.major_label_overrides = {row: _LANES[lane] for lane, row in rows.items()}
    chart.y_range.start, chart.y_range.end = 0.5, len(used) + 0.5
    chart.ygrid.visible = False
    return chart


def _bars(chart: Any, columns: dict[str, Any], color: str) -> Any:
    """Rectangles of one color: browsers draw them much faster than a color for each."""
    from bokeh.models import ColumnDataSource

    return chart.quad(
        "left", "right", "top", "bottom", source=ColumnDataSource(columns), fill_color=color,
        fill_alpha=0.7, line_color=color, line_width=0.5,
    )  # fmt: skip


def _color_of(span: SpanRow) -> str:
    if span.lane == COMPUTE:
        return _AGAIN if span.is_again else _RUN
    return _DOWN if span.lane in ("evict", "disk write") else _UP


def _addresses_chart(picture: Picture, scale: _Scale, texts: _Texts, x_range: Any) -> Any:
    chart = _figure("Addresses in the arena", 320, x_range=x_range)
    bars = []
    for band in BANDS:
        blocks = [block for block in picture.blocks if picture.band_of(block) == band]
        if blocks:
            columns = {
                "left": scale.times([block.begin_ps for block in blocks]),
                "right": scale.times([block.end_ps for block in blocks]),
                "bottom": scale.sizes([block.offset_bytes for block in blocks]),
                "top": scale.sizes([block.offset_bytes + block.size_bytes for block in blocks]),
                "text": texts.places([of_block(picture, block) for block in blocks]),
            }
            bars.append(_bars(chart, columns, _COLORS[band]))
    held = f"\nthese bytes: from @left{{0,0.000}} to @right{{0,0.000}} {scale.time}"
    chart.add_tools(texts.hover(bars, held))
    chart.y_range.start = 0
    chart.y_range.end = picture.height_bytes / scale.bytes
    chart.yaxis.axis_label = scale.size
    chart.xaxis.axis_label = f"time in the step ({scale.time})"
    return chart


def chart_of_budgets(picture: Picture, compared: Compared) -> tuple[Any, Legend]:
    """A Bokeh model with the chart of time over bytes. REQUIRES: Bokeh is there."""
    from bokeh.models import ColumnDataSource, HoverTool, Span

    scale = _Scale.of(picture, compared)
    chart = _figure("Time of a step over the bytes that it holds", 300)
    unit_s, legend = scale.time_ps / SECOND_PS, [(_BUDGET, "budget")]
    points = sorted(compared.curve)
    if points:
        source = ColumnDataSource(
            {
                "x": scale.sizes([size for size, _ in points]),
                "y": _floats([seconds / unit_s for _, seconds in points]),
                "text": ["the fastest plan for this budget"] * len(points),
            }
        )
        chart.step("x", "y", source=source, mode="after", color=_RUN, line_width=2)
        chart.scatter("x", "y", source=source, size=5, color=_RUN)
        legend.append((_RUN, "the fastest plan for each budget, predicted"))
    for spot, color in zip(compared.spots, _SPOTS, strict=False):
        seconds, size = spot.seconds / unit_s, spot.bytes
        spots = ColumnDataSource(
            {"x": scale.sizes([size]), "y": _floats([seconds]), "text": [spot.label]}
        )
        chart.scatter("x", "y", source=spots, size=13, color=color, line_color="#ffffff")
        legend.append((color, spot.label))
    for size, color, dash in (
        (compared.budget_bytes, _BUDGET, "solid"), (compared.floor_bytes, _FLOOR, "dashed")
    ):  # fmt: skip
        place = size / scale.bytes
        span = Span(location=place, dimension="height", line_color=color, line_dash=dash)
        chart.add_layout(span)
    tip = f"@text\n@x{{0,0.000}} {scale.size}, @y{{0,0.000}} {scale.time}"
    chart.add_tools(HoverTool(tooltips=f'<div style="{_TIP}">{tip}</div>'))
    most = max([compared.budget_bytes, *(spot.bytes for spot in compared.spots)])
    chart.x_range.start, chart.x_range.end = 0, 1.08 * most / scale.bytes
    slowest = max(spot.seconds for spot in compared.spots)
    slowest = max([slowest, *(seconds for _, seconds in points)])
    chart.y_range.start, chart.y_range.end = 0, 1.15 * slowest / unit_s
    chart.xaxis.axis_label = f"bytes that the step holds ({scale.size})"
    chart.yaxis.axis_label = f"time of a step ({scale.time})"
    return chart, [*legend, (_FLOOR, "floor (dashed): no plan is below")]
