"""The comparison itself: it sees one bit, one name, one random number; plain runs repeat."""

import math

import pytest
import torch
from fitstep_kit.measures.bits import differences, fingerprint
from fitstep_kit.measures.plain import held_bytes, plain_peak_bytes
from fitstep_kit.subjects.cases import CASES, build
from fitstep_kit.subjects.equal_bits import drive, plain_peak, train_plain
from torch import nn

# One model of each family; every feature that draws numbers or keeps state.
REPEATED = (
    "mlp", "resnet50_channels_last", "unet", "gpt_checkpointed", "lstm", "dcgan",
    "onecycle_inside", "micro_across", "resume_between", "validation",
)  # fmt: skip


def test_one_bit_is_a_difference() -> None:
    ones = torch.ones(3)
    nudged = ones.clone()
    nudged.view(torch.int32)[1] ^= 1
    assert differences(fingerprint(x=ones), fingerprint(x=nudged)) == ["x"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (torch.tensor(0.0), torch.tensor(-0.0)),
        (torch.zeros(2), torch.zeros(2, 1)),
        (torch.zeros(2, dtype=torch.int32), torch.zeros(2)),
        (0.0, -0.0),
        (1, True),
        ([1, 2], [1]),
        ({"a": 1}, {"b": 1}),
    ],
)
def test_unequal_values_differ(left: object, right: object) -> None:
    assert differences(fingerprint(x=left), fingerprint(x=right))


def test_equal_bits_in_another_layout_are_equal() -> None:
    images = torch.randn(2, 3, 4, 4)
    other = images.contiguous(memory_format=torch.channels_last)
    not_a_number = float("nan")
    assert not differences(fingerprint(x=images), fingerprint(x=other))
    assert not differences(fingerprint(x=not_a_number), fingerprint(x=math.nan))


def test_buffers_and_optimizer_state_count() -> None:
    model = nn.BatchNorm1d(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = fingerprint(model=model, optimizer=optimizer)
    model(torch.randn(4, 2)).sum().backward()
    optimizer.step()
    changed = differences(before, fingerprint(model=model, optimizer=optimizer))
    assert "model/running_mean" in changed
    assert "model/bias" in changed
    assert "optimizer/state/0/momentum_buffer" in changed


@pytest.mark.parametrize("case", REPEATED)
def test_plain_training_repeats_its_bits(case: str) -> None:
    """Without this a difference would not be fitstep's."""
    trainee = build(CASES[case], tiny=True)
    again = drive(trainee, [function.call for function in trainee.functions], 8)
    assert not differences(again.bits, train_plain(case).bits)
    assert all(math.isfinite(loss) for loss in again.losses)


@pytest.mark.parametrize("case", REPEATED)
def test_every_step_changes_the_bits(case: str) -> None:
    """A case whose model does not move would compare nothing."""
    shorter = train_plain(case, steps=7)
    assert differences(shorter.bits, train_plain(case).bits)


# One linear layer on 1024 x 256 floats, relu in place; everything in KiB:
#
#   held before      x 1024, w 256
#   forward          y 1024 (relu in place: one storage), mean 0
#   mean backward    dy 1024
#   relu backward    dh 1024 beside dy and y          <- peak: 1280 + 3 * 1024
#   weight gradient  dw 256 beside dh and y (dy is dead)
def test_plain_peak_of_one_layer_is_the_sum_of_its_tensors() -> None:
    kib = 1024
    x = torch.randn(1024, 256)
    layer = nn.Linear(256, 256, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        y = layer(x).relu_()
        y.mean().backward()
        optimizer.step()
        return y

    step()
    optimizer.zero_grad()
    assert held_bytes(layer, optimizer, x) == 1280 * kib
    scalars = 2 * 4  # The mean and its gradient, both alive then.
    expected = (1280 + 3 * 1024) * kib + scalars
    # Requests may be rounded up to whole cache lines, once fitstep's allocator is in place.
    assert expected <= plain_peak_bytes(step, layer, optimizer, x) <= expected + kib


def test_plain_peak_grows_with_the_case() -> None:
    assert plain_peak("mlp") > held_bytes(build(CASES["mlp"], tiny=True).models)
