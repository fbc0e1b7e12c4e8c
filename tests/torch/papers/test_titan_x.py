"""Times of vDNN's machine: calibrated on its figure of VGG-E's layers, and how far off."""

import re

import pytest
from fitstep_kit.programs.capture import STORED, capture, zstd

from benchmarks.papers.families import ALL
from benchmarks.papers.titan_x import (
    LAUNCH_S,
    MEMORY_BYTES_PER_S,
    Rates,
    Work,
    calibrated,
    errors,
    fitted,
    layers_of_vgg,
    timed,
)
from fitstep import _core


@pytest.fixture(scope="module")
def vgg() -> str:
    return zstd("-dc", (STORED / "vgg-e-64.program.zst").read_bytes()).decode()


@pytest.mark.parametrize(
    ("kind", "way", "total_ms", "mean", "most"),
    [
        # The sums of the figure's bars. The largest error of the backward pass is conv1's, whose
        # three input channels make it slow for its bytes; all others are within 23 %.
        ("convolution", "forward", 320.9, 0.11, 0.23),
        ("convolution", "backward", 799.7, 0.12, 0.44),
        ("linear", "forward", 11.3, 0.11, 0.20),
        ("linear", "backward", 18.4, 0.08, 0.23),
    ],
)
def test_layers_of_vgg_e_are_as_close_as_this(
    vgg: str, kind: str, way: str, total_ms: float, mean: float, most: float
) -> None:
    works = layers_of_vgg(vgg)
    layers, rates = works[kind, way], calibrated(works)[kind, way]
    ours = sum(rates.seconds(w.flops, w.size_bytes) for w in layers)
    assert 1e3 * ours == pytest.approx(total_ms, rel=1e-6)
    found = [abs(error) for error in errors(layers, rates)]
    assert len(found) == {"convolution": 16, "linear": 3}[kind]
    assert sum(found) / len(found) < mean
    assert max(found) < most


def test_rates_that_fit_exactly_are_found() -> None:
    truth = Rates(per_flop=2e-12, per_byte=3e-11)
    amounts = [(10**12, 10**9), (10**11, 10**10), (5 * 10**11, 10**8)]
    works = [Work(*amount, seconds=truth.seconds(*amount)) for amount in amounts]
    found = fitted(works, uses_bytes=True)
    assert found.per_flop == pytest.approx(truth.per_flop)
    assert found.per_byte == pytest.approx(truth.per_byte)
    assert errors(works, found) == pytest.approx([0, 0, 0], abs=1e-9)


PROGRAM = """\
fitstep program 1
call 0 "aten::convolution"
storage 0 "x" 64 input start recorded 0-2
storage 1 "a" 64 temporary recorded 0-2
op 0 "aten::convolution" convolution source "net.0" "net.py" 1 flops 1000000000 bytes 1000
form "default" call 0 pure reads 0.0 writes 1.1
form "slower" call 0 time 7 pure reads 0.0 writes 1.1
op 1 "aten::relu_" activation bytes 2688000
form "default" time 5 reads 1.1 writes 1.2
end calls 1 storages 2 ops 2
"""


def test_every_form_of_a_program_gets_a_time() -> None:
    rates = {("convolution", "forward"): Rates(per_flop=1e-12, per_byte=1e-9)}
    found = timed(PROGRAM, rates)
    # 1 ms for the flops, 1 us for the bytes; 2,688,000 bytes at 268.8 GB/s are 10 us.
    assert LAUNCH_S == 5e-6
    assert pytest.approx(268.8e9) == MEMORY_BYTES_PER_S
    convolution, relu = 1_006_000_000, 15_000_000
    assert [line for line in found.splitlines() if line.startswith("form")] == [
        f'form "default" call 0 time {convolution} pure reads 0.0 writes 1.1',
        f'form "slower" call 0 time {convolution} pure reads 0.0 writes 1.1',
        f'form "default" time {relu} reads 1.1 writes 1.2',
    ]
    hashes = {_core.facts_of_program(text)["hash"] for text in (PROGRAM, found)}
    assert len(hashes) == 1


def default_times_ps(text: str) -> list[tuple[str, int]]:
    """Operator and time of each op that has to run."""
    pattern = r'^op \d+ "([^"]*)"(?!.* optional ).*\nform "default"(?: call \d+)? time (\d+)'
    return [(name, int(ps)) for name, ps in re.findall(pattern, text, re.MULTILINE)]


def test_a_whole_step_takes_the_figures_sum_and_the_rest(vgg: str) -> None:
    times = default_times_ps(timed(vgg, calibrated(layers_of_vgg(vgg))))
    assert len(times) == _core.facts_of_program(vgg)["ops"]
    # 1150 ms of the bars. Nothing is shown of ReLUs, pools, loss and optimizer: by the bytes that
    # they move another 10 %.
    assert sum(ps for _, ps in times) * 1e-12 == pytest.approx(1.15 * 1.10, rel=0.01)


@pytest.mark.parametrize(
    ("name", "at_least_ms", "ours_ms"),
    # The paper's words: AlexNet's first layer waits for more than 60 ms, VGG-16's for more than
    # 1200 ms. The first is not part of the calibration; nothing more exact is said of it.
    [("alexnet-128", 60, 94), ("vgg-e-64", 1200, 1201)],
)
def test_the_first_input_waits_for_its_backward_pass_as_long_as_the_paper_says(
    vgg: str, name: str, at_least_ms: float, ours_ms: float
) -> None:
    text = vgg if name == "vgg-e-64" else capture(name, ALL[name])
    times = default_times_ps(timed(text, calibrated(layers_of_vgg(vgg))))
    names = [op for op, _ in times]
    first = names.index("aten::convolution")
    last = len(names) - 1 - names[::-1].index("aten::convolution_backward")
    waits_ms = sum(ps for _, ps in times[first + 1 : last]) / 1e9
    assert waits_ms > at_least_ms
    assert waits_ms == pytest.approx(ours_ms, rel=0.01)


def test_a_form_that_reads_a_code_moves_as_many_bytes_fewer() -> None:
    program = """fitstep program 1
storage 0 "y" 6000000 temporary
storage 1 "code" 1000000 temporary
storage 2 "gradient" 6000000 temporary
op 0 "aten::threshold_backward" activation bytes 18000000
form "default" call 0 reads 0.1:sign 2.1 writes 2.2
form "from packed y" call 1 reads 0.1:shape 1.1 2.1 writes 2.2
"""
    found = [int(ps) for ps in re.findall(r" time (\d+) ", timed(program, {}))]
    seconds = [LAUNCH_S + size_bytes / MEMORY_BYTES_PER_S for size_bytes in (18e6, 13e6)]
    assert found == [round(1e12 * it) for it in seconds]
