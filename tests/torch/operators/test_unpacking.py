"""Kernels of PyTorch's that are given the whole of a code again: all types, layouts and shapes, and
the bits of plain PyTorch at budgets where only codes wait."""

import contextlib
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from fitstep_kit.measures.bits import Fingerprint, differences, fingerprint
from known_times import profiled_once
from torch import Tensor, nn

import fitstep

ops = torch.ops.fitstep
aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
HALVES = [torch.bfloat16, torch.float16]


def geometry(whole: Tensor, bound: int = 0) -> tuple[list[int], list[int], torch.dtype, int]:
    return list(whole.shape), list(whole.stride()), whole.dtype, bound


def bits_of(tensor: Tensor) -> Tensor:
    of_size = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(of_size[tensor.element_size()])


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.stride() == b.stride() and torch.equal(bits_of(a), bits_of(b))


def all_halves(dtype: torch.dtype) -> Tensor:
    """Every number of that type, all kinds of NaN too."""
    return torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_signs_of_all_halves_are_those_that_kernels_see(dtype: torch.dtype) -> None:
    y = all_halves(dtype)
    gradient = torch.randn(len(y)).to(dtype)
    made = ops.threshold_backward_unpacked(gradient, ops.pack_signs(y, True), 0, *geometry(y))
    assert same_bits(made, aten.threshold_backward(gradient, y, 0))
    signs = ops.pack_signs(y, False)
    made = ops.leaky_relu_backward_unpacked(gradient, signs, 0.2, True, *geometry(y))
    assert same_bits(made, aten.leaky_relu_backward(gradient, y, 0.2, True))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_gradient_may_be_nan_and_lie_otherwise(dtype: torch.dtype) -> None:
    y = torch.randn(3, 5, 7, 9).to(dtype).contiguous(memory_format=torch.channels_last)
    gradient = torch.randn(3, 5, 7, 9).to(dtype)
    gradient[gradient > 1] = math.nan
    made = ops.threshold_backward_unpacked(gradient, ops.pack_signs(y, True), 0, *geometry(y))
    assert same_bits(made, aten.threshold_backward(gradient, y, 0))


@pytest.mark.parametrize("dtype", HALVES)
def test_two_halves_come_back_bit_for_bit(dtype: torch.dtype) -> None:
    gradient = torch.randn(1013).to(dtype)
    for share in (0.0, 0.3, 1.0):
        noise = torch.empty(1013, dtype=dtype).bernoulli_(share)
        noise.div_(0.7)
        packed = ops.pack_two(noise)
        assert packed.numel() == 16 + 127
        made = ops.multiply_unpacked(gradient, packed, *geometry(noise))
        assert same_bits(made, gradient * noise)


@pytest.mark.parametrize("dtype", FLOATS)
def test_masks_choose_as_before(dtype: torch.dtype) -> None:
    a, b = torch.randn(4, 6, 11).to(dtype), torch.randn(6, 1).to(dtype)
    masks = [torch.rand(4, 6, 11) < 0.4, torch.rand(11, 6).t() < 0.4, torch.rand(11) < 0.4]
    for mask in masks:
        bits = ops.pack_bools(mask)
        assert bits.numel() == math.ceil(mask.numel() / 8)
        assert same_bits(ops.where_unpacked(bits, a, b, *geometry(mask)), torch.where(mask, a, b))
        filled = ops.masked_fill_unpacked(a, bits, 0.5, *geometry(mask))
        assert same_bits(filled, a.masked_fill(mask, 0.5))
    a = a[:, :, :1].expand(4, 6, 11)
    made = ops.native_dropout_backward_unpacked(
        a, ops.pack_bools(masks[0]), 2.5, *geometry(masks[0])
    )
    assert same_bits(made, aten.native_dropout_backward(a, masks[0], 2.5))


@pytest.mark.parametrize(("bound", "width"), [(1, 1), (256, 1), (257, 2), (65536, 2), (65537, 4)])
def test_indices_keep_as_many_bytes_as_their_bound_needs(bound: int, width: int) -> None:
    index = torch.randint(0, bound, (1, 40_000))
    index[0, :2] = torch.tensor([0, bound - 1])
    code = ops.narrow_indices(index, bound)
    assert code.numel() == width * index.numel()
    zeros, source = torch.zeros(1, bound), torch.ones(1, 40_000)
    expected = zeros.scatter(1, index, source)
    made = ops.scatter_unpacked(zeros, 1, code, source, *geometry(index, bound))
    assert torch.equal(made, expected)
    here = zeros.clone()
    ops.scatter_unpacked_(here, 1, code, source, *geometry(index, bound))
    assert torch.equal(here, expected)


@pytest.mark.parametrize("wrong", [-1, 300, 1 << 40])
def test_an_index_out_of_its_bound_is_an_error_and_no_other_index(wrong: int) -> None:
    index = torch.zeros(70_000, dtype=torch.int64)
    index[69_999] = wrong
    with pytest.raises(IndexError, match="size 300"):
        ops.narrow_indices(index, 300)


