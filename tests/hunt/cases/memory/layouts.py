"""Layouts and dtypes of arguments, and batches of many lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from kit import add, case
from torch import Tensor, nn
from worlds import Bench, sgd


def reshaped(change: Callable[[Tensor, int], Tensor], model: Any = None) -> Any:
    """A case whose batches are `change(x, number of the call)`."""

    def build() -> Any:
        b = Bench(None if model is None else model())

        def step(x: Tensor, y: Tensor) -> Tensor:
            out = b.model(x)
            return b.update(F.cross_entropy(out.float(), y))

        return b.world(step, calls=[(change(x, k), y) for k, (x, y) in enumerate(b.calls)])

    return build


def in_a_larger(x: Tensor, k: int) -> Tensor:
    big = torch.zeros(10, 9)
    big[2:8, 1:] = x
    return big[2:8, 1:]


def double() -> nn.Module:
    return nn.Linear(8, 4).double()


def flat(features: int) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(features, 4))


class Embedded(nn.Module):
    """Takes integers or flags."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, i: Tensor) -> Tensor:
        return self.table(i.long()).mean(1)


class OfComplex(nn.Module):
    """Complex weights, real outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 4, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(torch.complex64) @ self.weight).abs()


LAYOUTS: dict[str, Any] = {
    "transposed": reshaped(lambda x, k: x.t().contiguous().t()),
    "transposed_now_and_then": reshaped(lambda x, k: x.t().contiguous().t() if k % 2 else x),
    "every_second_column": reshaped(lambda x, k: torch.stack([x, x], -1).flatten(1)[:, ::2]),
    "part_of_a_larger": reshaped(in_a_larger),
    "expanded": reshaped(lambda x, k: x[:1].expand(6, 8)),
    "expanded_columns": reshaped(lambda x, k: x[:, :1].expand(6, 8)),
    "flipped": reshaped(lambda x, k: x.flip(0)),
    "size_one_dimensions": reshaped(lambda x, k: x[:, None, :, None], flat(8)),
    "size_one_strange_strides": reshaped(lambda x, k: x.as_strided((6, 1, 8), (8, 3, 1)), flat(8)),
    "one_row": reshaped(lambda x, k: x, lambda: nn.Linear(8, 4)),
    "double": reshaped(lambda x, k: x.double(), double),
    "bfloat16": reshaped(lambda x, k: x.bfloat16(), lambda: nn.Linear(8, 4).bfloat16()),
    "half": reshaped(lambda x, k: x.half(), lambda: nn.Linear(8, 4).half()),
    "integers": reshaped(lambda x, k: (x.abs() * 3).int(), Embedded),
    "bytes": reshaped(lambda x, k: (x.abs() * 3).to(torch.uint8), Embedded),
    "flags": reshaped(lambda x, k: x > 0, Embedded),
    "complex": reshaped(lambda x, k: torch.complex(x, x.flip(1)), OfComplex),
    "conjugated": reshaped(lambda x, k: torch.complex(x, x.flip(1)).conj(), OfComplex),
    "negative_view": reshaped(lambda x, k: torch.complex(x, x).conj().imag),
    "channels_last": reshaped(
        lambda x, k: x.view(6, 2, 2, 2).to(memory_format=torch.channels_last),
        lambda: nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(3, 4)),
    ),
    "lengths": reshaped(lambda x, k: x[:, :4], lambda: nn.Linear(4, 4)),
}
for label, build in LAYOUTS.items():
    add("layout", f"layout_{label}", build)


@case("layout")
def layout_size_one_attention() -> Any:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pos, self.norm = nn.Conv2d(1, 1, 3, padding=1), nn.LayerNorm(1)
            self.qkv = nn.Linear(1, 3, bias=False)
            nn.init.normal_(self.norm.bias)

        def forward(self, x: Tensor) -> Tensor:
            b, c, h, w = x.shape
            t = self.norm(x.flatten(2).transpose(1, 2))
            s = t.transpose(1, 2).reshape(b, c, h, w)
            t = (self.pos(s) + s).flatten(2).transpose(1, 2)
            q, k, v = self.qkv(t).unbind(-1)
            a = (q @ k.transpose(-1, -2)).softmax(-1)
            return x + (a @ v).unsqueeze(-1).transpose(1, 2).reshape(b, c, h, w)

    b = Bench(Block(), make=sgd)

    def step(x: Tensor, g: Tensor) -> list[Tensor]:
        b.opt.zero_grad()
        (b.model(x) * g).sum().backward()
        grads = [p.grad.clone() for p in b.model.parameters()]
        b.opt.step()
        return grads

    calls = [(torch.randn(2, 1, 7, 7), torch.randn(2, 1, 7, 7)) for _ in range(4)]
    return b.world(step, calls=calls)


@case("length")
def twelve_lengths() -> Any:
    b = Bench(rows=14, count=14)
    lengths = [14, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 3, 14]
    calls = [(x[:n], y[:n]) for (x, y), n in zip(b.calls, lengths, strict=True)]
    return b.world(b.usual, calls=calls)


@case("length")
def last_batch_is_short() -> Any:
    b = Bench()
    one, two, three, (x, y), five = b.calls
    return b.world(b.usual, calls=[one, two, three, (x[:2], y[:2]), five])


@case("length")
def empty_batch() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(b.model(x), y, reduction="sum"))

    one, two, (x, y), four, _ = b.calls
    return b.world(step, calls=[one, two, (x[:0], y[:0]), four])


@case("length")
def batch_of_one() -> Any:
    b = Bench(rows=1)
    return b.world(b.usual)


@case("layout")
def layout_window_of_a_long_series() -> Any:
    """Far into it, which says nothing of how large it is for the operators that it goes through."""
    b = Bench(nn.ModuleDict({"rnn": nn.LSTM(4, 8, batch_first=True), "out": nn.Linear(8, 4)}))
    series = torch.randn(200_000, 4, generator=torch.Generator().manual_seed(5))

    def step(at: int) -> Tensor:
        window = series[at : at + 13][None]
        hidden, _ = b.model["rnn"](window[:, :-1])
        return b.update(F.mse_loss(b.model["out"](hidden), window[:, 1:]))

    return b.world(step, calls=[(at,) for at in (190_000, 77_777, 3, 150_002, 190_000)])


def empty_then_whole(b: Bench, x: Tensor, kept: Tensor) -> Tensor:
    return b.loss(x, torch.zeros(6, dtype=torch.int64)) + x[:0].sum()


def joined_with_an_empty(b: Bench, x: Tensor, kept: Tensor) -> Tensor:
    return b.model(torch.cat([x[:0], x, kept[:0]])).square().mean()


def written_where_empty(b: Bench, x: Tensor, kept: Tensor) -> Tensor:
    kept[:0] = 1
    x[3:3] = 2
    kept[0] = x[0]
    return b.model(kept + x).square().mean()


def written_more_and_more(b: Bench, x: Tensor, kept: Tensor) -> Tensor:
    count = len(b.log) % 3
    b.log.append(count)
    kept[:count] = x[:count]
    return b.model(kept).square().mean()


def on_an_empty(body: Any) -> Any:
    """A case whose step meets memory by a view without elements first."""

    def build() -> Any:
        b = Bench()
        kept = torch.ones(6, 8)

        def step(x: Tensor) -> Tensor:
            return b.update(body(b, x, kept))

        return b.world(step, kept, calls=[(x,) for x, _ in b.calls])

    return build


for body in (empty_then_whole, joined_with_an_empty, written_where_empty, written_more_and_more):
    add("layout", f"layout_{body.__name__}", on_an_empty(body))


@case("layout")
def whole_numbers_without_elements_are_written() -> Any:
    b = Bench()
    rows = [4, 0, 3, 0, 0]
    calls = [(x, y, torch.randn(n, 3)) for (x, y), n in zip(b.calls, rows, strict=True)]

    def step(x: Tensor, y: Tensor, boxes: Tensor) -> Any:
        cells = boxes[:, :2].long().clamp_(0, 3)
        cells.add_(1).masked_fill_(cells > 2, 0)
        found = (boxes[:, 2].long().relu_() + cells.sum(1)).fill_(2)
        return b.update(b.loss(x, y) + found.sum()), cells

    return b.world(step, calls=calls)
