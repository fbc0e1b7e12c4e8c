"""Tensors that Python keeps from call to call: caches, hidden states, buffers that change."""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch
import torch.nn.functional as F
from kit import Do, Later, case
from torch import Tensor, nn
from worlds import Bench, batches, sgd


@case("cache")
def cache_lru_of_tensors() -> Any:
    @functools.lru_cache(None)
    def mask(n: int) -> Tensor:
        return torch.tril(torch.ones(n, n))

    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(b.model(mask(len(x)) @ x), y))

    return step, b.calls, lambda: (b.model, b.opt, mask.cache_info().hits)


@case("cache")
def cache_by_length() -> Any:
    b, cache = Bench(), {}

    def positions(n: int) -> Tensor:
        if n not in cache:
            cache[n] = torch.linspace(0, 1, n)[:, None]
        return cache[n]

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(b.model(x + positions(len(x))), y))

    calls = [(x[:n], y[:n]) for (x, y), n in zip(batches(6), [6, 4, 6, 4, 5, 6], strict=True)]
    return b.world(step, cache, calls=calls)


@case("cache")
def cache_cached_property() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 4)

        @functools.cached_property
        def scale(self) -> Tensor:
            return torch.full((4,), 0.5)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x) * self.scale

    b = Bench(Net())
    return b.usual, b.calls, lambda: (b.model, b.opt, b.model.scale)


@case("cache")
def cache_of_outputs_by_key() -> Any:
    b, memo = Bench(), {}

    def step(x: Tensor, y: Tensor) -> Tensor:
        key = y[0].item()
        old = memo.get(key)
        out = b.model(x)
        memo[key] = out.detach().mean(0)
        loss = F.cross_entropy(out, y)
        return b.update(loss if old is None else loss + (out.mean(0) - old).square().sum())

    return b.world(step, memo)


@case("hidden state")
def hidden_repackaged() -> Any:
    b = Bench(nn.ModuleDict({"rnn": nn.LSTM(8, 8), "out": nn.Linear(8, 4)}))
    state: list[Any] = [None]

    def step(x: Tensor, y: Tensor) -> Tensor:
        out, new = b.model["rnn"](x[:, None], state[0])
        state[0] = tuple(h.detach() for h in new)
        return b.update(F.cross_entropy(b.model["out"](out[:, 0]), y))

    return b.world(step, state)


