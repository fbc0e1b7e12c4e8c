"""Python state that the step itself changes: counters, schedules by hand, caches, module state."""

from __future__ import annotations

import heapq
import itertools
import math
import types
from collections import ChainMap, defaultdict
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from kit import case
from torch import Tensor, nn
from worlds import Bench, batches, sgd

CALLS = 0  # A counter of the module.


@case("counter")
def counter_nonlocal() -> Any:
    b, n = Bench(), 0

    def step(x: Tensor, y: Tensor) -> Tensor:
        nonlocal n
        n += 1
        return b.update(b.loss(x, y) * n)

    return step, b.calls, lambda: (b.model, b.opt, n)


@case("counter")
def counter_global() -> Any:
    global CALLS
    b, CALLS = Bench(), 0

    def step(x: Tensor, y: Tensor) -> Tensor:
        global CALLS
        CALLS += 1
        return b.update(b.loss(x, y) / CALLS)

    return step, b.calls, lambda: (b.model, b.opt, CALLS)


@case("counter")
def counter_class_attribute() -> Any:
    b = Bench()

    class Trainer:
        steps = 0
        seen: ClassVar[list[int]] = []

        def step(self, x: Tensor, y: Tensor) -> Tensor:
            Trainer.steps += 1
            self.seen.append(Trainer.steps)
            return b.update(b.loss(x, y) * Trainer.steps)

    return Trainer().step, b.calls, lambda: (b.model, b.opt, Trainer.steps, Trainer.seen)


@case("counter")
def counter_instance_attribute() -> Any:
    class Trainer(Bench):
        global_step = 0

        def step(self, x: Tensor, y: Tensor) -> Tensor:
            loss = self.usual(x, y)
            self.global_step += 1
            if self.global_step % 2 == 0:
                self.log.append((self.global_step, loss.item()))
            return loss

    t = Trainer()
    return t.step, t.calls, lambda: (t.model, t.opt, t.log, t.global_step)


@case("counter")
def counter_function_attribute() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        step.count += 1
        return b.update(b.loss(x, y) * step.count)

    step.count = 0
    return step, b.calls, lambda: (b.model, b.opt, step.count)


@case("counter")
def counter_default_argument() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor, seen: list[int] = []) -> Tensor:  # noqa: B006 - under test.
        seen.append(len(seen))
        return b.update(b.loss(x, y) * len(seen))

    return step, b.calls, lambda: (b.model, b.opt, step.__defaults__)


@case("counter")
def counter_in_a_list() -> Any:
    b, n = Bench(), [0]

    def step(x: Tensor, y: Tensor) -> int:
        n[0] += 1
        b.update(b.loss(x, y) * n[0])
        return n[0]

    return b.world(step, n)


@case("counter")
def counter_itertools() -> Any:
    b, numbers, signs = Bench(), itertools.count(1), itertools.cycle([1.0, 0.5, 2.0])

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(b.loss(x, y) * next(signs) / next(numbers))

    return b.world(step)


@case("counter")
def counter_generator() -> Any:
    def decay() -> Any:
        value = 1.0
        while True:
            sent = yield value
            value *= 0.5 if sent is None else sent

    b, values = Bench(), decay()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(b.loss(x, y) * next(values))

    return b.world(step)


@case("counter")
def counter_generator_with_send() -> Any:
    def average() -> Any:
        total, n = 0.0, 0
        while True:
            total += yield total / max(n, 1)
            n += 1

    b, mean = Bench(), average()
    next(mean)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        return b.update(loss / (1 + mean.send(loss.item())))

    return b.world(step)


@case("counter")
def counter_in_the_model() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.calls, self.scales = nn.Linear(8, 4), 0, {"now": 1.0}

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.scales["now"] = 1.0 / self.calls
            return self.fc(x) * self.scales["now"]

    b = Bench(Net())
    return b.usual, b.calls, lambda: (b.model, b.opt, b.model.calls, b.model.scales)


@case("counter")
def counter_tensor_buffer() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 4)
            self.register_buffer("calls", torch.zeros((), dtype=torch.long))

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return self.fc(x) * 2 if self.calls.item() % 2 else self.fc(x)

    b = Bench(Net())
    return b.world(b.usual)


@case("counter")
def counter_objects_of_many_kinds() -> Any:
    b = Bench()
    space, chain = types.SimpleNamespace(n=0), ChainMap({}, {"n": 0})
    by_key, heap, array = defaultdict(int), [3], bytearray(4)

    def step(x: Tensor, y: Tensor) -> Tensor:
        space.n += 1
        chain["n"] += 2
        by_key["a"] += 3
        heapq.heappush(heap, space.n % 3)
        array[space.n % 4] += 1
        weight = space.n + chain["n"] + by_key["a"] + heap[0] + max(array)
        return b.update(b.loss(x, y) * weight)

    return b.world(step, space, dict(chain), by_key, heap, array)


