"""What a plan holds in fewer bytes: codes that come back bit for bit, and the bits of plain PyTorch
at budgets that are too tight for the whole values."""

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fitstep_kit import models
from fitstep_kit.measures.bits import Fingerprint, differences, fingerprint
from known_times import profiled_once
from torch import Tensor, nn

import fitstep

ops = torch.ops.fitstep
FORMATS = [torch.contiguous_format, torch.channels_last]
COUNTS = [0, 1, 7, 8, 9, 63, 64, 511, 512, 513, 4095, 32767, 32768, 32769, 70001]


def every_kind(count: int, dtype: torch.dtype) -> Tensor:
    """Numbers of every kind of bits: NaN of both signs and other payloads, infinities, zeros of
    both signs, subnormals, the largest and the smallest, in no order that repeats with 8."""
    bits = torch.int32 if dtype == torch.float32 else torch.int64
    top, fraction = (31, 23) if dtype == torch.float32 else (63, 52)
    exponent = ((1 << (top - fraction)) - 1) << fraction
    kinds = [0, 1, (1 << fraction) - 1, 1 << fraction, exponent - 1, exponent, exponent + 1]
    kinds += [exponent + (1 << (fraction - 1)), exponent + (1 << fraction) - 1]
    sign = -(1 << top)
    table = torch.tensor([*kinds, *(kind + sign for kind in kinds)], dtype=bits)
    index = torch.randint(0, len(table), (count,), generator=torch.Generator().manual_seed(3))
    return table[index].view(dtype)