@case("hidden state")
def hidden_passed_and_returned() -> Any:
    b = Bench(nn.ModuleDict({"rnn": nn.GRUCell(8, 8), "out": nn.Linear(8, 4)}))
    hidden = torch.zeros(6, 8)

    def step(x: Tensor, y: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = b.model["rnn"](x, h)
        return b.update(F.cross_entropy(b.model["out"](h), y)), h.detach()

    first, *rest = b.calls
    later = [Later(lambda made, batch=batch: (*batch, made[-1][1])) for batch in rest]
    calls = [(*first, hidden), *later]
    return b.world(step, calls=calls)


@case("hidden state")
def hidden_reset_by_the_caller() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.out, self.h = nn.GRUCell(8, 8), nn.Linear(8, 4), None

        def forward(self, x: Tensor) -> Tensor:
            h = torch.zeros(len(x), 8) if self.h is None else self.h
            h = self.rnn(x, h)
            self.h = h.detach()
            return self.out(h)

    b = Bench(Net())

    def reset() -> None:
        b.log.append(b.model.h.clone())
        b.model.h = None

    calls = [*b.calls[:3], Do(reset), *b.calls[3:]]
    return b.usual, calls, lambda: (b.model, b.opt, b.log, b.model.h)


@case("hidden state")
def hidden_of_other_sizes() -> Any:
    b = Bench(nn.ModuleDict({"rnn": nn.GRUCell(8, 8), "out": nn.Linear(8, 4)}))
    state = {"h": torch.zeros(6, 8)}

    def step(x: Tensor, y: Tensor) -> Tensor:
        h = b.model["rnn"](x, state["h"][: len(x)])
        state["h"] = torch.cat([h.detach(), torch.zeros(6 - len(x), 8)])
        return b.update(F.cross_entropy(b.model["out"](h), y))

    calls = [(x[:n], y[:n]) for (x, y), n in zip(batches(5), [6, 3, 6, 4, 3], strict=True)]
    return b.world(step, state, calls=calls)


@case("hidden state")
def last_output_on_the_module() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.last, self.attended = nn.Linear(8, 4), None, []

        def forward(self, x: Tensor) -> Tensor:
            out = self.fc(x)
            self.last = out.detach()
            self.attended.append(out.detach().softmax(1).mean())
            return out

    b = Bench(Net())
    return b.usual, b.calls, lambda: (b.model, b.opt, b.model.last, b.model.attended)


@case("hidden state")
def replay_buffer() -> Any:
    b, memory = Bench(), []

    def step(x: Tensor, y: Tensor) -> Tensor:
        memory.append((x, y))
        old = memory[len(memory) // 2]
        return b.update(b.loss(x, y) + b.loss(*old))

    return b.world(step, memory)


@case("hidden state")
def previous_parameters_kept() -> Any:
    b = Bench(make=sgd)
    before: list[Any] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        before[:] = [p.detach().clone() for p in b.model.parameters()]
        loss = b.usual(x, y)
        moved = [(p - q).norm() for p, q in zip(b.model.parameters(), before, strict=True)]
        b.log.append(torch.stack(moved).sum().item())
        return loss

    return b.world(step, before)


@case("hidden state")
def weak_dictionary_of_state() -> Any:
    b, of = Bench(make=sgd), weakref.WeakKeyDictionary()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        for part in b.model:
            of[part] = of.get(part, 0) + 1
        return b.update(loss * of[b.model[0]])

    return step, b.calls, lambda: (b.model, b.opt, list(of.values()))


class Positions(nn.Module):
    """A table that grows for a longer input, as a rotary cache does."""

    def __init__(self, persistent: bool = False, in_place: bool = False) -> None:
        super().__init__()
        self.fc, self.in_place = nn.Linear(8, 4), in_place
        self.register_buffer("table", torch.linspace(0, 1, 4), persistent=persistent)

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > len(self.table):
            if self.in_place:
                self.table.resize_(len(x)).copy_(torch.linspace(0, 1, len(x)))
            else:
                self.table = torch.linspace(0, 1, len(x))
        return self.fc(x) * self.table[: len(x), None]


def of_lengths(lengths: list[int]) -> list[Any]:
    data = batches(len(lengths))
    return [(x[:n], y[:n]) for (x, y), n in zip(data, lengths, strict=True)]


@case("buffer")
def buffer_grows() -> Any:
    b = Bench(Positions())
    return b.world(b.usual, calls=of_lengths([4, 6, 4, 6, 3]))


@case("buffer")
def buffer_grows_persistent() -> Any:
    b = Bench(Positions(persistent=True))
    return b.world(b.usual, calls=of_lengths([4, 5, 4, 6, 5]))


@case("buffer")
def buffer_resized_in_place() -> Any:
    b = Bench(Positions(in_place=True))
    return b.world(b.usual, calls=of_lengths([4, 6, 4, 6]))


@case("buffer")
def buffer_replaced_by_the_caller() -> Any:
    b = Bench(Positions())

    def replace() -> None:
        b.model.table = b.model.table * 2

    calls = of_lengths([4, 4, 4, 4])
    return b.world(b.usual, calls=[*calls[:2], Do(replace), *calls[2:]])


@case("buffer")
def buffer_written_by_the_caller() -> Any:
    b = Bench(Positions())
    calls = of_lengths([4, 4, 4, 4])
    return b.world(b.usual, calls=[*calls[:2], Do(lambda: b.model.table.mul_(3)), *calls[2:]])


@case("buffer")
def buffer_registered_in_the_step() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        if not hasattr(b.model, "centre"):
            b.model.register_buffer("centre", x.mean(0))
        b.model.centre = 0.9 * b.model.centre + 0.1 * x.mean(0)
        return b.update(F.cross_entropy(b.model(x - b.model.centre), y))

    return b.world(step)


@case("buffer")
def attribute_tensor_rebound() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.average = nn.Linear(8, 4), torch.zeros(4)

        def forward(self, x: Tensor) -> Tensor:
            out = self.fc(x)
            self.average = 0.9 * self.average + 0.1 * out.detach().mean(0)
            return out - self.average

    b = Bench(Net())
    return b.usual, b.calls, lambda: (b.model, b.opt, b.model.average)


@case("buffer")
def queue_with_a_pointer() -> Any:
    class Moco(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 4)
            self.register_buffer("queue", torch.randn(12, 4))
            self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

        def forward(self, x: Tensor) -> Tensor:
            keys = F.normalize(self.fc(x), dim=1)
            out = keys @ self.queue.clone().t()
            at = int(self.ptr)
            self.queue[at : at + len(x)] = keys.detach()
            self.ptr[0] = (at + len(x)) % 12
            return out

    b = Bench(Moco())
    return b.world(b.usual)


@case("buffer")
def codebook_with_averages() -> Any:
    class Codes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 4)
            for name, value in {"codes": torch.randn(5, 4), "size": torch.ones(5)}.items():
                self.register_buffer(name, value)

        def forward(self, x: Tensor) -> Tensor:
            z = self.fc(x)
            which = F.one_hot(torch.cdist(z, self.codes).argmin(1), 5).float()
            q = which @ self.codes
            self.size.mul_(0.9).add_(which.sum(0), alpha=0.1)
            sums = which.t() @ z.detach()
            self.codes.copy_(0.9 * self.codes + 0.1 * sums / self.size[:, None].clamp(min=1e-3))
            return z + (q - z).detach()

    b = Bench(Codes())
    return b.world(b.usual)


@case("cache")
def cache_of_keys_and_values() -> Any:
    b, cache = Bench(nn.Linear(8, 8)), {"k": None}

    def step(x: Tensor, y: Tensor) -> Tensor:
        k = b.model(x)
        old = cache["k"]
        keys = k if old is None else torch.cat([old, k])
        cache["k"] = keys.detach()
        return b.update(F.cross_entropy(torch.softmax(k @ keys.t(), -1) @ keys, y))

    return b.world(step, cache)
