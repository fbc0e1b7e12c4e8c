"""What previews of a step change in far places, and what has to be put back."""

from __future__ import annotations

import configparser
import copy
import decimal
import functools
import gc
import hashlib
import io
import multiprocessing.shared_memory
import pickle
import queue
import random
import sqlite3
import sys
import tempfile
import types
import weakref
from pathlib import Path
from typing import Any

import torch
import torch.ao.quantization
import torch.nn.functional as F
from cases.python.hidden import Holder, counting
from kit import Later, case
from torch import Tensor, nn
from worlds import Bench, mlp


class Written(io.StringIO):
    """What stands in a file, whenever it is looked at."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def getvalue(self) -> str:
        return Path(self._path).read_text()


@counting
def a_module_imported_by_the_step() -> Any:
    module = types.ModuleType("counts_of_the_hunt")
    module.__file__ = __file__
    vars(module)["calls"] = [0, 0]
    sys.modules["counts_of_the_hunt"] = module

    def count() -> int:
        import counts_of_the_hunt  # type: ignore[import-not-found]

        counts_of_the_hunt.calls = [counts_of_the_hunt.calls[0] + 1]
        return int(counts_of_the_hunt.calls[0])

    return count, vars(module)


settings_of_the_hunt = types.ModuleType("settings_of_the_hunt")
settings_of_the_hunt.__file__ = __file__


@counting
def an_attribute_named_in_quotes() -> Any:
    def count() -> int:
        calls = getattr(settings_of_the_hunt, "calls") + 1  # noqa: B009
        setattr(settings_of_the_hunt, "calls", calls)  # noqa: B010
        return int(calls)

    settings_of_the_hunt.calls = 0  # type: ignore[attr-defined]
    return count, Holder()


@counting
def globals_by_their_names() -> Any:
    source = """def count():
    globals()["calls_by_" + "name"] += 1
    return globals()["calls_by_name"]
