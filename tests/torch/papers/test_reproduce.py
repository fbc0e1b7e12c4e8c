"""How the papers' programs are prepared, and how their targets are judged."""

import re
import subprocess

import pytest

from benchmarks.papers.densities import coded_bytes, kept_densities, with_densities
from benchmarks.papers.plans import Made, faster, judged
from benchmarks.papers.programs import (
    MIB,
    VDNN,
    Bars,
    at_batch,
    captured,
    convolution_weight_bytes,
    in_place,
    of_family,
    with_workspace,
)
from benchmarks.papers.reproduce import same_bits, verdicts
from benchmarks.papers.titan_x import Rates, timed
from fitstep import _core

PROGRAM = """\
fitstep program 1
storage 0 "x" 64 input start recorded 0-3
storage 1 "weight" 32 parameter persistent start recorded 0-3
storage 2 "a" 64 temporary recorded 0-3
storage 3 "g" 64 temporary recorded 1-3
storage 4 "d" 64 temporary recorded 2-3
op 0 "aten::convolution" convolution flops 9 bytes 100
form "default" time 30 pure reads 0.0 1.0 writes 2.1
op 1 "aten::mse_loss_backward" other
form "default" time 10 pure reads 2.1 writes 3.1
op 2 "aten::threshold_backward" activation bytes 192
form "default" time 10 pure reads 2.1:sign 3.1 writes 4.1
end calls 0 storages 5 ops 3
"""


def form_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("form")]


def test_relu_may_write_its_gradient_over_the_one_it_reads() -> None:
    found = in_place(PROGRAM)
    assert form_lines(found)[2] == 'form "default" time 10 pure reads 2.1:sign 3.1 writes 4.1<3'
    assert form_lines(found)[:2] == form_lines(PROGRAM)[:2]
    assert _core.facts_of_program(found)["ops"] == 3


def test_a_convolution_has_a_fast_form_with_workspace_and_a_slow_one_without() -> None:
    # All convolutions together take 30 of 50; at half the speed a step takes 100, so 80 are theirs.
    bars = Bars(1, 0.5, 0, 0, 0, 0, 0, 0)
    assert form_lines(with_workspace(PROGRAM, bars))[:2] == [
        f'form "default" time 30 pure reads 0.0 1.0 writes 2.1 requests {MIB}@0-1',
        'form "small" time 80 pure reads 0.0 1.0 writes 2.1',
    ]


def test_ops_that_need_not_run_count_for_nothing() -> None:
    bars = Bars(1, 0.5, 0, 0, 0, 0, 0, 0)
    optional = PROGRAM.replace(
        "end calls 0 storages 5 ops 3\n",
        'op 3 "pack" copy optional bytes 64\nform "default" time 70 pure reads 2.1 writes 5.1\n'
        'storage 5 "bits" 2 temporary\nend calls 0 storages 6 ops 4\n',
    )
    assert form_lines(with_workspace(optional, bars))[:4] == form_lines(
        with_workspace(PROGRAM, bars)
    )
    rates = {("convolution", "forward"): Rates(1.0)}
    found = form_lines(timed('op 0 "pack" copy optional bytes 268800000\nform "default"', rates))
    assert found == ['form "default" time 1005000000']  # 5 us to start, 1 ms at 80 % of 336 GB/s.


def test_weights_that_convolutions_read_are_counted() -> None:
    assert convolution_weight_bytes(PROGRAM) == 32
    convolutions = 20_024_384 * 4  # Of VGG-E, biases included.
    assert convolution_weight_bytes(captured("vgg-e-64")) == convolutions


def test_the_figures_name_stored_or_captured_programs() -> None:
    assert all(re.fullmatch(r"[a-z-]+-\d+", name) for name in VDNN)


def test_bytes_are_counted_at_one_time_and_over_all_of_it() -> None:
    kinds = {"maps": [4, 6], "map_gradients": [0, 2], "workspace": [1, 0], "weights": [9, 9]}
    one = Made(True, 0, {"map": {"bytes": kinds, "end_ps": [30, 40]}})
    assert one.counted() == (8, round((5 * 30 + 8 * 10) / 40))


