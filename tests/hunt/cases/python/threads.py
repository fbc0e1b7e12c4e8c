"""Threads, torch's own modes and subclasses, tensors as Python objects."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import queue
import random
import signal
import tempfile
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.nn.functional as F
from kit import Later, case
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from worlds import Bench, batches, sgd


@case("thread")
def thread_forward_in_a_thread() -> Any:
    b, made = Bench(), {}

    def step(x: Tensor, y: Tensor) -> Tensor:
        thread = threading.Thread(target=lambda: made.update(out=b.model(x)))
        thread.start()
        thread.join()
        return b.update(F.cross_entropy(made.pop("out"), y))

    return b.world(step)


@case("thread")
def thread_that_keeps_a_tensor() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        made: list[Tensor] = []
        out = b.model(x)
        thread = threading.Thread(target=lambda: made.append(out.detach() * 2))
        thread.start()
        thread.join()
        return b.update(F.cross_entropy(out + made[0], y))

    return b.world(step)


SENT: dict[str, Callable[[], object]] = {
    "raised": lambda: signal.raise_signal(signal.SIGUSR1),
    "by_kill": lambda: os.kill(os.getpid(), signal.SIGUSR1),
    "to_the_thread": lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1),
}


def _sent(name: str) -> Callable[[], Any]:
    def sent() -> Any:
        b, handled = Bench(), [1.0]

        def handler(*_: object) -> None:
            handled.append(handled[-1] * 1.5)

        def step(x: Tensor, y: Tensor) -> Tensor:
            out = b.model(x)
            if len(b.log) % 2 == 0:
                SENT[name]()
            b.log.append(len(handled))
            return b.update(F.cross_entropy(out, y) * handled[-1])

        signal.signal(signal.SIGUSR1, handler)
        return b.world(step, handled)

    sent.__name__ = f"signal_that_the_step_sends_{name}"
    return sent


@case("thread")
def signal_that_the_step_sends_by_another_name() -> Any:
    b = Bench()
    send = signal.raise_signal

    def step(x: Tensor, y: Tensor) -> Tensor:
        send(signal.SIGUSR1)
        return b.update(b.loss(x, y) * (1 + len(b.log)))

    signal.signal(signal.SIGUSR1, lambda *_: b.log.append(1))
    return b.world(step)


for _name in SENT:
    case("thread")(_sent(_name))


@case("thread")
def thread_pool_of_losses() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> list[float]:
        hidden = b.model[:2](x)
        with ThreadPoolExecutor(2) as pool:
            outs = list(pool.map(lambda h: h.detach().square().mean().item(), hidden))
        b.update(F.cross_entropy(b.model[2](hidden), y) * (1 + sum(outs)))
        return outs

    return b.world(step)


@case("thread")
def thread_that_trains_beside() -> Any:
    b, other = Bench(), Bench()
    barrier = threading.Barrier(2)

    def beside(x: Tensor, y: Tensor) -> None:
        barrier.wait()
        other.usual(x, y)
        barrier.wait()

    def step(x: Tensor, y: Tensor) -> Tensor:
        threading.Thread(target=beside, args=(x, y)).start()
        loss = b.loss(x, y)
        barrier.wait()
        barrier.wait()
        return b.update(loss)

    return b.world(step, other.model, other.opt)


@case("thread")
def event_loop_in_the_step() -> Any:
    b = Bench()

    async def part(x: Tensor, y: Tensor) -> Tensor:
        await asyncio.sleep(0)
        return b.loss(x, y)

    async def all_parts(x: Tensor, y: Tensor) -> Tensor:
        return sum(await asyncio.gather(part(x[:3], y[:3]), part(x[3:], y[3:])))

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(asyncio.run(all_parts(x, y)))

    return b.world(step)


class Counts(TorchDispatchMode):
    """Counts operators."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Doubles(TorchFunctionMode):
    """Doubles what relu gives."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.tanh else out


@case("torch mode")
def mode_that_counts_operators() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> list[str]:
        with Counts() as counts:
            loss = b.loss(x, y)
        b.update(loss)
        return counts.names

    return b.world(step)


@case("torch mode")
def mode_that_counts_flops() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> int:
        with FlopCounterMode(display=False) as counter:
            b.usual(x, y)
        return counter.get_total_flops()

    return b.world(step)


@case("torch mode")
def mode_of_functions() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        with Doubles():
            out = torch.tanh(b.model(x))
        return b.update(F.cross_entropy(out, y))

    return b.world(step)


@case("torch mode")
def subclass_of_tensors() -> Any:
    class Tagged(Tensor):
        pass

    b = Bench()

    def step(x: Tensor, y: Tensor) -> str:
        out = b.model(x.as_subclass(Tagged))
        b.update(F.cross_entropy(out, y).as_subclass(Tensor))
        return type(out).__name__

    return b.world(step)


@case("torch mode")
def meta_tensors_for_shapes() -> Any:
    b = Bench()
    twin = copy.deepcopy(b.model).to("meta")

    def step(x: Tensor, y: Tensor) -> tuple[int, ...]:
        shape = twin(torch.empty(x.shape, device="meta")).shape
        b.update(b.loss(x, y) * shape[1])
        return tuple(shape)

    return b.world(step)


@case("torch mode")
def profiler_in_the_step() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.profiler.record_function("forward"):
            loss = b.loss(x, y)
        return b.update(loss)

    return b.world(step)


@case("python object")
def tensors_as_keys_and_in_lists() -> Any:
    b, by_tensor = Bench(), weakref.WeakKeyDictionary()

    def step(x: Tensor, y: Tensor) -> tuple[int, bool, int]:
        parts = list(b.model(x).unbind(1))
        by_tensor[parts[0]] = 1
        order = sorted(parts, key=lambda p: p.sum())
        largest = max(parts, key=lambda p: float(p[0]))
        b.update(F.cross_entropy(torch.stack(order, 1), y) + largest.mean())
        return len({parts[0], parts[1], parts[0]}), parts[0] is parts[0], len(by_tensor)

    return b.world(step)


@case("python object")
def model_copied_inside_once() -> Any:
    b, copies = Bench(), []

    def step(x: Tensor, y: Tensor) -> Tensor:
        if not copies:
            copies.append(copy.deepcopy(b.model).requires_grad_(False))
        distance = sum(
            (p - q).square().sum()
            for p, q in zip(b.model.parameters(), copies[0].parameters(), strict=True)
        )
        return b.update(b.loss(x, y) + 0.1 * distance)

    return b.world(step, copies)


@case("python object")
def replay_of_random_samples() -> Any:
    b, memory = Bench(make=sgd), []

    def step(x: Tensor, y: Tensor) -> Tensor:
        memory.extend(zip(x, y, strict=True))
        xs, ys = zip(*random.sample(memory, 4), strict=True)
        return b.usual(torch.stack(xs), torch.stack(ys))

    return b.world(step, memory, calls=batches(4))


@case("python object")
def another_model_trained_inside() -> Any:
    b, inner = Bench(), nn.Linear(8, 4)

    def step(x: Tensor, y: Tensor) -> float:
        opt = torch.optim.Adam(inner.parameters(), lr=0.1)
        for _ in range(2):
            opt.zero_grad()
            F.cross_entropy(inner(x), y).backward()
            opt.step()
        with torch.no_grad():
            target = inner(x).softmax(1)
        return b.update(F.cross_entropy(b.model(x), target)).item()

    return b.world(step, inner)


@case("thread")
def a_logger_s_thread_beside_compile() -> Any:
    """It finds what stands in for the queue and for the counter while compile previews."""
    b = Bench()
    notes: queue.Queue[float] = queue.Queue()
    numbers, seen, file = iter(range(10**9)), [], tempfile.TemporaryFile("w")  # noqa: SIM115
    is_over = threading.Event()

    def log() -> None:
        while not is_over.is_set():
            seen.append(notes.qsize() >= 0 and next(numbers) >= 0 and file.write(".") == 1)
            with contextlib.suppress(queue.Empty):
                notes.get(timeout=0.001)

    thread = threading.Thread(target=log, daemon=True)
    thread.start()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        notes.put(1.0)
        if len(seen) < 0:
            file.write(str(next(numbers)))
        return loss

    def last(_results: list[Any]) -> Any:
        assert thread.is_alive()
        is_over.set()
        thread.join()
        return b.calls[-1]

    return b.world(step, calls=[*b.calls, Later(last)])