@case("counter")
def counter_with_slots_and_property() -> Any:
    class Clock:
        __slots__ = ("_ticks", "reads")

        def __init__(self) -> None:
            self._ticks, self.reads = 0, []

        @property
        def ticks(self) -> int:
            self._ticks += 1
            return self._ticks

        def __getattr__(self, name: str) -> int:
            self.reads.append(name)
            return len(self.reads)

    b, clock = Bench(), Clock()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(b.loss(x, y) * clock.ticks / clock.anything)

    return step, b.calls, lambda: (b.model, b.opt, clock._ticks, clock.reads)


@case("counter")
def counter_by_shape_seen() -> Any:
    b, seen = Bench(), {}

    def step(x: Tensor, y: Tensor) -> int:
        seen[tuple(x.shape)] = seen.get(tuple(x.shape), 0) + 1
        b.update(b.loss(x, y) * seen[tuple(x.shape)])
        return len(seen)

    calls = [(x[:n], y[:n]) for (x, y), n in zip(batches(6), [6, 4, 6, 4, 5, 6], strict=True)]
    return b.world(step, seen, calls=calls)


@case("schedule")
def schedule_every_second_step() -> Any:
    b, n = Bench(make=sgd), [0]

    def step(x: Tensor, y: Tensor) -> bool:
        b.loss(x, y).backward()
        n[0] += 1
        if n[0] % 2:
            return False
        b.opt.step()
        b.opt.zero_grad()
        return True

    return b.world(step, n, calls=batches(6))


@case("schedule")
def schedule_warmup_by_hand() -> Any:
    b, n = Bench(), [0]

    def step(x: Tensor, y: Tensor) -> float:
        n[0] += 1
        for group in b.opt.param_groups:
            group["lr"] = 0.01 * min(1.0, n[0] / 4) * 0.5 * (1 + math.cos(math.pi * n[0] / 8))
        b.usual(x, y)
        return b.opt.param_groups[0]["lr"]

    return b.world(step, n)


@case("schedule")
def schedule_annealed_kl() -> Any:
    b, state = Bench(nn.Linear(8, 8)), {"step": 0}

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, float]:
        state["step"] += 1
        beta = min(1.0, state["step"] / 3)
        mu, log_var = b.model(x).chunk(2, 1)
        z = mu + torch.randn_like(mu) * (0.5 * log_var).exp()
        kl = -0.5 * (1 + log_var - mu.square() - log_var.exp()).mean()
        return b.update(F.cross_entropy(z, y) + beta * kl), beta

    return b.world(step, state)


@case("schedule")
def schedule_of_dropout() -> Any:
    b = Bench(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Linear(8, 4)))

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.model[1].p = min(0.9, b.model[1].p + 0.1)
        return b.usual(x, y)

    return step, b.calls, lambda: (b.model, b.opt, b.model[1].p)


@case("schedule")
def schedule_curriculum_of_lengths() -> Any:
    b, n = Bench(), [0]

    def step(x: Tensor, y: Tensor) -> int:
        n[0] += 1
        rows = min(6, 2 * n[0])
        b.usual(x[:rows], y[:rows])
        return rows

    return b.world(step, n)


@case("schedule")
def schedule_alternating_heads() -> Any:
    model = nn.ModuleDict({"a": nn.Linear(8, 4), "b": nn.Linear(8, 4)})
    b, n = Bench(model), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        head = "ab"[n[0] % 2]
        n[0] += 1
        return b.update(F.cross_entropy(b.model[head](x), y))

    return b.world(step, n)


@case("schedule")
def schedule_freezes_after_two() -> Any:
    b, n = Bench(), [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        if n[0] == 3:
            for p in b.model[0].parameters():
                p.requires_grad = False
        return b.usual(x, y)

    return b.world(step, n)


@case("schedule")
def schedule_of_temperature() -> Any:
    class Gumbel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.tau = nn.Linear(8, 4), 2.0

        def forward(self, x: Tensor) -> Tensor:
            self.tau = max(0.5, self.tau * 0.7)
            return F.gumbel_softmax(self.fc(x), tau=self.tau, hard=self.tau < 1)

    b = Bench(Gumbel())
    return b.usual, b.calls, lambda: (b.model, b.opt, b.model.tau)


@case("schedule")
def schedule_linear_in_numpy_table() -> Any:
    b, n = Bench(make=sgd), [0]
    table = torch.linspace(0.1, 0.01, 5).tolist()

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.opt.param_groups[0]["lr"] = table[n[0]]
        n[0] += 1
        return b.usual(x, y)

    return b.world(step, n)
