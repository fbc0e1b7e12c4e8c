"""Steps on fakes of GPU tensors are captured where there is no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = ROOT / "build" / "dev" / "gpu_stand_in.so"


@pytest.fixture(scope="module")
def programs() -> Any:
    if torch.version.cuda:
        pytest.skip("this torch has its own idea of a GPU")
    if not STAND_IN.exists():
        pytest.skip("gpu_stand_in is not built: make test does it")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "LD_PRELOAD": str(STAND_IN)}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("gpu_capture.py"))],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


DROPOUT = {
    "cpu": [
        "aten::empty_like",
        "fitstep::bernoulli_",
        "aten::div_.Scalar",
        "aten::mul.Tensor",
        "aten::mul.Tensor",  # Backward.
    ],
    "gpu": ["aten::native_dropout", "aten::native_dropout_backward"],
}


@pytest.mark.parametrize("name", ["sgd with momentum", "fused adamw", "adam"])
def test_a_steps_program_is_that_of_the_cpu_but_for_dropout(programs: Any, name: str) -> None:
    """PyTorch has one op for dropout on a GPU, and several on the CPU. Peaks follow from shapes."""
    cpu, gpu = programs[name]["cpu"], programs[name]["gpu"]
    assert len(gpu) == len(cpu) == 2  # The first step, which makes state, and the steady one.
    for on_cpu, on_gpu in zip(cpu, gpu, strict=True):
        assert [op for op in on_cpu if op in DROPOUT["cpu"]] == DROPOUT["cpu"]
        assert [op for op in on_gpu if op in DROPOUT["gpu"]] == DROPOUT["gpu"]
        every = {*DROPOUT["cpu"], *DROPOUT["gpu"]}
        assert [op for op in on_gpu if op not in every] == [op for op in on_cpu if op not in every]


def test_kernels_of_a_step_are_those_of_its_net_and_optimizer(programs: Any) -> None:
    steady = programs["fused adamw"]["gpu"][-1]
    assert steady.count("aten::convolution") == 2
    assert steady.count("aten::addmm") == 1
    assert steady.count("aten::native_dropout") == 1
    assert any(op.startswith("aten::_fused_adamw_") for op in steady[1:])
