"""The examples run, stay short, and print what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def run(*command: str) -> str:
    """What a script prints; a failure shows it."""
    answer = subprocess.run(
        [sys.executable, *command], cwd=EXAMPLES, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.mark.parametrize("example", ["gpt_text.py", "resnet_digits.py"])
def test_example_prints_the_losses_of_plain_training(example: str) -> None:
    plain = run(example, "--plain", "--steps", "2")
    ours = run(example, "--budget", "60%", "--steps", "2")
    losses = [line for line in ours.splitlines() if line.startswith("step ")]
    assert len(losses) == 2
    assert losses == [line for line in plain.splitlines() if line.startswith("step ")]
    assert len(ours) > len(plain)  # The report.


@pytest.mark.parametrize("example", ["gpt_text.py", "resnet_digits.py"])
def test_example_is_short(example: str) -> None:
    assert len((EXAMPLES / example).read_text().splitlines()) < 60
