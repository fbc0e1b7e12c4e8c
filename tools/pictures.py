"""Draws the pictures of docs/explanation/how-it-works.md: python tools/pictures.py

All but the first and the last show one step of six layers, `f0` to `f5` forward and `b5` to `b0`
backward. Layer i writes the activation `ai`, which f(i+1) and bi read; bi writes the gradient `gi`,
which b(i-1) reads. Each takes one byte and one tick, so that a reader can count. Lifetimes, bytes
and addresses are computed from the order of the ops.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"
LAYERS = 6
WIDTH = 620

STYLE = """
  text { font: 15px system-ui, sans-serif; fill: #222; }
  .small { font-size: 13px; } .mid { text-anchor: middle; } .end { text-anchor: end; }
  .bold { font-weight: 600; } .line { stroke: #777; fill: none; } .thin { stroke: #bbb; }
  .box { fill: #eef4f3; stroke: #00796b; } .arrow { stroke: #555; stroke-width: 1.5; fill: none; }
  .act { fill: #4db6ac; } .grad { fill: #ffb74d; } .again { fill: #7986cb; }
  .home { fill: #90a4ae; } .rest { fill: #cfd8dc; } .bytes { fill: #b2dfdb; stroke: #00796b; }
  .limit { stroke: #d32f2f; stroke-width: 2; stroke-dasharray: 6 4; }
  .on { fill: #1b1b1b; }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd; } .line { stroke: #999; } .thin { stroke: #555; } .arrow { stroke: #aaa; }
    .box { fill: #20302e; stroke: #4db6ac; } .bytes { fill: #1f4f49; stroke: #4db6ac; }
    .on { fill: #1b1b1b; } .limit { stroke: #ef5350; }
  }
"""


@dataclass(frozen=True)
class Life:
    """A value from the tick that writes it to the last tick that reads it, both included."""

    name: str
    kind: str  # The class of its colour: act, again or grad.
    first: int
    last: int


class Picture:
    """The text of an SVG file."""

    def __init__(self, name: str, title: str, height: int) -> None:
        self.path = FOLDER / f"{name}.svg"
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img">',
            f"<title>{title}</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#888"/></marker></defs>',
        ]

    def text(self, x: float, y: float, words: str, style: str = "") -> None:
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{style}">{words}</text>')

    def box(self, x: float, y: float, width: float, height: float, style: str) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" '
            f'class="{style}"/>'
        )

    def line(self, points: list[tuple[float, float]], style: str, *, tip: bool = False) -> None:
        path = "L".join(f"{x:g} {y:g}" for x, y in points)
        end = ' marker-end="url(#tip)"' if tip else ""
        self.parts.append(f'<path d="M{path}" class="{style}"{end}/>')

    def save(self) -> None:
        self.path.write_text("\n".join([*self.parts, "</svg>"]) + "\n", encoding="utf-8")


def order(*, recompute: bool) -> list[str]:
    """The ops of the step; with recompute, even activations are made again (`f4'`)."""
    ops = [f"f{i}" for i in range(LAYERS)]
    for i in reversed(range(LAYERS)):
        if recompute and i % 2 == 0:
            ops.append(f"f{i}'")
        ops.append(f"b{i}")
    return ops


def lives(ops: list[str]) -> list[Life]:
    """When each value of the step exists."""
    found = []
    for i in range(LAYERS):
        made, back = ops.index(f"f{i}"), ops.index(f"b{i}")
        if f"f{i}'" in ops:
            found.append(Life(f"a{i}", "act", made, ops.index(f"f{i + 1}")))
            found.append(Life(f"a{i}'", "again", ops.index(f"f{i}'"), back))
        else:
            found.append(Life(f"a{i}", "act", made, back))
    for i in reversed(range(LAYERS)):
        made = ops.index(f"b{i}")
        found.append(Life(f"g{i}", "grad", made, ops.index(f"b{i - 1}") if i else made))
    return found


def live_bytes(ops: list[str], values: list[Life]) -> list[int]:
    return [sum(one.first <= tick <= one.last for one in values) for tick in range(len(ops))]


def ticks(picture: Picture, ops: list[str], left: float, step: float, y: float) -> None:
    for tick, op in enumerate(ops):
        picture.text(left + (tick + 0.5) * step, y, op, "small mid")


def draw_lifetimes(name: str, title: str, *, recompute: bool) -> None:
    ops = order(recompute=recompute)
    values = lives(ops)
    left, step, row = 52.0, (WIDTH - 60) / len(order(recompute=True)), 20
    rows = [f"a{i}" for i in range(LAYERS)] + ["g"]
    picture = Picture(name, title, 320)
    ticks(picture, ops, left, step, 16)
    for line, label in enumerate(rows):
        y = 26.0 + line * row
        picture.text(left - 10, y + 14, label, "small end")
        picture.line([(left, y + row - 1), (left + len(ops) * step, y + row - 1)], "line thin")
        for one in values:
            if one.name.startswith(label):
                width = (one.last - one.first + 1) * step
                # Gradients follow each other in one row.
                picture.box(left + one.first * step + 1, y + 2, width - 2, row - 5, one.kind)
    counts = live_bytes(ops, values)
    bottom, unit = 300.0, 15.0
    points = [(left, bottom)]
    for tick, count in enumerate(counts):
        points += [(left + (tick + at) * step, bottom - count * unit) for at in (0, 1)]
    picture.line([*points, (left + len(ops) * step, bottom)], "bytes")
    for tick, count in enumerate(counts):
        picture.text(
            left + (tick + 0.5) * step, bottom - count * unit + 14, str(count), "small mid"
        )
    picture.text(left - 10, bottom - 4, "bytes", "small end")
    picture.text(left, 316, f"peak: {max(counts)} bytes; {len(ops)} ops", "small bold")
    picture.save()


def offsets(values: list[Life]) -> dict[str, int]:
    """The lowest free offset for each value, those that live longest first."""
    placed: dict[str, int] = {}
    by_name = {one.name: one for one in values}
    for one in sorted(values, key=lambda one: (one.first - one.last, one.first, one.name)):
        taken = {
            offset
            for name, offset in placed.items()
            if by_name[name].first <= one.last and one.first <= by_name[name].last
        }
        placed[one.name] = next(byte for byte in range(len(values)) if byte not in taken)
    return placed


def draw_addresses() -> None:
    ops = order(recompute=True)
    values = lives(ops)
    placed = offsets(values)
    height = max(placed.values()) + 1  # As small as the peak: nothing is lost between values.
    left, step, row = 52.0, (WIDTH - 60) / len(ops), 30.0
    top = 8.0
    picture = Picture("addresses", "The address of each value at each tick", 200)
    bottom = top + height * row
    for one in values:
        y = bottom - (placed[one.name] + 1) * row
        width = (one.last - one.first + 1) * step
        picture.box(left + one.first * step + 1, y + 1, width - 2, row - 2, one.kind)
        middle = left + (one.first + one.last + 1) / 2 * step
        picture.text(middle, y + 20, one.name, "small mid on")
    for byte in range(height):
        picture.text(left - 10, bottom - (byte + 0.35) * row, str(byte), "small end")
    picture.line([(left, top), (left + len(ops) * step, top)], "limit")
    ticks(picture, ops, left, step, bottom + 18)
    words = f"address (left) over ticks (below); the arena ends at {height} bytes"
    picture.text(left, bottom + 38, words, "small")
    picture.save()


def draw_pipeline() -> None:
    picture = Picture("pipeline", "From the step function to the kernels", 190)
    names = [
        ("your step", "a Python", "function"),
        ("program", "its ops and", "storages"),
        ("plan", "order, copies,", "addresses"),
        ("verifier", "proves that it", "is safe"),
        ("run", "kernels, in", "one arena"),
    ]
    width, gap = 100.0, 28.0
    for index, (name, first, second) in enumerate(names):
        x = 4 + index * (width + gap)
        picture.box(x, 40, width, 74, "box")
        picture.text(x + width / 2, 62, name, "mid bold")
        picture.text(x + width / 2, 84, first, "small mid")
        picture.text(x + width / 2, 102, second, "small mid")
        if index:
            picture.line([(x - gap + 2, 77), (x - 2, 77)], "arrow", tip=True)
    for index, words in enumerate(["record", "plan", "check", "obey"]):
        picture.text(4 + width + gap / 2 + index * (width + gap), 32, words, "small mid")
    x = 4 + 2 * (width + gap) + width / 2
    picture.text(x, 150, "budget, measured times", "small mid")
    picture.line([(x, 136), (x, 118)], "arrow", tip=True)
    last = 4 + 4 * (width + gap) + width / 2
    picture.line([(54, 114), (54, 164), (last, 164), (last, 118)], "arrow", tip=True)
    words = "at every call: your Python runs, and its kernels run by the plan"
    picture.text(x, 182, words, "small mid")
    picture.save()


def draw_lanes() -> None:
    """Copies take 1.5 times as long as ops, one runs at a time, and only a0 and a1 are copied."""
    picture = Picture("lanes", "Copies run beside compute", 200)
    left, step, row = 74.0, 43.0, 44.0
    ops = order(recompute=False)
    evicts = [("a0", 2.0), ("a1", 3.5)]  # After f1 and f2, which read them.
    prefetches = [("a1", 8.0), ("a0", 9.5)]  # Back for b1 and b0.
    for lane, label in enumerate(["compute", "evict", "prefetch"]):
        y = 12 + lane * row
        picture.text(left - 10, y + 20, label, "small end")
        picture.line([(left, y + 34), (left + 12 * step, y + 34)], "line thin")
    for tick, op in enumerate(ops):
        x = left + tick * step
        picture.box(x + 1, 12, step - 2, 30, "act" if op[0] == "f" else "grad")
        picture.text(x + step / 2, 32, op, "small mid on")
    for lane, copies in ((1, evicts), (2, prefetches)):
        for name, start in copies:
            x, y = left + start * step, 12 + lane * row
            picture.box(x + 1, y, 1.5 * step - 2, 30, "again")
            picture.text(x + 0.75 * step, y + 20, name, "small mid on")
    for (x1, lane1), (x2, lane2) in [
        ((2.0, 0), (2.0, 1)),
        ((9.5, 2), (10.0, 0)),
        ((11.0, 2), (11.0, 0)),
    ]:
        y1, y2 = (
            12 + lane1 * row + (32 if lane1 == 0 else 0),
            12 + lane2 * row + (0 if lane2 else 32),
        )
        picture.line([(left + x1 * step + 2, y1), (left + x2 * step + 2, y2)], "arrow", tip=True)
    y = 12 + 3 * row + 12
    picture.line([(left + 5 * step, y), (left + 8 * step, y)], "arrow")
    words = "a0 and a1 are away: 2 bytes less at the peak"
    picture.text(left + 6.5 * step, y + 20, words, "small mid")
    picture.save()


# MiB: from the report in docs/tutorial.md.
PLAIN, BUDGET = 78.25, 46.95
PARTS = [
    ("inputs and outputs", 4.03, "rest"),
    ("parameters, optimizer state: homes", 6.05, "home"),
    ("activations, gradients, workspace", 42.30 - 6.05, "act"),
    ("reserve and small tensors", 0.52, "again"),
]


def draw_budget() -> None:
    picture = Picture("budget", "Where a budget goes", 216)
    scale = (WIDTH - 100) / PLAIN
    picture.text(4, 34, "plain", "")
    picture.box(74, 14, PLAIN * scale, 30, "rest")
    picture.text(84, 34, f"plain peak {PLAIN} MiB", "small on")
    picture.text(4, 82, "fitstep", "")
    x = 74.0
    for _, size, style in PARTS:
        picture.box(x, 62, max(size * scale - 1, 2), 30, style)
        x += size * scale
    end = 74 + BUDGET * scale
    picture.line([(end, 54), (end, 102)], "limit")
    picture.text(end + 8, 82, f"budget {BUDGET} MiB", "small bold")
    for row, (name, size, style) in enumerate(PARTS):
        y = 116 + row * 24
        picture.box(74, y, 16, 16, style)
        picture.text(100, y + 13, f"{name}: {size:.2f} MiB", "small")
    picture.save()


def main() -> None:
    draw_pipeline()
    draw_lifetimes("lifetimes", "Every activation is kept", recompute=False)
    draw_lifetimes("recompute", "Every second activation is made again", recompute=True)
    draw_addresses()
    draw_lanes()
    draw_budget()


if __name__ == "__main__":
    main()
