"""The collection of programs that the planner is measured on: captured, converted and made ones."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fitstep_kit import models
from fitstep_kit.models.pre_activation import PreActivationResNet
from fitstep_kit.programs import convert_g10, rebuild_g10
from fitstep_kit.programs.capture import ROOT, STORED, capture, steady_step, zstd
from fitstep_kit.programs.synthetic_gpt import make
from fitstep_kit.programs.trainings import TRAININGS, Training, language_model
from torch import Tensor, nn

from benchmarks.papers.families import PAPERS
from benchmarks.papers.largest_batch import largest
from fitstep import _core

CONVERT = [sys.executable, "-m", "fitstep_kit.programs.convert_g10"]


def hash_of(text: str) -> str:
    """The hash of a program; raises for one that is not valid."""
    found: str = _core.facts_of_program(text)["hash"]
    return found


def by_op(text: str, what: str) -> dict[str, list[int]]:
    """The flops or the bytes of all ops that have any, by the operator's name."""
    found: dict[str, list[int]] = {}
    for name, number in re.findall(rf'^op \d+ "([^"]*)".*? {what} (\d+)', text, re.MULTILINE):
        found.setdefault(name, []).append(int(number))
    return found


def step_of(model: nn.Module, *inputs: Tensor) -> str:
    """The steady step of a model; the loss is the sum of its output's squares."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train_step(*args: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(*args).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    text: str = steady_step(train_step, inputs).text()
    return text


def flops_of(model: nn.Module, *inputs: Tensor) -> dict[str, list[int]]:
    """Of that step's ops, in order, by the operator's name."""
    return by_op(step_of(model, *inputs), "flops")


def test_matrix_products_count_a_multiplication_and_an_addition_each() -> None:
    flops = flops_of(nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 2)), torch.empty(3, 5))
    assert flops["aten::addmm"] == [2 * 3 * 5 * 7, 2 * 3 * 7 * 2]
    # Weight and data gradient of the second layer, weight gradient of the first.
    assert sorted(flops["aten::mm"]) == [2 * 3 * 7 * 2, 2 * 3 * 7 * 2, 2 * 3 * 5 * 7]


def test_batched_products_count_every_batch() -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(4, 6, 5))

        def forward(self, x: Tensor) -> Tensor:
            return torch.bmm(x, self.weight)

    assert flops_of(Product(), torch.empty(4, 3, 6))["aten::bmm"] == [2 * 4 * 3 * 6 * 5] * 2


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_count_each_gradient_like_the_forward_pass(groups: int) -> None:
    model = nn.Sequential(
        nn.Conv2d(4, 4, 1, bias=False), nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=groups)
    )
    flops = flops_of(model, torch.empty(2, 4, 8, 8))
    first = 2 * (2 * 4 * 8 * 8) * 4
    second = 2 * (2 * 6 * 4 * 4) * (4 // groups * 9)
    assert flops["aten::convolution"] == [first, second]
    assert sorted(flops["aten::convolution_backward"]) == sorted([second, second, first])


def test_transposed_convolutions_slide_over_their_input() -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 1, bias=False), nn.ConvTranspose2d(4, 6, 4, 2))
    flops = flops_of(model, torch.empty(2, 4, 8, 8))
    transposed = 2 * (2 * 4 * 8 * 8) * (6 * 16)
    assert flops["aten::convolution"][1] == transposed
    assert flops["aten::convolution_backward"].count(transposed) == 2


def test_fused_attention_counts_two_products_and_five_backward() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.empty(1))

        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            scaled = [part * self.scale for part in (q, k, v)]
            return F.scaled_dot_product_attention(*scaled)

    flops = flops_of(Attention(), *(torch.empty(2, 3, length, 8) for length in (10, 20, 20)))
    product = 2 * (2 * 3) * 10 * 20 * 8
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert flops[name] == [2 * product]
    assert flops[f"{name}_backward"] == [5 * product]


def test_fused_recurrent_layers_count_all_gates() -> None:
    class Last(nn.LSTM):
        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            out: Tensor = super().forward(x)[0]
            return out

    flops = flops_of(Last(5, 7), torch.empty(11, 3, 5))
    gates = 2 * (11 * 3) * (4 * 7) * (5 + 7)
    assert flops["aten::mkldnn_rnn_layer"] == [gates]
    assert flops["aten::mkldnn_rnn_layer_backward"] == [2 * gates]


def bytes_of(model: nn.Module, *inputs: Tensor) -> dict[str, list[int]]:
    """Like `flops_of`, of the bytes that ops move."""
    return by_op(step_of(model, *inputs), "bytes")


def test_bytes_are_those_that_a_kernel_reads_and_writes() -> None:
    moved = bytes_of(nn.Sequential(nn.Linear(5, 7), nn.ReLU(inplace=True)), torch.empty(3, 5))
    assert moved["aten::addmm"] == [4 * (7 + 3 * 5 + 5 * 7 + 3 * 7)]
    assert moved["aten::relu_"] == [4 * (3 * 7) * 2]
    assert moved["aten::threshold_backward"] == [4 * (3 * 7) * 3]


def test_memory_that_nobody_reads_or_that_is_left_as_it_is_counts_as_not_moved() -> None:
    moved = bytes_of(nn.Sequential(nn.Linear(5, 7), nn.Dropout()), torch.empty(3, 5))
    assert "aten::empty_like" not in moved
    assert moved["fitstep::bernoulli_"] == [4 * (3 * 7)]

    class Rows(nn.Embedding):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.long())

    rows = bytes_of(Rows(1000, 6), torch.empty(4))
    assert rows["aten::embedding"] == [4 * 8 + 2 * (4 * 6 * 4)]
    convolved = bytes_of(nn.Conv2d(4, 6, 1, bias=False), torch.empty(2, 4, 8, 8))
    gradient, inputs, weight = 4 * 2 * 6 * 64, 4 * 2 * 4 * 64, 4 * 4 * 6
    assert convolved["aten::convolution_backward"] == [gradient + inputs + weight]


def test_models_have_the_parameters_of_their_papers() -> None:
    with torch.device("meta"):
        counts = {
            27_161_264: models.InceptionV3(),
            10_327_706: PreActivationResNet(units=111),
        }
    for expected, model in counts.items():
        assert sum(p.numel() for p in model.parameters()) == expected
        assert model  # Not collected before it is counted.


def tiny() -> Training:
    def make_step() -> Any:
        model = nn.Sequential(nn.Embedding(10, 8), nn.Dropout(0.1), nn.Linear(8, 10))
        optimizer = torch.optim.AdamW(model.parameters())
        return language_model(model, optimizer, torch.empty(2, 4, dtype=torch.int64))

    return Training("Two layers", make_step)


def test_a_captured_program_says_what_it_is_and_holds_no_measured_number() -> None:
    text = capture("tiny", tiny())
    assert text.startswith("fitstep program 1\n# Two layers\n")
    assert 'name "tiny"' in text
    assert " time " not in text
    assert " requests " not in text
    assert " pure " in text
    assert " restores " in text
    assert str(ROOT) not in text
    assert hash_of(text) == hash_of(capture("tiny", tiny()))


def test_papers_trainings_are_captured_by_name_and_not_stored(tmp_path: Path) -> None:
    assert not PAPERS.keys() & TRAININGS.keys()
    assert not [name for name in PAPERS if (STORED / f"{name}.program.zst").exists()]
    command = [sys.executable, "-m", "benchmarks.papers.families", "--out", tmp_path, "lenet-5000"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    packed = (tmp_path / "lenet-5000.program.zst").read_bytes()
    facts = _core.facts_of_program(zstd("-dc", packed).decode())
    assert facts["parameter_bytes"] == 4 * 431_080


@pytest.mark.parametrize("first", [2, 5, 64, 1000])
@pytest.mark.parametrize(
    ("peak_bytes", "expected"),
    [
        (lambda batch: 100 + 7 * batch, 128),  # 100 + 7 * 128 = 996.
        (lambda batch: max(500 + batch, 10 * batch), 100),
        (lambda batch: batch * batch, 31),
        (lambda batch: 1000 * batch, 1),
        (lambda batch: 1001 * batch, 0),
    ],
)
def test_the_largest_batch_is_found_from_anywhere(
    peak_bytes: Callable[[int], int], expected: int, first: int
) -> None:
    assert largest(peak_bytes, 1000, first) == expected


@pytest.mark.parametrize("ops", [1000, 3000])
def test_a_synthetic_step_has_the_wanted_size_and_is_the_same_for_a_seed(ops: int) -> None:
    text = make(ops, seed=1)
    assert hash_of(text) == hash_of(make(ops, seed=1))
    assert hash_of(text) != hash_of(make(ops, seed=2))
    count = int(text.splitlines()[-1].split()[-1])
    assert abs(count - ops) <= 75  # Half a layer.


TRACE = """\
____________________________________________________________________
Kernel ID: 0, Name: Conv2d_Forward
Parent Layer ID:0; Name:Conv2d
Execution Time: 1200
(1,3,8,8)
Input Tensors:
tensor0 Is weight (global)?: 0, Size in byte: 4096, Range:0--4096
tensor1 Is weight (global)?: 1, Size in byte: 8192, Range:0--8192
Output Tensors:
tensor2 Is weight (global)?: 0, Size in byte: 12288, Range:4096--16384
____________________________________________________________________
Kernel ID: 1, Name: ReLU_Forward
Execution Time: 600
Input Tensors:
tensor2 Is weight (global)?: 0, Size in byte: 12288, Range:4096--16384
Output Tensors:
tensor2 Is weight (global)?: 0, Size in byte: 12288, Range:4096--16384
____________________________________________________________________
Kernel ID: 2, Name: Conv2d_Backward_Weight
Execution Time: 2400
Input Tensors:
tensor0 Is weight (global)?: 0, Size in byte: 4096, Range:0--4096
tensor2 Is weight (global)?: 0, Size in byte: 12288, Range:4096--16384
Output Tensors:
tensor3 Is weight (global)?: 0, Size in byte: 8192, Range:16384--24576
____________________________________________________________________
Kernel ID: 3, Name: Apply_Grad
Execution Time: 12
Input Tensors:
tensor1 Is weight (global)?: 1, Size in byte: 8192, Range:0--8192
tensor3 Is weight (global)?: 0, Size in byte: 8192, Range:16384--24576
Output Tensors:
tensor1 Is weight (global)?: 1, Size in byte: 8192, Range:0--8192
____________________________________________________________________
"""


def converted(tmp_path: Path, trace: str) -> "subprocess.CompletedProcess[str]":
    (tmp_path / "net.config").write_text(trace)
    return subprocess.run(
        [*CONVERT, "net.config", "net.program"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_trace_of_g10_becomes_a_program(tmp_path: Path) -> None:
    answer = converted(tmp_path, TRACE)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "net.program: 4 kernels, 32768 bytes of tensors, 0.000004 s\n"
    text = (tmp_path / "net.program").read_text()
    assert hash_of(text)
    # 1200 cycles of 1.2 GHz are 1 us. The ReLU changes its input in place, the update a weight.
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        "fitstep program 1",
        'name "net"',
        'storage 0 "tensor0" 4096 input start recorded 0-4',
        'storage 1 "tensor1" 8192 parameter persistent visible start recorded 0-4',
        'storage 2 "tensor2" 12288 temporary recorded 0-3',
        'storage 3 "tensor3" 8192 temporary recorded 2-4',
        'op 0 "Conv2d_Forward" convolution bytes 24576',
        'form "default" time 1000000 pure reads 0.0 1.0 writes 2.1',
        'op 1 "ReLU_Forward" activation bytes 12288',
        'form "default" time 500000 reads 2.1 writes 2.2',
        'op 2 "Conv2d_Backward_Weight" convolution bytes 24576',
        'form "default" time 2000000 pure reads 0.0 2.2 writes 3.1',
        'op 3 "Apply_Grad" update bytes 16384',
        'form "default" time 10000 reads 1.0 3.1 writes 1.1',
        "end calls 0 storages 4 ops 4",
    ]


@pytest.mark.parametrize(
    ("line", "becomes", "message"),
    [
        (2, "Kernel 0: Conv2d_Forward", "6: before the first 'Kernel ID'"),
        (2, "Kernel ID: 0", "2: expected 'Kernel ID: <n>, Name: <name>', found 'Kernel ID: 0'"),
        (4, "Execution Time: soon", "4: expected 'Execution Time: <cycles>'"),
        (4, "", "2: kernel Conv2d_Forward has no 'Execution Time'"),
        (6, "", "7: a tensor outside of 'Input Tensors' and 'Output Tensors'"),
        (7, "tensor0, 4096 bytes", "7: expected 'tensor<n> Is weight (global)?: <0 or 1>"),
        (7, "tensor0 Is weight (global)?: 0, Size in byte: 40", "7: expected 'tensor<n> Is weight"),
        (7, "4096 bytes", "7: expected a tensor, found '4096 bytes'"),
        (9, "", "2: kernel Conv2d_Forward has no output"),
        (
            15,
            "tensor2 Is weight (global)?: 0, Size in byte: 4096, Range:4096--8192",
            "15: tensor2 is another one in line 10",
        ),
    ],
)
def test_a_bad_trace_is_refused_with_file_and_line(
    tmp_path: Path, line: int, becomes: str, message: str
) -> None:
    lines = TRACE.splitlines()
    lines[line - 1] = becomes
    if line == 2 and "ID" not in becomes:
        lines[3] = ""
    answer = converted(tmp_path, "\n".join(lines))
    assert answer.returncode == 2
    assert answer.stderr.startswith(f"convert_g10: net.config:{message}"), answer.stderr
    assert not (tmp_path / "net.program").exists()


def test_a_trace_without_kernels_is_refused(tmp_path: Path) -> None:
    assert "no line begins with 'Kernel ID'" in converted(tmp_path, "nothing\n").stderr
    missing = subprocess.run(
        [*CONVERT, "/no/trace", "x"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert missing.returncode == 2
    assert "/no/trace" in missing.stderr


def test_a_program_of_a_trace_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "net.config").write_text(TRACE)
    answer = subprocess.run(
        [*CONVERT, tmp_path / "net.config", "/no/folder/x"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 2
    assert answer.stderr.startswith("convert_g10: ")
    assert answer.stderr.count("\n") == 1
    assert "/no/folder/x" in answer.stderr


# An addition of a weight, an attention's softmax in its four parts, and a matrix.
NETWORK = """
10 Add 2 30 1 2 99 4 2 99 4 -------------------
11 SoftmaxBasic 1 10 2 99 4 -------------------
12 SoftmaxBasic 2 10 11 2 99 4 1 99 -------------------
13 SoftmaxBasic 1 12 2 99 4 -------------------
14 SoftmaxBasic 2 12 13 2 99 4 1 99 -------------------
15 Dot 2 14 2 2 99 4 2 4 8 -------------------
16 Add 2 15 10 2 99 8 2 99 8 -------------------
"""


def test_a_trace_is_rebuilt_from_a_network() -> None:
    ops, shapes = rebuild_g10.read_network(NETWORK, 2048)
    assert [(op.number, op.inputs) for op in ops] == [
        (10, [30, 1]), (14, [10]), (15, [14, 2]), (16, [15, 10]),
    ]  # fmt: skip
    assert shapes[10] == [2048, 8], "as it is read last"
    trace = rebuild_g10.Builder(ops, shapes, 3).build()
    assert [kernel.name for kernel in trace.kernels] == [
        "Add_Forward", "SoftmaxBasic_Forward", "Linear_Forward", "Add_Forward", "makeLoss",
        "Add_Backward", "Linear_Backward_Weight", "Linear_Backward_Input",
        "Linear_Apply_Grad_Weight", "SoftmaxBasic_Backward", "Add_MultiGredient", "Add_Backward",
        "Apply_Grad",
    ]  # fmt: skip
    fused = trace.kernels[-3]
    assert len(fused.inputs) == 2 and fused.outputs == fused.inputs[:1]
    assert [tensor.size_bytes for tensor in trace.kernels[-1].outputs] == [2048 * 4 * 4]
    text = rebuild_g10.text_of(trace, ["0.001024"] * 13)
    read = convert_g10.TraceReader("made.config", text).kernels()
    assert [kernel.cycles for kernel in read] == [1228] * 13
    with pytest.raises(ValueError, match="13 kernels, but 2 times"):
        rebuild_g10.text_of(trace, ["1", "2"])