@pytest.mark.parametrize(
    ("is_met", "is_better", "verdict"),
    [(True, True, "beaten"), (True, False, "met"), (False, True, "short")],
)
def test_a_target_is_judged(is_met: bool, is_better: bool, verdict: str) -> None:
    assert judged(is_met, is_better) == verdict


def test_a_target_is_as_bad_as_its_worst_row() -> None:
    rows = [
        {"case": "1 a", "verdict": "beaten"},
        {"case": "1 b", "verdict": "short"},
        {"case": "2 a", "verdict": "met"},
        {"case": "2 b", "verdict": "beaten"},
        {"case": "3 a", "verdict": "bounded"},
        {"case": "3 b", "verdict": "beaten"},
        {"case": "4 a", "verdict": "stand-in"},
        {"case": "4 b", "verdict": "met"},
    ]
    assert verdicts(rows) == {"beaten": 0, "met": 1, "stand-in": 1, "bounded": 1, "short": 1}


def test_a_target_above_the_bound_is_out_of_reach() -> None:
    assert faster(0.8, wanted=0.9) == "short"
    assert faster(0.8, wanted=0.9, most=0.91) == "short"
    assert faster(0.8, wanted=0.9, most=0.89) == "bounded"
    assert faster(0.9, wanted=0.9, most=0.95) == "met"
    assert faster(0.91, wanted=0.9) == "beaten"


def test_batches_lie_on_a_line() -> None:
    def program(batch: int) -> str:
        return f'name "b{batch}"\nstorage 0 "x1" {4 + 8 * batch} input\ncall 0 "f({batch * batch})"'

    found = at_batch(program(2), program(4), (2, 4), 7).splitlines()
    assert found == ['name "b2"', 'storage 0 "x1" 60 input', 'call 0 "f(4)"']
    with pytest.raises(ValueError, match="not the same step"):
        at_batch(program(2), program(4).replace("input", "output"), (2, 4), 7)


def test_programs_of_other_batches_are_those_that_are_captured() -> None:
    assert sizes_of(of_family("alexnet", 48, (16, 32))) == sizes_of(captured("alexnet-48"))


def sizes_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("storage", "op"))]


@pytest.mark.parametrize(("code", "verdict"), [(0, "met"), (1, "short")])
def test_accuracy_is_what_its_tests_say(
    monkeypatch: pytest.MonkeyPatch, code: int, verdict: str
) -> None:
    def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], code, stdout="12 passed\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert [row["verdict"] for row in same_bits(False)] == [verdict]


MAPS = """\
storage 2 "a" 640 temporary
storage 3 "p" 320 temporary recorded 0-3
storage 4 "i" 640 temporary
storage 5 "b" 64 temporary
op 0 "aten::relu_" activation
form "default" time 10 pure reads 2.1 writes 2.2
op 1 "aten::max_pool2d_with_indices" pool
form "default" time 10 pure reads 2.2 writes 3.1 4.1
op 2 "aten::relu_" activation
form "default" time 10 pure reads 5.1 writes 5.2
"""


def test_maps_have_the_sizes_that_measured_densities_make_of_them() -> None:
    kept = [{"kind": "relu", "density": 0.25}, {"kind": "pool", "density": 0.5}]
    found = with_densities(MAPS, kept).splitlines()
    assert found[0] == 'storage 2 "a" 640 temporary zero_value 180'  # A quarter and a bit per word.
    assert found[1] == 'storage 3 "p" 320 temporary recorded 0-3 zero_value 170'
    assert found[2:] == MAPS.splitlines()[2:]  # Neither indices nor layers behind.
    assert coded_bytes(0, 0.5) == 1


def test_maps_of_another_net_are_refused() -> None:
    with pytest.raises(ValueError, match="2 ReLUs and pools, other than the 2 measured"):
        with_densities(MAPS, [{"kind": "pool", "density": 0.5}, {"kind": "relu", "density": 0.5}])


def test_all_maps_of_the_convolutional_part_of_vgg_were_measured() -> None:
    kept = kept_densities()
    assert len(kept) == 16 + 5
    assert all(0 < row["density"] <= 1 for row in kept)
    coded = with_densities(captured("vgg-e-64"), kept)
    assert len(re.findall(r"^storage .* zero_value ", coded, re.MULTILINE)) == 16 + 5
    assert _core.facts_of_program(coded)["ops"] > 0