"""
    scope = {"calls_by_name": 0, "__name__": "counts_by_name"}
    exec(compile(source, "<counts>", "exec"), scope)
    return scope["count"], Holder()


@counting
def a_simple_queue() -> Any:
    calls: queue.SimpleQueue[int] = queue.SimpleQueue()

    def count() -> int:
        calls.put(1)
        return calls.qsize()

    return count, Holder()


@counting
def a_simple_queue_that_is_read() -> Any:
    calls: queue.SimpleQueue[int] = queue.SimpleQueue()
    calls.put(0)

    def count() -> int:
        calls.put(calls.get() + 1)
        last = calls.get()
        calls.put(last)
        return last

    return count, Holder()


@counting
def a_hash() -> Any:
    seen = hashlib.sha256()

    def count() -> int:
        seen.update(b"step")
        return seen.digest()[0] % 8

    return count, Holder()


@counting
def ends_of_objects_in_cycles() -> Any:
    class Ending(Holder):
        """Counts those that are gone."""

        ended = 0

        def __init__(self) -> None:
            super().__init__()
            self.me = self

        def __del__(self) -> None:
            Ending.ended += 1

    calls = Holder()
    gc.disable()  # Or they end whenever Python has time.

    def count() -> int:
        Ending()
        calls.count += 1
        if calls.count == 3:
            gc.collect()
        return Ending.ended

    return count, calls


def cache_that_gets_more(maxsize: int | None) -> Any:
    """What counts is kept in a cache, which gets one entry more at each call."""

    @functools.lru_cache(maxsize)
    def meter(_key: int) -> Holder:
        return Holder()

    meter(0)

    def count() -> int:
        meter(0).count += 1
        meter(meter(0).count)
        return meter(0).count

    return count, meter(0)


@counting
def one_of_many_objects() -> Any:
    """As in a buffer of transitions that have priorities."""
    many = [[Holder(), {"calls": 0}] for _ in range(5000)]

    def count() -> int:
        holder, numbers = many[4321]
        holder.count += 1
        numbers["calls"] += 1
        return min(holder.count, numbers["calls"])

    return count, [many[4321][0], many[4321][1]]


@counting
def a_cache_that_gets_one_more() -> Any:
    return cache_that_gets_more(None)


@counting
def a_bounded_cache_that_gets_one_more() -> Any:
    return cache_that_gets_more(64)


@case("cache")
def a_bounded_cache_of_numbers_that_were_drawn() -> Any:
    b = Bench()

    @functools.lru_cache(64)
    def slot(_key: int) -> int:
        return random.randrange(6)

    slot(0)

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.log.append([slot(0), slot(len(b.log))])
        return b.update(F.cross_entropy(b.model(x)[slot(0) :], y[slot(0) :]))

    return b.world(step)


@counting
def a_full_cache_that_gets_one_more() -> Any:
    return cache_that_gets_more(2)


@counting
def a_bound_method_of_a_connection() -> Any:
    execute = sqlite3.connect(":memory:").execute
    execute("create table calls (id integer)")

    def count() -> int:
        execute("insert into calls values (1)")
        return int(execute("select count(*) from calls").fetchone()[0])

    return count, Holder()


@counting
def a_pickler_s_file() -> Any:
    file = io.BytesIO()
    pickler = pickle.Pickler(file)

    def count() -> int:
        pickler.dump("step")
        return len(file.getvalue()) // 15

    return count, file


@counting
def the_order_of_a_set() -> Any:
    order = {16, 8}

    def count() -> int:
        first = next(iter(order))
        order.discard(first)
        order.add(first)
        return first - 8

    return count, Holder()


@counting
def settings_of_configparser() -> Any:
    settings = configparser.ConfigParser()
    settings["train"] = {"calls": "0"}

    def count() -> int:
        calls = settings.getint("train", "calls") + 1
        settings["train"]["calls"] = str(calls)
        return calls

    return count, Holder()


@counting
def a_table_of_sqlite() -> Any:
    table = sqlite3.connect(":memory:")
    table.execute("create table calls (id integer)")

    def count() -> int:
        table.execute("insert into calls values (1)")
        return int(table.execute("select count(*) from calls").fetchone()[0])

    return count, Holder()


@counting
def a_file_of_tempfile() -> Any:
    file = tempfile.NamedTemporaryFile("w+")  # noqa: SIM115
    calls = Holder()

    def count() -> int:
        calls.count += 1
        file.write("step ")
        file.flush()
        return calls.count

    return count, Written(file.name)


@counting
def shared_memory() -> Any:
    block = multiprocessing.shared_memory.SharedMemory(create=True, size=8)
    weakref.finalize(block, block.unlink)

    def count() -> int:
        block.buf[0] += 1
        return int(block.buf[0])

    return count, Holder()


@counting
def a_precision_of_decimal() -> Any:
    decimal.getcontext().prec = 28

    def count() -> int:
        decimal.getcontext().prec += 1
        return decimal.getcontext().prec - 28

    return count, Holder()


@counting
def a_switch_of_attention() -> Any:
    class Turns(Holder):
        """Turns a switch at its third call."""

    turns = Turns()

    def count() -> int:
        turns.count += 1
        if turns.count == 3:
            torch.backends.cuda.enable_math_sdp(not torch.backends.cuda.math_sdp_enabled())
        return 9 * torch.backends.cuda.math_sdp_enabled()

    torch.backends.cuda.enable_math_sdp(True)
    return count, turns


@case("cache")
def a_model_on_meta_within_reach() -> Any:
    b = Bench()
    with torch.device("meta"):
        outline = mlp()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(b.loss(x, y) * outline(x.to("meta")).shape[1])

    return b.world(step)


@case("cache")
def one_more_tensor_over_a_buffer() -> Any:
    b = Bench(nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)))
    kept: list[Any] = [None]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        kept[0] = copy.copy(b.model[1].running_mean)
        return loss

    return b.world(step, kept)


@case("cache")
def observers_of_quantization() -> Any:
    observe = torch.ao.quantization.FusedMovingAvgObsFakeQuantize()
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(b.loss(observe(x), y))

    return b.world(step, observe)


@case("cache")
def a_quantized_tensor() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        rough = torch.quantize_per_tensor(b.model(x).detach(), 0.1, 0, torch.qint8)
        return b.update(b.loss(x, y) + rough.dequantize().mean())

    return b.world(step)


@case("cache")
def a_returned_dict_that_the_caller_clears() -> Any:
    b = Bench(mlp())
    meters: dict[str, float] = {}

    def step(x: Tensor, y: Tensor) -> Any:
        meters["calls"] = meters.get("calls", 0.0) + 1
        loss = b.update(b.loss(x, y) * (0.5 if meters["calls"] > 1 else 1.0))
        return {"loss": loss, "meters": meters}

    def cleared(results: list[Any]) -> Any:
        results[-1]["meters"].clear()
        return b.calls[-1]

    return b.world(step, meters, calls=[b.calls[0], *[Later(cleared)] * 4])
