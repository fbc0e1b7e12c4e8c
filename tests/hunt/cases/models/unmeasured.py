"""Operators that cannot be measured: their kernels refuse made-up data, or keep what they took."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from kit import case
from torch import Tensor
from worlds import Bench, sgd

_kept: list[Tensor] = []


@functools.cache
def checked() -> Any:
    """Takes only rows that sum to 1, and says nowhere what it makes."""

    def compute(rows: Tensor) -> Tensor:
        if not torch.allclose(rows.sum(1), torch.ones(len(rows))):
            raise ValueError("rows have to sum to 1")
        return rows * 2

    return _registered("checked", compute)


@functools.cache
def keeping() -> Any:
    """Keeps memory from call to call."""

    def compute(rows: Tensor) -> Tensor:
        _kept[:] = [rows * 3]
        return rows * 2

    return _registered("keeping", compute)


@functools.cache
def in_parts() -> Any:
    """Takes other scratch from call to call."""
    sizes = [64 * k for k in range(1, 99)]

    def compute(rows: Tensor) -> Tensor:
        return rows * 2 + torch.zeros(sizes.pop()).sum()

    return _registered("in_parts", compute)


_names = itertools.count()


def _registered(name: str, compute: Callable[[Tensor], Tensor], *, has_fake: bool = False) -> Any:
    name = f"{name}_{next(_names)}"

    def kernel(rows: torch.Tensor) -> torch.Tensor:
        return compute(rows)

    op = torch.library.custom_op(f"hunt_unmeasured::{name}", kernel, mutates_args=())
    if has_fake:
        op.register_fake(torch.empty_like)
    op.register_autograd(lambda _ctx, grad: grad * 2)
    return op


def _trained(op: Any) -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.nll_loss(op(b.model(x).softmax(1)).log(), y))

    return b.world(step)


def with_a_table() -> Any:
    """Keeps a table by length, as rotary embeddings do."""
    tables: dict[int, Tensor] = {}

    def compute(rows: Tensor) -> Tensor:
        if rows.shape[1] not in tables:
            tables[rows.shape[1]] = torch.linspace(1, 2, rows.shape[1])
        return rows * tables[rows.shape[1]]

    return _registered("with_a_table", compute, has_fake=True)


def with_a_generator() -> Any:
    """Draws from a generator of its own."""
    generator = torch.Generator().manual_seed(3)

    def compute(rows: Tensor) -> Tensor:
        return rows * (1 + torch.rand(rows.shape, generator=generator))

    return _registered("with_a_generator", compute, has_fake=True)


def averaging() -> Any:
    """Reads what it has kept."""
    kept: list[Tensor] = []

    def compute(rows: Tensor) -> Tensor:
        made = rows * 2 + (kept[-1] if kept else 0)
        kept[:] = [made]
        return made

    return _registered("averaging", compute, has_fake=True)


@case("unmeasured")
def an_operator_that_checks_its_rows() -> Any:
    return _trained(checked())


@case("unmeasured")
def an_operator_that_keeps_memory() -> Any:
    return _trained(keeping())


@case("unmeasured")
def an_operator_that_keeps_a_table() -> Any:
    return _trained(with_a_table())


@case("unmeasured")
def an_operator_that_draws_from_a_generator_of_its_own() -> Any:
    return _trained(with_a_generator())


@case("unmeasured")
def an_operator_that_reads_what_it_has_kept() -> Any:
    return _trained(averaging())


@case("unmeasured")
def an_operator_with_scratch_of_any_size() -> Any:
    return _trained(in_parts())


@case("unmeasured")
def an_operator_that_checks_its_rows_from_the_third_call_on() -> Any:
    b, op = Bench(make=sgd), checked()

    def step(x: Tensor, y: Tensor) -> Tensor:
        rows = b.model(x).softmax(1)
        b.log.append(len(b.log))
        return b.update(F.nll_loss((op(rows) if len(b.log) > 2 else rows).log(), y))

    return b.world(step)


@case("unmeasured")
def an_operator_whose_error_is_the_user_s() -> Any:
    b, op = Bench(make=sgd), checked()

    def step(x: Tensor, y: Tensor) -> float:
        try:
            made = op(b.model(x))  # Their sum is no 1.
        except ValueError:
            made = b.model(x)
        return b.update(F.cross_entropy(made, y)).item()

    return b.world(step)


@case("unmeasured")
def segments_of_other_lengths_at_each_call() -> Any:
    b = Bench(make=sgd)
    lengths = [[1, 2, 3], [2, 2, 2], [3, 2, 1], [1, 1, 4], [4, 1, 1]]

    def step(x: Tensor, y: Tensor) -> Tensor:
        of = torch.tensor(lengths[len(b.log)])
        b.log.append(of.tolist())
        pooled = torch.segment_reduce(b.model(x), "sum", lengths=of, axis=0)
        return b.update(F.cross_entropy(pooled, y[:3]))

    return b.world(step)


@case("unmeasured")
def a_factor_by_the_old_name() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        h = b.model(x)
        factor = torch.ops.aten.cholesky.default(h.t() @ h + torch.eye(4))
        return b.update(F.cross_entropy(h @ factor, y))

    return b.world(step)


@case("unmeasured")
def a_jagged_batch_that_is_padded() -> Any:
    b, ends = Bench(), torch.tensor([0, 2, 6])

    def step(x: Tensor, y: Tensor) -> Tensor:
        jagged = torch.nested.nested_tensor_from_jagged(b.model(x), ends)
        padded = jagged.to_padded_tensor(0.0)
        return b.update(F.cross_entropy(padded.flatten(0, 1)[:6], y))

    return b.world(step)
