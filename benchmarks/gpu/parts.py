"""One part of `make gpu-check` on the GPU, in a process of its own: rows as JSON lines.

    PYTHONPATH=python python -m benchmarks.gpu.parts PART TOOL

PART is a name in PARTS, TOOL the library that tests/gpu/gpu_tool.cpp is built into. A row has its
`case`, what was seen and, where that can be wrong, whether it is `good`.
"""

import ctypes
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Row = dict[str, Any]
Case = tuple[str, Callable[[], Any]]
MIB = 1 << 20
ARENA_BYTES = 2 << 30
ALIGNMENT = 512
MOST_EVENTS = 4096
UNLIMITED = 2**62


class Tool:
    """The library, with its arena open."""

    def __init__(self, path: str) -> None:
        torch.zeros(1, device="cuda")  # CUDA is initialised.
        self.library = ctypes.CDLL(path)
        self.library.fitstep_open.restype = ctypes.c_char_p
        self.library.fitstep_open.argtypes = [ctypes.c_int64]
        self.library.fitstep_base.restype = ctypes.c_uint64
        self.library.fitstep_end_log.restype = ctypes.c_int64
        self.library.fitstep_end_log.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        self.library.fitstep_expect.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        self.library.fitstep_begin_step.argtypes = [ctypes.c_int64]
        self.library.fitstep_end_step.argtypes = [ctypes.c_void_p]
        self.library.fitstep_measure_copies.restype = ctypes.c_char_p
        self.library.fitstep_measure_copies.argtypes = [
            ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p
        ]  # fmt: skip
        _check(self.library.fitstep_open(ARENA_BYTES))
        self.base = int(self.library.fitstep_base())

    def has(self, tensor: Tensor) -> bool:
        """Whether the tensor lies in the arena."""
        return self.base <= tensor.untyped_storage().data_ptr() < self.base + ARENA_BYTES

    def requests(self, op: Callable[[], Any]) -> tuple[list[int], list[tuple[int, int]]]:
        """The sizes that an op asks for, and all events as (request, is release)."""
        events = (ctypes.c_int64 * (3 * MOST_EVENTS))()
        self.library.fitstep_begin_log()
        try:
            result = op()
        finally:
            count = int(self.library.fitstep_end_log(events, MOST_EVENTS))
        del result
        assert count <= MOST_EVENTS, f"{count} requests and releases"
        found = [tuple(events[3 * i : 3 * i + 3]) for i in range(count)]
        sizes = [size for size, thread, _ in found if thread >= 0]
        return sizes, [(index, int(thread < 0)) for _, thread, index in found]

    def run(
        self, op: Callable[[], Any], sizes: list[int], most_unforeseen: int = UNLIMITED
    ) -> tuple[Any, dict[str, int]]:
        """Runs an op whose requests lie one behind the other in the arena; what the allocator
        counted."""
        offsets: list[int] = []
        end = 0
        for size in sizes:
            offsets.append(end)
            end += -(-size // ALIGNMENT) * ALIGNMENT
        assert end <= ARENA_BYTES, f"{end} bytes do not fit into the arena"
        as_array = ctypes.c_int64 * max(len(sizes), 1)
        self.library.fitstep_expect(as_array(*sizes), as_array(*offsets), len(sizes))
        counters = (ctypes.c_int64 * 5)()
        self.library.fitstep_begin_step(most_unforeseen)
        try:
            result = op()
        finally:
            self.library.fitstep_end_step(counters)
        names = ("planned", "unforeseen", "violations", "violation_bytes", "refused")
        return result, dict(zip(names, counters, strict=True))

    def copy_rates(self, size_bytes: int, count: int) -> list[float]:
        """GB/s from the GPU, to it, both at once."""
        rates = (ctypes.c_double * 3)()
        _check(self.library.fitstep_measure_copies(size_bytes, count, rates))
        return [rate / 1e9 for rate in rates]


def _check(message: bytes | None) -> None:
    if message is not None:
        raise RuntimeError(message.decode())


def _tensors(result: Any) -> list[Tensor]:
    found = result if isinstance(result, tuple | list) else [result]
    return [one for one in found if isinstance(one, Tensor) and one.numel()]


def _bits(result: Any) -> list[bytes]:
    return [
        one.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
        for one in _tensors(result)
    ]


def _cases() -> Iterator[Case]:
    """What training steps are made of, below autograd: all of it runs on this thread."""
    torch.manual_seed(1)
    aten = torch.ops.aten
    on = {"device": "cuda"}
    x = torch.randn(1024, 1024, **on)
    half = x.half()
    yield "mm, float32", lambda: x @ x
    yield "mm, float16", lambda: half @ half
    yield "addmm, float16", lambda: torch.addmm(half[0], half, half)
    yield "softmax", lambda: torch.softmax(x, -1)
    yield "sum of all", lambda: x.sum()
    yield "sort", lambda: x.sort(-1)
    yield "cumsum", lambda: x.cumsum(0)
    yield "layer norm", lambda: aten.native_layer_norm(x, [1024], None, None, 1e-5)

    def dropout() -> Any:
        torch.cuda.manual_seed(1)
        return torch.native_dropout(x, 0.1, True)

    yield "dropout", dropout
    indices = torch.randint(0, 1000, (4096,), **on)
    grad = torch.randn(4096, 256, **on)
    yield (
        "embedding, backward",
        lambda: aten.embedding_dense_backward(grad, indices, 1000, -1, False),
    )
    images = torch.randn(16, 64, 56, 56, **on)
    kernel = torch.randn(64, 64, 3, 3, **on)
    out = torch.randn(16, 64, 56, 56, **on)
    geometry = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    yield "convolution", lambda: aten.convolution(images, kernel, None, *geometry)
    yield (
        "convolution, backward",
        lambda: aten.convolution_backward(
            out, images, kernel, None, *geometry, [True, True, False]
        ),
    )
    scale = torch.ones(64, **on)
    yield (
        "batch norm",
        lambda: aten.native_batch_norm(images, scale, scale, None, None, True, 0.1, 1e-5),
    )
    query = torch.randn(4, 8, 512, 64, dtype=torch.float16, **on)
    yield "attention, float16", lambda: F.scaled_dot_product_attention(query, query, query)
    weights = [torch.randn(256, 256, **on) for _ in range(8)]
    yield "foreach add", lambda: torch._foreach_add(weights, weights)


def placement(tool: Tool) -> Iterator[Row]:
    """Do ops ask the same each time, and do their results lie where they are planned?"""
    torch.use_deterministic_algorithms(True, warn_only=True)
    for name, op in _cases():
        for _ in range(2):  # Library workspaces are there from now on.
            plain = op()
        expected = _bits(plain)
        first = tool.requests(op)
        repeats = tool.requests(op) == first
        result, counted = tool.run(op, first[0])
        in_arena = all(tool.has(one) for one in _tensors(result))
        same = _bits(result) == expected
        missed = counted["unforeseen"] + counted["violations"]
        yield {
            "case": name,
            "requests": len(first[0]),
            "MiB": round(sum(first[0]) / MIB, 2),
            "repeats": repeats,
            "planned": counted["planned"],
            "missed": missed,
            "in_arena": in_arena,
            "same_bits": same,
            "good": repeats and in_arena and same and missed == 0,
        }


def threads(tool: Tool) -> Iterator[Row]:
    """While a step runs, another thread gets PyTorch's memory, and streams may be recorded."""
    x = torch.randn(1024, 1024, device="cuda")
    sizes, _ = tool.requests(lambda: x + x)
    elsewhere: list[bool] = []

    def other() -> None:
        elsewhere.append(tool.has(torch.empty(1024, 1024, device="cuda")))

    def op() -> Tensor:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        result = x + x
        result.record_stream(torch.cuda.Stream())
        return result

    result, counted = tool.run(op, sizes)
    good = elsewhere == [False] and tool.has(result) and counted["planned"] == len(sizes)
    yield {
        "case": "another thread asks during a step",
        "seen": "PyTorch's memory" if elsewhere == [False] else "the arena",
        "good": good,
    }
    del result
    after = torch.empty(1024, 1024, device="cuda")
    yield {
        "case": "the same thread asks after a step",
        "seen": "the arena" if tool.has(after) else "PyTorch's memory",
        "good": not tool.has(after),
    }


def refusal(tool: Tool) -> Iterator[Row]:
    """A convolution whose workspace is refused has to find an implementation with less."""
    geometry = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    for channels, side in ((256, 28), (128, 56), (512, 14)):
        images = torch.randn(32, channels, side, side, device="cuda")
        kernel = torch.randn(channels, channels, 3, 3, device="cuda")
        out = torch.randn(32, channels, side, side, device="cuda")

        def op(a: Tensor = images, b: Tensor = kernel, grad: Tensor = out) -> Any:
            return torch.ops.aten.convolution_backward(
                grad, a, b, None, *geometry, [True, True, False]
            )

        row: Row = {"case": f"backward, {channels} channels, {side}x{side}"}
        plain = op()
        sizes, _ = tool.requests(op)
        outputs = {one.untyped_storage().nbytes() for one in _tensors(plain)}
        workspaces = [size for size in sizes if size not in outputs]
        row["workspace MiB"] = round(max(workspaces, default=0) / MIB, 2)
        if not workspaces:
            yield row | {"refused": 0, "seen": "no workspace is asked for"}
            continue
        most = max(workspaces) // 2
        kept = [size for size in sizes if size <= most or size in outputs]
        try:
            result, counted = tool.run(op, kept, most)
        except RuntimeError as error:
            reason = str(error).split("\n")[0]
            yield row | {"refused": None, "seen": reason, "good": False}
            continue
        refused = counted["refused"]
        error = max(
            float((a - b).abs().max() / b.abs().max())
            for a, b in zip(_tensors(result), _tensors(plain), strict=True)
        )
        seen = "same bits" if _bits(result) == _bits(plain) else f"relative error {error:.1e}"
        yield row | {"refused": refused, "seen": seen, "good": refused > 0 and error < 1e-2}


def copies(tool: Tool) -> Iterator[Row]:
    """Copies between pinned memory and the GPU, alone, both ways, and beside a matrix product."""
    size_bytes, count = 256 * MIB, 16
    evict, prefetch, both = tool.copy_rates(size_bytes, count)
    for name, rate in (("from the GPU", evict), ("to the GPU", prefetch), ("both at once", both)):
        yield {"case": name, "GB/s": round(rate, 1)}
    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    x @ x
    torch.cuda.synchronize()

    def timed(products: int, copied: int) -> float:
        begin = time.perf_counter()
        for _ in range(products):
            x @ x
        if copied:
            tool.copy_rates(size_bytes, copied)
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    copying = timed(0, count)
    one = timed(8, 0) / 8
    products = max(int(copying / one), 1)
    computing = timed(products, 0)
    together = timed(products, count)
    share = (computing + copying - together) / min(computing, copying)
    yield {
        "case": "beside matrix products",
        "GB/s": None,
        "alone s": round(computing, 3),
        "copies s": round(copying, 3),
        "together s": round(together, 3),
        "overlapped": f"{share:.0%}",
        "good": share >= 0.9,
    }


def outside(_: Tool) -> Iterator[Row]:
    """What the driver counts beside PyTorch's own blocks, and what cuBLAS keeps."""
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    beside = total - free - torch.cuda.memory_reserved() - ARENA_BYTES
    yield {"case": "context, kernels, other processes", "MiB": round(beside / MIB)}
    x = torch.randn(1024, 1024, device="cuda", dtype=torch.float16)
    before = torch.cuda.memory_allocated()
    y = x @ x
    kept = torch.cuda.memory_allocated() - before - y.untyped_storage().nbytes()
    yield {"case": "workspace that cuBLAS keeps", "MiB": round(kept / MIB, 2)}


PARTS = {f.__name__: f for f in (placement, threads, refusal, copies, outside)}


def main(part: str, path: str) -> int:
    """Prints a row per case; the exit code is 0 also where rows are not good."""
    for row in PARTS[part](Tool(path)):
        print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