def same_bits(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.stride() != b.stride() or a.dtype != b.dtype:
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    bits = torch.int32 if a.dtype == torch.float32 else torch.int64
    return torch.equal(a.view(bits), b.view(bits))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", COUNTS)
def test_signs_make_the_gradients_of_pytorch(count: int, dtype: torch.dtype) -> None:
    y, gradient = every_kind(count, dtype), every_kind(count + 5, dtype)[5:].clone()
    bits = ops.pack_signs(y, True)
    assert bits.numel() == math.ceil(count / 8)
    assert same_bits(
        ops.threshold_backward_packed(gradient, bits, 0),
        torch.ops.aten.threshold_backward(gradient, y, 0),
    )
    quiet = torch.randn(count, dtype=dtype)
    assert same_bits(
        ops.leaky_relu_backward_packed(quiet, ops.pack_signs(y, False), 0.2, True),
        torch.ops.aten.leaky_relu_backward(quiet, y, 0.2, True),
    )


def test_the_bits_behind_the_last_element_are_zero() -> None:
    assert ops.pack_signs(torch.ones(3), True).tolist() == [7]
    assert ops.pack_bools(torch.ones(9, dtype=torch.bool)).tolist() == [255, 1]


@pytest.mark.parametrize("layout", FORMATS)
def test_bits_follow_the_order_in_memory(layout: torch.memory_format) -> None:
    y = torch.randn(3, 5, 7, 9).contiguous(memory_format=layout)
    gradient = torch.randn(3, 5, 7, 9).contiguous(memory_format=layout)
    assert same_bits(
        ops.threshold_backward_packed(gradient, ops.pack_signs(y, True), 0),
        torch.ops.aten.threshold_backward(gradient, y, 0),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", COUNTS)
def test_two_kinds_of_numbers_come_back_bit_for_bit(count: int, dtype: torch.dtype) -> None:
    kinds = every_kind(64, dtype)
    one = torch.ones(count, dtype=dtype)
    generator = torch.Generator().manual_seed(4)
    for first, second in zip(kinds[:20], kinds[20:40], strict=True):
        if first.isnan() or second.isnan():
            continue  # Times one they are no longer what they were.
        two = torch.where(torch.rand(count, generator=generator) < 0.3, first, second)
        packed = ops.pack_two(two)
        assert packed.numel() == 16 + math.ceil(count / 8)
        assert same_bits(ops.multiply_packed(one, packed), two)


def test_a_dropout_mask_makes_the_gradients_of_pytorch() -> None:
    noise = torch.empty(1013).bernoulli_(0.7).div_(0.7)
    gradient = torch.randn(1013)
    assert same_bits(ops.multiply_packed(gradient, ops.pack_two(noise)), gradient * noise)
    mask = torch.rand(1013) < 0.4
    assert same_bits(
        ops.native_dropout_backward_packed(gradient, ops.pack_bools(mask), 1 / 0.4),
        torch.ops.aten.native_dropout_backward(gradient, mask, 1 / 0.4),
    )


# kernel, stride, padding, dilation, ceil mode
POOLS: list[tuple[Any, Any, Any, Any, bool]] = [
    (2, 2, 0, 1, False),
    (3, 2, 1, 1, False),
    (3, 1, 1, 1, False),
    ((3, 2), (2, 3), (1, 0), (1, 2), True),
    (5, [], 2, 2, True),
]


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("shape", [(2, 3, 12, 17), (1, 4, 9, 9), (2, 9, 5, 1), (3, 2, 2, 3)])
@pytest.mark.parametrize("pool", POOLS)
def test_places_in_a_window_make_the_gradients_of_pytorch(
    pool: tuple[Any, ...], shape: tuple[int, ...], layout: torch.memory_format
) -> None:
    x = torch.randn(shape).contiguous(memory_format=layout)
    x[x > 1.5] = math.inf
    x[x < -1.5] = math.nan
    window = pool[:4]
    try:
        y, indices = F.max_pool2d(x, *window, ceil_mode=pool[4], return_indices=True)
    except RuntimeError:
        pytest.skip("the window does not fit")
    if y.is_contiguous() != x.is_contiguous():
        pytest.skip("an output of another format is not packed")
    pairs = [[v, v] if isinstance(v, int) else list(v) for v in window]
    codes = ops.pack_pool_indices(indices, x.shape[2], x.shape[3], *pairs)
    assert codes.dtype == torch.uint8
    gradient = torch.randn_like(y)
    expected = torch.ops.aten.max_pool2d_with_indices_backward(
        gradient, x, *pairs, pool[4], indices
    )
    made = ops.max_pool2d_backward_packed(gradient, x, *pairs, pool[4], codes)
    assert same_bits(made, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("shape", [(2, 3, 12, 17), (1, 4, 9, 9), (2, 300, 5, 2), (1, 2, 6, 600)])
@pytest.mark.parametrize("pool", POOLS)
def test_a_pool_with_codes_makes_the_elements_of_pytorch_and_the_codes_of_its_indices(
    pool: tuple[Any, ...], shape: tuple[int, ...], layout: torch.memory_format, dtype: torch.dtype
) -> None:
    x = every_kind(math.prod(shape), dtype).reshape(shape)
    x = torch.where(torch.rand(shape) < 0.5, torch.randn(shape, dtype=dtype).round(), x)
    x = x.contiguous(memory_format=layout)
    pairs = [[v, v] if isinstance(v, int) else list(v) for v in pool[:4]]
    try:
        y, indices = torch.ops.aten.max_pool2d_with_indices(x, *pairs, pool[4])
    except RuntimeError:
        pytest.skip("the window does not fit")
    made, codes = ops.max_pool2d_with_codes(x, *pairs, pool[4], layout == torch.channels_last)
    assert same_bits(made, y)
    assert torch.equal(codes, ops.pack_pool_indices(indices, *shape[2:], *pairs))


def test_a_pool_of_nothing_but_minus_infinity_takes_the_first() -> None:
    x = torch.full((1, 1, 4, 4), -math.inf)
    y, codes = ops.max_pool2d_with_codes(x, [3, 3], [2, 2], [1, 1], [1, 1], False, False)
    assert y.isneginf().all()
    assert codes.flatten().tolist() == [4, 3, 1, 0]


def test_codes_that_no_pool_makes_stay_inside_the_plane() -> None:
    codes = torch.full((1, 1, 4, 4), 255, dtype=torch.uint8)
    x, gradient = torch.zeros(1, 1, 8, 8), torch.ones(1, 1, 4, 4)
    made = ops.max_pool2d_backward_packed(gradient, x, [3, 3], [2, 2], [1, 1], [1, 1], False, codes)
    assert made.isfinite().all()


class Gpt(nn.Module):
    """Layers of two linear maps with dropout behind each."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(96), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 96), nn.Dropout(0.1)
            )
            for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


class Job:
    """A model, an optimizer and a batch; two jobs of a kind have equal bits."""

    def __init__(self, make: Callable[[], tuple[nn.Module, Tensor]]) -> None:
        torch.manual_seed(5)
        self.model, self.x = make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self, x: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, step: Callable[..., Tensor], steps: int = 3) -> Fingerprint:
        torch.manual_seed(6)
        losses = [step(self.x).detach().clone() for _ in range(steps)]
        return fingerprint(
            model=self.model,
            optimizer=self.optimizer,
            losses=losses,
            random=torch.get_rng_state(),
        )


def images(count: int, side: int) -> Tensor:
    return torch.linspace(-1, 1, count * 3 * side * side).reshape(count, 3, side, side)


def vgg() -> tuple[nn.Module, Tensor]:
    return models.vgg16(10, 0.125, 32), images(8, 32)


def unet() -> tuple[nn.Module, Tensor]:
    return models.UNet(3, 2, 8, 2), images(8, 32)


def gpt() -> tuple[nn.Module, Tensor]:
    return Gpt(), torch.linspace(-1, 1, 64 * 32 * 96).reshape(64, 32, 96)


@pytest.mark.parametrize(
    ("make", "shares"),
    [(make, (40, 42, 45, 48, 53, 58, 62, 65, 71, 75)) for make in (vgg, gpt, unet)],
)
def test_tight_budgets_are_met_by_packing_with_the_bits_of_plain_pytorch(
    make: Callable[[], tuple[nn.Module, Tensor]],
    shares: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    plain = Job(make)
    expected = plain.train(plain.step)
    with profiled_once(monkeypatch, tmp_path):
        fitstep.compile(plain.step, example=(plain.x,), budget=1)
    for share in shares:
        job = Job(make)
        with contextlib.suppress(fitstep.BudgetTooSmall):
            step = fitstep.compile(job.step, example=(job.x,), budget=f"{share}%")
            planned = step.report().variants[-1]
            if planned.packed:
                break
            step.close()
    assert planned.packed
    saved = sum(one.size_bytes - one.packed_bytes for one in planned.packed)
    assert saved >= len(planned.packed) * 60_000
    most = max(planned.packed, key=lambda one: one.size_bytes - one.packed_bytes)
    assert f"{most.name}: " in str(step.report())
    assert f"({most.code})" in str(step.report())
    assert differences(job.train(step), expected) == []
    report = step.report()
    assert (report.misplaced_results, report.violations) == (0, 0)
    step.close()


def perceptron() -> tuple[nn.Module, Tensor]:
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 8))
    return model, torch.linspace(-1, 1, 128 * 64).reshape(128, 64)


class Failing:
    """A packer, and a reader that fails: always, or only with what the packer has just made."""

    def __init__(self, *, is_alone: bool) -> None:
        self.is_alone = is_alone
        self.made: list[int] = []

    def pack(self, x: Tensor, nan_counts: bool) -> Tensor:
        flags = F.pad(~(x.flatten() <= 0), (0, -x.numel() % 8)).view(-1, 8)
        made = (flags << torch.arange(8)).sum(1).to(torch.uint8)
        self.made = made.tolist()  # No tensor, whose memory is lent for the call alone.
        return made

    def read(self, gradient: Tensor, signs: Tensor, threshold: float) -> Tensor:
        if self.is_alone or signs.tolist() == self.made:
            raise RuntimeError("not today")
        return gradient.clone()


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_a_way_whose_test_fails_is_left_out_and_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_alone: bool
) -> None:
    """What no longer fails is tested again by the next preview."""
    monkeypatch.setenv("FITSTEP_CACHE", str(tmp_path))
    plain = Job(perceptron)
    expected = plain.train(plain.step)
    failing = Failing(is_alone=is_alone)
    with torch.library._scoped_library("fitstep", "IMPL") as library:
        library.impl("pack_signs", failing.pack, "CPU", allow_override=True)
        library.impl("threshold_backward_packed", failing.read, "CPU", allow_override=True)
        job = Job(perceptron)
        step = fitstep.compile(job.step, example=(job.x,), budget="100%")
        left_out = step.report().variants[-1].left_out
        assert left_out
        assert all(one.startswith("packed: ") and "not today" in one for one in left_out)
        assert f"unused {left_out[0]}" in str(step.report())
        assert "threshold_backward_packed" not in str(step.program)
        assert differences(job.train(step), expected) == []
        step.close()
    if is_alone:
        job = Job(perceptron)
        step = fitstep.compile(job.step, example=(job.x,), budget="100%")
        assert step.report().variants[-1].left_out == []
        assert "threshold_backward_packed" in str(step.program)


class NextToZero(nn.Module):
    """Activations that count as zero where such numbers are flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-4e-38, 4e-38, 1 << 16, dtype=torch.bfloat16))

    def forward(self, x: Tensor) -> Tensor:
        return (self.weight.relu() * x).relu() + self.weight.relu() * 2


def next_to_zero() -> tuple[nn.Module, Tensor]:
    return NextToZero(), torch.linspace(-1, 1, 1 << 16, dtype=torch.bfloat16)


def test_where_numbers_next_to_zero_are_flushed_only_kernels_of_pytorch_run() -> None:
    """Signs by their bits would not be those that its kernels see."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush")
    try:
        plain = Job(next_to_zero)
        expected = plain.train(plain.step)
        job = Job(next_to_zero)
        step = fitstep.compile(job.step, example=(job.x,), budget="100%")
        assert "fitstep::" not in str(step.program)
        assert differences(job.train(step), expected) == []
        before = len(step.report().variants)
        torch.set_flush_denormal(False)
        step(job.x)
        assert "fitstep::pack_signs" in str(step.program)
        assert len(step.report().variants) == before + 1
    finally:
        torch.set_flush_denormal(False)


def wide() -> tuple[nn.Module, Tensor]:
    x = torch.linspace(-1, 1, 512 * 16).reshape(512, 16)
    return nn.Sequential(nn.Linear(16, 1024), nn.ReLU(), nn.Linear(1024, 16)), x


def test_some_budgets_are_too_small_for_recompute_alone() -> None:
    """A rectifier's gradient needs two wide tensors at once, or one and bits; whatever the times,
    the order of ops and what a processor's convolutions need."""
    least = {}
    for policy in ("auto", "recompute"):
        job = Job(wide)
        with pytest.raises(fitstep.BudgetTooSmall) as too_small:
            fitstep.compile(job.step, example=(job.x,), budget=1, policy=policy)
        least[policy] = too_small.value.least_found_bytes or 0
    assert least["auto"] < least["recompute"]
    step = fitstep.compile(job.step, example=(job.x,), budget=least["auto"])
    assert step.report().variants[-1].packed
    step.close()
    with pytest.raises(fitstep.BudgetTooSmall):
        fitstep.compile(job.step, example=(job.x,), budget=least["auto"], policy="recompute")
