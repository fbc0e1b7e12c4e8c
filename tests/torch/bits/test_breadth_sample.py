"""A seeded sample of the breadth benchmark: 10 tiny models of the libraries that are installed."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
SAMPLE, SEED, PARTS = 10, 1, 2  # The parts run side by side.


def outcomes(part: int, path: Path) -> list[dict[str, Any]]:
    """What became of the part's subjects."""
    command = [
        sys.executable, "-m", "benchmarks.breadth.breadth", "--sample", str(SAMPLE),
        "--seed", str(SEED), "--part", f"{part}/{PARTS}", "--results", str(path),
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    answer = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert path.exists(), answer.stderr
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.skipif(
    not importlib.util.find_spec("transformers"), reason="needs transformers, which has most models"
)
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_families_of_models_train_with_the_same_bits(part: int, tmp_path: Path) -> None:
    rows = outcomes(part, tmp_path / "breadth.jsonl")
    assert len(rows) == SAMPLE // PARTS
    # Models that draw a new seed from the machine in every step repeat themselves nowhere.
    allowed = {"right", "unrepeatable"}
    failed = [f"{row['case']}: {row['outcome']}, {row['why']}" for row in rows
              if row["outcome"] not in allowed]  # fmt: skip
    assert not failed, "\n".join(failed)
