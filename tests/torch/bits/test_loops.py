"""Loops as people write them print the same lines and train the same bits with fitstep."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
LOOPS = ROOT / "examples" / "loops"
MOST_SECONDS = (
    60  # Of the processor. Three times what a loop takes alone: two workers share a core.
)

# The settings of main, by the name of a case: the loop, then what differs from the defaults.
CASES: dict[str, dict[str, Any]] = {
    "nanogpt": {"steps": 8},
    "nanogpt float16": {"steps": 10, "dtype": "float16"},  # Skipped steps, then a growing scale.
    "imagenet": {"steps": 10},
    "word_lm": {"steps": 18},  # Three epochs: the rate falls before the last one.
    "dcgan": {"steps": 7},
    "moe": {"steps": 10},
    "lora": {"steps": 8},
    "lora peft": {"steps": 6, "with_peft": True},
    "diffusion": {"steps": 8},
}


def used_seconds() -> float:
    """Of the processor, by all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(loop: str, **settings: Any) -> dict[str, Any]:
    """What the loop's main returns in a process of its own; a failure shows what it printed."""
    code = (
        f"import json, {loop}; answer = {loop}.main(**json.loads({json.dumps(settings)!r})); "
        f"print(); print(json.dumps(answer))"
    )
    paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "FITSTEP_AUDITS": "auto",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    before = used_seconds()
    answer = subprocess.run(
        [sys.executable, "-c", code],
        cwd=LOOPS,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert used_seconds() - before < MOST_SECONDS
    return json.loads(answer.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", CASES)
def test_loop_trains_and_prints_as_plain_pytorch_does(case: str) -> None:
    if CASES[case].get("with_peft") and importlib.util.find_spec("peft") is None:
        pytest.skip("needs peft")
    loop = case.split()[0]
    plain = run(loop, plain=True, **CASES[case])
    ours = run(loop, plain=False, **CASES[case])
    assert len(plain["lines"]) > 2
    assert ours["lines"] == plain["lines"]
    assert ours["hash"] == plain["hash"]


@pytest.mark.parametrize("loop", sorted(path.stem for path in LOOPS.glob("*.py")))
def test_loop_needs_two_lines_of_fitstep(loop: str) -> None:
    lines = (LOOPS / f"{loop}.py").read_text().splitlines()
    assert [line.strip().split("(")[0] for line in lines if "fitstep" in line] == [
        "import fitstep",
        "train_step = fitstep.compile",
    ]


def test_every_loop_is_run() -> None:
    assert {path.stem for path in LOOPS.glob("*.py")} == {case.split()[0] for case in CASES}
