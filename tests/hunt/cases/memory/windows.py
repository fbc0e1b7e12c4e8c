"""Windows of one tensor that lie elsewhere in each call: read, written, kept, side by side."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from kit import Do, add, case
from torch import Tensor, nn
from worlds import FEATURES, Bench, mlp, sgd

CALLS = 9


def place(most: int) -> int:
    """A drawn one."""
    return random.randrange(most)


def two_of_one(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    i, k = place(4), place(4)
    return F.mse_loss(b.model(s["data"][i : i + 3]), b.model(s["data"][k : k + 3]) + 1)


def stacked(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    rows = [s["flat"][i : i + FEATURES] for i in (place(50), place(50), place(50))]
    return b.model(torch.stack(rows)).pow(2).mean()


def one_by_one(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    found = b.model(s["data"][place(7)]).sum()
    for _ in range(3):
        found = found * 0.5 + b.model(s["data"][place(7)] * x[place(6)]).pow(2).sum()
    return found


def turned_and_cut(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    i = place(3)
    a = s["square"][i : i + 4].t()
    c = s["square"][:, i : i + 4]
    return b.loss(x, y) + (a * c).sum() * b.model[0].bias.sum()


def ring_is_written(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    at = len(b.log) % 7
    b.log.append(at)
    s["data"][at] = x[0]
    s["data"][(at + 3) % 7].mul_(0.9).add_(x[1])
    return F.mse_loss(b.model(s["data"]), b.model(x[:1]).expand(7, -1))


def ring_of_results(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    out = b.model(x)
    at = place(10)
    s["queue"][at : at + 6] = out.detach()
    return F.cross_entropy(out @ s["queue"].t(), y) + out.pow(2).mean()


def read_behind_a_write(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    i, k = place(5), place(5)
    s["data"][i : i + 2] = x[:2]
    before = b.model(s["data"][k : k + 2].clone()).sum()
    s["data"][k : k + 2] *= 2.0
    return before + b.model(s["data"][i : i + 2]).pow(2).sum()


def copied_within(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    i, k = place(3), place(3)
    s["data"][i : i + 1].copy_(s["data"][k + 4 : k + 5])
    s["data"][6].add_(s["data"][i], alpha=0.5)
    return b.loss(x, y) + b.model(s["data"]).mean()


def written_to_what_a_step_makes(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    made = x.clone()
    for row in range(6):
        at = place(5)
        made[row, at : at + 3] = 0.0
    return b.loss(made, y)


def written_with_a_gradient(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    out = b.model(x).clone()
    at = place(4)
    out[at : at + 2] = out[at + 1 : at + 3].tanh()
    return F.cross_entropy(out, y) + out[place(6)].pow(2).sum()


def results_are_picked(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    out = b.model(x)
    best = int(out[:, 0].argmax())
    worst = int(out[:, 0].argmin())
    return out[best].pow(2).sum() - out[worst, place(4)] + out[best : best + 1].sum()


def rows_of_a_weight(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    i, k = place(7), place(7)
    w = b.model[0].weight
    return b.loss(x, y) + (w[i] * w[k]).sum() + w[:, i].sum()


def weights_are_written(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        b.model[0].weight[place(8)].mul_(0.5)
        b.model[0].weight[:, place(8)] = 0.1
    return b.loss(x, y)


def other_type_over_the_same(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    i = place(5) * 2
    low = s["flat"].view(torch.int32)[i : i + FEATURES] & 0x7FFFFF
    high = s["flat"].view(torch.float64)[place(20) : place(1) + 24]
    return b.loss(x + low.float() * 1e-9, y) + high.nan_to_num(0, 0, 0).clamp(-1, 1).sum() * 0.0


def lists_of_windows(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    i, k = place(3), 3 + place(3)
    with torch.no_grad():
        torch._foreach_mul_([s["data"][i], s["data"][k]], [0.5, 1.5])
        torch._foreach_add_([s["queue"][k], s["data"][6]], [x[0, :4], x[1]])
    return b.loss(x, y) + b.model(s["data"]).mean() + s["queue"].mean() * b.model[2].bias.sum()


def added_into(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    at = place(5)
    torch.add(x[0, :4], x[1, :4], out=s["queue"][at])
    s["queue"].view(-1)[at * 3 : at * 3 + 5].zero_()
    return b.loss(x, y) + F.linear(b.model(x), s["queue"]).mean()


def complex_windows(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    i = place(8)
    z = torch.view_as_complex(s["flat"][i * 2 : i * 2 + 16].view(8, 2))
    return b.loss(x, y) + (z.conj() * z).real.sum() * b.model[0].bias.mean()


def places_repeat_and_shapes_change(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    i, n = place(3), 1 + place(3)
    return b.loss(x, y) + b.model(s["data"][i : i + n]).mean() + b.model(s["data"][n]).sum()


def lstm_over_windows(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    i = place(30)
    out, _ = s["lstm"](s["flat"][i : i + 24].view(3, 1, FEATURES))
    k = place(3)
    return b.loss(x, y) + out[k].pow(2).sum()


def added_in_place(b: Bench, x: Tensor, y: Tensor, s: dict[str, Tensor]) -> Tensor:
    i, k = place(7), place(8)
    s["data"][i] += x[0]
    s["data"][:, k] *= 0.5
    s["queue"][i : i + 2, 1] -= x[1, :2]
    return b.loss(x, y) + b.model(s["data"]).mean() + s["queue"].mean() * b.model[2].bias.sum()


BODIES: list[Callable[..., Tensor]] = [
    two_of_one,
    stacked,
    one_by_one,
    turned_and_cut,
    ring_is_written,
    ring_of_results,
    read_behind_a_write,
    copied_within,
    written_to_what_a_step_makes,
    written_with_a_gradient,
    results_are_picked,
    rows_of_a_weight,
    weights_are_written,
    other_type_over_the_same,
    lists_of_windows,
    added_into,
    added_in_place,
    complex_windows,
    places_repeat_and_shapes_change,
    lstm_over_windows,
]


def world(
    body: Callable[..., Tensor],
    make: Any,
    *,
    is_argument: bool,
    in_list: bool,
    is_lent: bool = False,
) -> Any:
    """A case whose step trains on what `body` makes of windows: of tensors that the step reaches,
    or that its caller gives it; made anew for each call, or not; in numpy's memory, or not."""

    def build() -> Any:
        b = Bench(make=make, count=CALLS)
        g = torch.Generator().manual_seed(5)

        def tensors() -> dict[str, Any]:
            wide = torch.randn(400, generator=g)
            made = {
                "data": torch.randn(7, FEATURES, generator=g),
                "flat": wide[40:200] if in_list else wide[:200].clone(),
                "square": torch.randn(8, 8, generator=g)[1:, 1:] if in_list else torch.eye(7),
                "queue": torch.randn(16, 4, generator=g),
            }
            if not is_lent:
                return made
            return {name: torch.from_numpy(one.numpy().copy()) for name, one in made.items()}

        kept = tensors()
        lstm = nn.LSTM(FEATURES, 4)
        opt = sgd(lstm.parameters())

        def step(x: Tensor, y: Tensor, given: Any = None) -> Tensor:
            s = {**(kept if given is None else given), "lstm": lstm}
            opt.zero_grad()
            loss = b.update(body(b, x, y, s))
            opt.step()
            return loss

        calls = b.calls
        if is_argument:
            calls = [(x, y, tensors()) for x, y in calls]
        return b.world(step, kept, lstm, opt, [c[2:] for c in calls], calls=calls)

    return build