def test_codes_of_other_tensors_are_refused() -> None:
    mask = torch.rand(64) < 0.5
    with pytest.raises(RuntimeError, match="code of another tensor"):
        ops.where_unpacked(ops.pack_bools(mask)[:7], mask.float(), mask.float(), *geometry(mask))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pools_of_all_kinds_have_the_gradients_of_pytorch(dtype: torch.dtype) -> None:
    planes, volumes = torch.randn(2, 3, 20, 18).to(dtype), torch.randn(2, 3, 6, 7, 9).to(dtype)
    pair, triple = (
        ([3, 3], [2, 2], [1, 1], [1, 1], False),
        ([2] * 3, [2] * 3, [0] * 3, [1] * 3, True),
    )
    pools: list[tuple[str, Tensor, tuple[object, ...], tuple[Tensor, Tensor]]] = [
        ("max_pool2d", planes, pair, aten.max_pool2d_with_indices(planes, *pair)),
        ("max_pool3d", volumes, triple, aten.max_pool3d_with_indices(volumes, *triple)),
        ("adaptive_max_pool2d", planes, (), aten.adaptive_max_pool2d(planes, [3, 5])),
        ("adaptive_max_pool3d", volumes, (), aten.adaptive_max_pool3d(volumes, [2, 3, 5])),
    ]
    for name, x, window, (y, indices) in pools:
        bound = math.prod(x.shape[2:])
        code = ops.narrow_indices(indices, bound)
        gradient = torch.randn(y.shape).to(dtype)
        plain = name if name.startswith("adaptive") else f"{name}_with_indices"
        expected = getattr(aten, f"{plain}_backward")(gradient, x, *window, indices)
        unpacked = getattr(ops, f"{name}_backward_unpacked")
        assert same_bits(
            unpacked(gradient, x, *window, code, *geometry(indices, bound)), expected
        ), name


class Masks(nn.Module):
    """Piecewise functions written by hand, of masks that are made in the step."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            y = layer(x)
            x = torch.where(y > 0, y, y * 0.1) if i % 2 else x + y.masked_fill(y < 0, 0)
        return x


class Points(nn.Module):
    """Features of points, the largest of each cloud: indices of maxima wait."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        best = []
        for layer in self.layers:
            x = layer(x)
            best.append(x.view(-1, 4, 64).max(1).values)
        return torch.stack(best)


class Volumes(nn.Module):
    """Pools that are no max_pool2d, behind convolutions whose results nobody needs again."""

    def __init__(self) -> None:
        super().__init__()
        self.deep = nn.ModuleList(nn.Conv3d(1, 8, 3, padding=1) for _ in range(4))
        self.flat = nn.ModuleList(nn.Conv2d(16, 8, 3, padding=1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        best = [F.max_pool3d(layer(x), 2).flatten() for layer in self.deep]
        best += [F.adaptive_max_pool2d(layer(x.squeeze(1)), 16).flatten() for layer in self.flat]
        return torch.cat(best)


class Halves(nn.Module):
    """Convolutions under autocast: what waits has two bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.last = nn.Conv2d(32, 32, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            x = F.max_pool2d(F.relu(self.first(x)), 2)
            x = F.dropout(F.leaky_relu(self.second(x)), 0.2)
            return F.relu(self.last(x)).float()


class Job:
    """A model, an optimizer and a batch; two jobs of a kind have equal bits."""

    def __init__(self, make: type[nn.Module], x: Tensor) -> None:
        torch.manual_seed(5)
        self.model, self.x = make(), x
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self, x: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss: Tensor = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, step: Callable[..., Tensor]) -> Fingerprint:
        torch.manual_seed(6)
        losses = [step(self.x).detach().clone() for _ in range(3)]
        return fingerprint(
            model=self.model,
            optimizer=self.optimizer,
            losses=losses,
            random=torch.get_rng_state(),
        )


def range_of(*sizes: int) -> Tensor:
    return torch.linspace(-1, 1, math.prod(sizes)).reshape(sizes).sin()


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (Masks, (4096, 128)),
        (Points, (16384, 64)),
        (Volumes, (8, 1, 16, 32, 32)),
        (Halves, (8, 3, 64, 64)),
    ],
)
def test_tight_budgets_are_met_with_the_bits_of_plain_pytorch(
    make: type[nn.Module],
    sizes: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    x = range_of(*sizes)
    plain = Job(make, x)
    expected = plain.train(plain.step)
    with profiled_once(monkeypatch, tmp_path):
        fitstep.compile(plain.step, example=(x,), budget=1)
    packed = 0
    for budget in ("47%", "50%", "54%", "60%", "65%", "70%"):
        job = Job(make, x)
        with contextlib.suppress(fitstep.BudgetTooSmall):
            step = fitstep.compile(job.step, example=(job.x,), budget=budget)
            planned = step.report().variants[-1]
            if len(planned.packed) > packed:
                packed = len(planned.packed)
                assert differences(job.train(step), expected) == []
                report = step.report()
                assert (report.misplaced_results, report.violations) == (0, 0)
            step.close()
    assert packed > 1
