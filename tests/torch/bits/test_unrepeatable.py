"""Operators that do not repeat their own bits are kept, never recomputed, and named."""

import os
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

import fitstep

# A byte for each: a kernel that keeps its count in Python would be no part of a program.
_calls = os.memfd_create("calls")


def _noise(x: Tensor) -> Tensor:
    os.write(_calls, b".")
    return x + time.perf_counter_ns() % 1009


def _count() -> int:
    return os.fstat(_calls).st_size


@pytest.fixture
def moody() -> Iterator[torch.library.CustomOpDef]:
    """An operator whose result depends on when it is called."""
    op = torch.library.custom_op("fitstep_test::moody", _typed(_noise), mutates_args=())
    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, grad: grad)
    fitstep.declare_pure("fitstep_test::moody")  # It is not, and shall be found.
    yield op


def _typed(function: object) -> object:
    def moody(x: torch.Tensor) -> torch.Tensor:
        return function(x)

    return moody


def test_it_is_named_and_runs_once_in_any_budget(moody: torch.library.CustomOpDef) -> None:
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(8))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        for layer in layers:
            x = torch.tanh(moody(torch.tanh(layer(x))))
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    example = torch.randn(512, 64)
    with pytest.raises(fitstep.BudgetTooSmall) as refused:
        fitstep.compile(step, example=(example,), budget=1)
    assert all("fitstep_test::moody" in name for name in refused.value.unrepeatable)
    assert "in plain PyTorch are never recomputed: fitstep_test::moody" in str(refused.value)
    compiled = fitstep.compile(step, example=(example,), budget=refused.value.least_found_bytes)
    assert all("fitstep_test::moody" in name for name in compiled.unrepeatable)
    assert any(f"{__file__}:" in name for name in compiled.unrepeatable)
    before = _count()
    compiled(example)
    assert _count() == before + len(layers), "kept, not made again"
    compiled.close()


def test_check_says_which_operator_makes_the_difference(
    moody: torch.library.CustomOpDef,
) -> None:
    layer = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = moody(layer(x)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = fitstep.compile(step, example=(torch.randn(4, 8),), budget="1MiB")
    with pytest.raises(fitstep.FitstepError, match=r"do not repeat their own bits: .*moody"):
        compiled.check()
    compiled.close()


def step_with(compute: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A step through an operator that computes so; its name is the function's."""
    name = f"fitstep_test::{compute.__name__}"
    op = torch.library.custom_op(name, compute, mutates_args=())
    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, grad: grad)
    layer = nn.Linear(8, 8)

    def step(x: Tensor) -> Tensor:
        loss: Tensor = op(layer(x)).square().mean()
        loss.backward()
        return loss

    return step


def test_what_reads_memory_that_nobody_wrote_is_named() -> None:
    def reads_unwritten(x: torch.Tensor) -> torch.Tensor:
        return x + 0 * torch.empty(x.shape)  # Equal bits, until there is NaN in it.

    step = step_with(reads_unwritten)
    fitstep.declare_pure("fitstep_test::reads_unwritten")
    compiled = fitstep.compile(step, (torch.randn(4, 8),), budget="1MiB")
    assert [name.split()[0] for name in compiled.unrepeatable] == ["fitstep_test::reads_unwritten"]
    compiled.close()


def test_a_kernel_that_keeps_a_count_runs_once_per_call_and_in_its_turn() -> None:
    counts: list[int] = []

    def counting(x: torch.Tensor) -> torch.Tensor:
        counts.append(len(counts))
        return x * (1 + len(counts))

    compiled = fitstep.compile(step_with(counting), (torch.randn(4, 8),))
    assert counts == []
    compiled(torch.randn(4, 8))
    compiled(torch.randn(4, 8))
    assert counts == [0, 1]
    assert compiled.unrepeatable == []
    compiled.close()


def test_what_is_declared_pure_is_a_part_of_programs() -> None:
    def doubled_twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2 * 2

    step = step_with(doubled_twice)
    apart = fitstep.compile(step, (torch.randn(4, 8),))
    assert "doubled_twice" not in str(apart.program)
    apart.close()
    fitstep.declare_pure("fitstep_test::doubled_twice", torch.ops.fitstep_test.doubled_twice)
    together = fitstep.compile(step, (torch.randn(4, 8),))
    assert "doubled_twice" in str(together.program)
    x = torch.randn(4, 8)
    assert torch.equal(together(x), step(x).detach())
    together.close()


@pytest.mark.parametrize("name", ["fitstep_test::nobody", "nobody", 3, torch.add])
def test_what_is_no_operator_cannot_be_declared(name: object) -> None:
    with pytest.raises(fitstep.FitstepError, match="is no operator"):
        fitstep.declare_pure(name)


def test_who_asks_for_too_small_a_budget_hears_of_operators_that_are_not_planned() -> None:
    def not_planned(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    with pytest.raises(fitstep.BudgetTooSmall) as refused:
        fitstep.compile(step_with(not_planned), (torch.randn(64, 8),), budget=1)
    assert any("fitstep_test::not_planned run between" in n for n in refused.value.__notes__)