for body in BODIES:
    name = f"windows_{body.__name__}"
    add("window", name, world(body, sgd, is_argument=False, in_list=False))
    add("window", f"{name}_of_arguments", world(body, sgd, is_argument=True, in_list=True))
    of_arrays = world(body, sgd, is_argument=False, in_list=True, is_lent=True)
    add("window", f"{name}_of_arrays", of_arrays)


@case("window")
def layers_over_one_flat_tensor_in_changing_order() -> Any:
    flat = nn.Parameter(torch.randn(4 * FEATURES * FEATURES) * 0.2)
    opt = torch.optim.Adam([flat], lr=0.01)
    calls = [(torch.randn(5, FEATURES), tuple(random.sample(range(4), 4))) for _ in range(8)]

    def step(x: Tensor, order: tuple[int, ...]) -> Tensor:
        opt.zero_grad()
        size = FEATURES * FEATURES
        for i in order:
            x = torch.tanh(x @ flat[i * size : (i + 1) * size].view(FEATURES, FEATURES))
        loss = x.pow(2).mean()
        loss.backward()
        opt.step()
        return loss

    return step, calls, lambda: (flat, opt)


@case("window")
def cache_of_keys_is_filled() -> Any:
    model, head = nn.Linear(FEATURES, 4), nn.Linear(4, 2)
    opt = sgd([*model.parameters(), *head.parameters()])
    cache = torch.zeros(2, 12, 4)
    at = [0]

    def step(x: Tensor) -> Tensor:
        if at[0] + 2 > 12:
            at[0] = 0
            cache.zero_()
        key = model(x)
        cache[:, at[0] : at[0] + 2] = key.detach()
        at[0] += 2
        weights = torch.softmax(key @ cache.transpose(1, 2), -1)
        opt.zero_grad()
        loss = head(weights @ cache).pow(2).mean()
        loss.backward()
        opt.step()
        return loss

    return step, [(torch.randn(2, 2, FEATURES),) for _ in range(15)], lambda: (model, cache, at)


