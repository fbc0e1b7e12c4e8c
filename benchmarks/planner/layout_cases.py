"""Sets of blocks whose best layout is known by construction, and some that are like programs.

A row is (lower, upper, size). Nothing here comes from published instances.
"""

import random
from collections.abc import Callable

Rows = list[tuple[int, int, int]]


def cut(count: int, height: int, ticks: int, seed: int, grain: int = 1024) -> Rows:
    """A rectangle, cut again and again: no byte is free at any tick, the peak can be reached."""
    rng = random.Random(seed)
    parts = [(0, ticks, 0, height // grain)]
    while len(parts) < count:
        picked = rng.sample(range(len(parts)), min(len(parts), 4))
        index = max(picked, key=lambda i: (parts[i][1] - parts[i][0]) * (parts[i][3] - parts[i][2]))
        begin, end, low, high = parts[index]
        if rng.random() < 0.5:
            if end - begin < 2:
                continue
            middle = rng.randrange(begin + 1, end)
            parts[index] = (begin, middle, low, high)
            parts.append((middle, end, low, high))
        else:
            if high - low < 2:
                continue
            middle = rng.randrange(low + 1, high)
            parts[index] = (begin, end, low, middle)
            parts.append((begin, end, middle, high))
    return shuffled([(begin, end, (high - low) * grain) for begin, end, low, high in parts], rng)


def thinned(count: int, height: int, ticks: int, seed: int, kept: float) -> Rows:
    """A cut rectangle, of which blocks away from one tick are missing or die early."""
    rng = random.Random(seed)
    full = ticks * 2 // 5
    rows = []
    for begin, end, size in cut(count, height, ticks, seed):
        if begin <= full < end:
            rows.append((begin, end, size))
        elif rng.random() < kept:
            early = begin + max(1, int((end - begin) * rng.random()))
            rows.append((begin, early if rng.random() < 0.3 else end, size))
    return rows


def step(layers: int, ops: int, seed: int) -> Rows:
    """Like a training step of equal layers: saved until the backward pass, temporaries, scratch,
    gradients that wait for an exchange, an optimizer at the end."""
    rng = random.Random(seed)
    unit = rng.choice([2560 * 2048, 4096 * 1024, 1600 * 4096])
    shares = [1, 1, 1, 1, 3, 4, 4, 0.5, 1.6, 3.2, 1 / 2560, 2 / 2560, 40 / 2560]
    scratch = [0, 0, 0, 512, 2048, unit // 1536 * 512, 1 << 25]
    kernels = [
        (max(512, int(rng.choice(shares) * unit) // 512 * 512), rng.random(), rng.choice(scratch))
        for _ in range(ops)
    ]
    tick = 0
    rows: Rows = []
    saved: list[list[tuple[int, int, int]]] = [[] for _ in range(layers)]
    for layer in range(layers):
        for op, (size, kind, extra) in enumerate(kernels):
            if kind < 0.3:
                saved[layer].append((op, tick, size))
            else:
                rows.append((tick, tick + 1 + int(rng.random() * 8), size))
            if extra:
                rows.append((tick, tick + 1, extra))
            tick += 1
    gradients: list[tuple[int, int]] = []
    for layer in reversed(range(layers)):
        ends = {op: (begin, size) for op, begin, size in saved[layer]}
        for op in reversed(range(ops)):
            size, kind, extra = kernels[op]
            if op in ends:
                rows.append((ends[op][0], tick + rng.randint(1, 4), ends[op][1]))
            rows.append((tick, tick + 2 + int(kind * 5), size))
            if extra:
                rows.append((tick, tick + 1, extra))
            if kind > 0.85:
                gradients.append((tick, size))
            tick += rng.randint(1, 2)
        if layer % 4 == 0:
            rows += [(begin, tick + rng.randint(1, 30), size) for begin, size in gradients]
            gradients = []
    return shuffled(rows, rng)


def planned(rows: Rows, share: float, seed: int) -> Rows:
    """The rows with long lifetimes split, as offloading does, so that the bytes live at once stay
    near a share of the peak for most of the time. The best height is not known."""
    ticks = max(end for _, end, _ in rows)
    most = int(max(live_bytes(rows, ticks)) * share)
    early = evicted(rows, ticks, most)
    parts = [(begin, early.get(i, end), size) for i, (begin, end, size) in enumerate(rows)]
    live = live_bytes(parts, ticks)
    for i in sorted(early, key=lambda i: (rows[i][1], i)):
        _, end, size = rows[i]
        begin = end - 2
        room = min(begin - early[i] - 2, 58)
        while room > 0 and live[begin - 1] + size <= most:
            begin, room = begin - 1, room - 1
        for tick in range(begin, end):
            live[tick] += size
        parts.append((begin, end, size))
    return shuffled(parts, random.Random(seed))


def live_bytes(rows: Rows, ticks: int) -> list[int]:
    """Bytes live at each tick."""
    change = [0] * (ticks + 1)
    for begin, end, size in rows:
        change[begin] += size
        change[end] -= size
    for tick in range(1, ticks + 1):
        change[tick] += change[tick - 1]
    return change[:ticks]


def evicted(rows: Rows, ticks: int, most: int) -> dict[int, int]:
    """Where rows end early: the one that ends last goes first, when there is too much."""
    births: list[list[int]] = [[] for _ in range(ticks)]
    for i, row in enumerate(rows):
        births[row[0]].append(i)
    deaths = [0] * (ticks + 1)
    early: dict[int, int] = {}
    idle: set[tuple[int, int]] = set()
    live = 0
    for tick in range(ticks):
        live -= deaths[tick]
        for i in births[tick]:
            live += rows[i][2]
            deaths[rows[i][1]] += rows[i][2]
            if rows[i][1] - tick > 12:
                idle.add((rows[i][1], i))
        for end, i in sorted(idle, reverse=True) if live > most else ():
            if live <= most or end - tick < 8:
                break
            if rows[i][0] >= tick - 2:
                continue
            idle.remove((end, i))
            early[i] = tick
            live -= rows[i][2]
            deaths[end] -= rows[i][2]
    return early


def shuffled(rows: Rows, rng: random.Random) -> Rows:
    """So that the order of the rows says nothing."""
    rng.shuffle(rows)
    return rows


# Name -> maker. The best height is the peak, except where a name begins with "planned".
CASES: dict[str, Callable[[], Rows]] = {
    "cut 100": lambda: cut(100, 1 << 20, 1_000_000, 1),
    "cut 200": lambda: cut(200, 1 << 20, 1_000_000, 2),
    "cut 300": lambda: cut(300, 1 << 20, 1_000_000, 3),
    "cut 400": lambda: cut(400, 1 << 20, 1_000_000, 4),
    "cut 500": lambda: cut(500, 1 << 20, 1_000_000, 5),
    "thinned 300": lambda: thinned(350, 1 << 20, 1_000_000, 6, 0.85),
    "thinned 450": lambda: thinned(500, 1 << 20, 1_000_000, 7, 0.85),
    "step 10k": lambda: step(24, 150, 8),
    "step 30k": lambda: step(48, 220, 9),
    "step 62k": lambda: step(96, 195, 10),
    "thinned 62k": lambda: thinned(103_000, 1 << 36, 200_000, 11, 0.6),
    "planned 18k, 70 %": lambda: planned(step(40, 140, 12), 0.7, 1),
    "planned 18k, 50 %": lambda: planned(step(40, 140, 12), 0.5, 1),
}
SMALL = ("cut 100", "cut 300", "step 10k")
