"""What `make gpu-check` says without a GPU, and of parts that fail."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu import check as gpu_check

ROOT = Path(__file__).resolve().parents[3]

CONTRACT = """[ RUN      ] Devices/DeviceContract.HasAName/gpu
[       OK ] Devices/DeviceContract.HasAName/gpu (0 ms)
[ RUN      ] Devices/DeviceContract.CopiesWait/gpu
[  FAILED  ] Devices/DeviceContract.CopiesWait/gpu (2 ms)
[  FAILED  ] Devices/DeviceContract.CopiesWait/gpu
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_in_one_line_and_passes_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu.check"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith("gpu-check: skipped: no GPU (torch ")


def test_rows_of_the_contract_are_its_tests_each_once() -> None:
    assert gpu_check.parsed("contract", CONTRACT) == [
        {"case": "Devices/DeviceContract.HasAName/gpu", "good": True},
        {"case": "Devices/DeviceContract.CopiesWait/gpu", "good": False},
    ]


def test_what_a_part_printed_before_it_died_is_kept() -> None:
    printed = 'warming up\n{"case": "mm", "good": true}\n{"case": "so'
    assert gpu_check.parsed("placement", printed) == [{"case": "mm", "good": True}]


def _all(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]) -> dict[str, Any]:
    """All parts by name, where commands give these (outcome, output, error) by a word in them."""

    def run(command: list[str], seconds: float) -> tuple[str, str, str]:
        for word, answer in answers.items():
            if any(word in part for part in command):
                return tuple(answer)  # type: ignore[return-value]
        return "ok", '{"case": "all", "good": true}', ""

    monkeypatch.setattr(gpu_check, "run", run)
    return {part.name: part for part in gpu_check.check_all(480.0)}


def test_a_part_that_fails_or_is_bad_does_not_stop_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {
        "--gtest_filter": ("failed", CONTRACT, "1 FAILED TEST"),
        "placement": ("failed", "", "RuntimeError: no kernel image"),
        "refusal": ("too slow", '{"case": "a", "good": true}', "stopped after 48 s"),
        "copies": ("ok", '{"case": "a", "good": false}', ""),
    }
    parts = _all(monkeypatch, answers)
    expected = {name: "ok" for name, _ in gpu_check.PARTS}
    expected |= {"contract": "bad", "placement": "failed", "refusal": "too slow", "copies": "bad"}
    assert {name: parts[name].outcome for name, _ in gpu_check.PARTS} == expected
    assert parts["placement"].why == "RuntimeError: no kernel image"
    assert parts["contract"].row()["good"] == "1 of 2"


def test_a_part_that_prints_nothing_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = _all(monkeypatch, {"--gtest_filter": ("ok", "0 tests ran", "")})
    assert parts["contract"].outcome == "failed"


def test_without_a_build_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    output = "[3/9] Building\nx.cpp:1:1: error: no\nninja: stopped"
    parts = _all(monkeypatch, {"--build": ("failed", output, "ninja: stopped")})
    assert parts["build"].outcome == "failed"
    assert parts["build"].why == "x.cpp:1:1: error: no"
    assert all(parts[name].outcome == "not run" for name, _ in gpu_check.PARTS)