@case("window")
def window_is_kept_between_calls() -> Any:
    b = Bench(make=sgd, count=CALLS)
    data = torch.randn(30, FEATURES)
    kept: list[Tensor] = [data[:6]]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x + kept[-1], y)
        at = place(20)
        kept.append(data[at : at + 6])
        kept[-1].mul_(0.99)
        return loss

    return b.world(step, data, kept)


@case("window")
def data_is_another_tensor_later() -> Any:
    b = Bench(make=sgd, count=12)
    held = {"data": torch.randn(30, FEATURES)}

    def step(x: Tensor, y: Tensor) -> Tensor:
        i, k = place(20), place(20)
        return b.update(b.loss(held["data"][i : i + 6] + held["data"][k : k + 6] * x, y))

    def change(rows: int) -> Do:
        return Do(lambda: held.update(data=torch.randn(rows, FEATURES)))

    calls = [*b.calls[:4], change(30), *b.calls[4:8], change(40), *b.calls[8:]]
    return b.world(step, held, calls=calls)


@case("window")
def data_set_is_large_and_windows_are_far_apart() -> Any:
    b = Bench(make=sgd, count=CALLS)
    data = torch.arange(4_000_000, dtype=torch.float32).view(-1, FEATURES) * 1e-6

    def step(x: Tensor, y: Tensor) -> Tensor:
        rows = [data[i] for i in (place(500_000) for _ in range(6))]
        return b.update(b.loss(torch.stack(rows), y))

    return b.world(step)


@case("window")
def numbers_and_windows_change_at_once() -> Any:
    b = Bench(mlp(), sgd, count=10)
    data = torch.randn(30, FEATURES)

    def step(x: Tensor, y: Tensor) -> Tensor:
        i, n = place(20), place(5)
        out = b.model(torch.roll(data[i : i + 6], 1, 0) * n)
        data[n].fill_(i)
        return b.update(F.cross_entropy(out, y) + out[n].sum() * i)

    return b.world(step, data)


def types_of_two_sizes(*, is_written: bool) -> Any:
    """A case with windows of two types over one memory, and two programs that begin alike."""

    def build() -> Any:
        w = torch.ones(5, requires_grad=True)
        kept = torch.arange(2000, dtype=torch.float32)

        def step(arena: Tensor, h: int, f: int, flag: bool) -> Tensor:
            half = arena.view(torch.float16)
            a = (half[h : h + 4].float() * 0.0).nan_to_num(0.0).sum()
            if is_written:
                arena[f : f + 4].mul_(2)
            out = arena[f : f + 5] * w + a
            out = out.cos() if flag else out.tanh() * 2
            w.grad = None
            out.sum().backward()
            return out

        places = [(4, 600), (3, 600), (4, 600), (5, 601), (8, 602), (7, 604), (3, 1900), (2, 12)]
        calls = [
            (kept.clone() if is_written else kept, h, f, i % 3 != 1)
            for i, (h, f) in enumerate(places * 2)
        ]
        return step, calls, lambda: (w, [c[0] for c in calls])

    return build


add("window", "types_of_two_sizes_over_one_memory", types_of_two_sizes(is_written=False))
add("window", "types_of_two_sizes_over_what_is_written", types_of_two_sizes(is_written=True))


@case("window")
def clips_are_of_many_lengths() -> Any:
    b = Bench(make=sgd, count=12)
    calls = [(torch.randn(40 + 7 * place(9), FEATURES), y) for _, y in b.calls]

    def step(clip: Tensor, y: Tensor) -> Tensor:
        i, k = place(30), place(30)
        clip[k] += 0.1
        return b.update(b.loss(clip[i : i + 6] - clip[k : k + 6], y))

    return b.world(step, calls=calls)
