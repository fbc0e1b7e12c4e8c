"""The measured table of docs/explanation/comparison.md says what results/peers.json holds."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROWS = {
    "checkpoint": "`checkpoint` around",
    "memory_budget": "`activation_memory_budget`, backend",
    "inductor": "the same with Inductor",
    "spill": "hooks that spill",
}


def spread(numbers: list[float]) -> str:
    return f"{min(numbers):.2f} to {max(numbers):.2f}"


@pytest.mark.parametrize("rival", ROWS)
def test_a_row_has_the_numbers_of_the_results(rival: str) -> None:
    rows = [
        row
        for row in json.loads((ROOT / "results" / "peers.json").read_text())["rows"]
        if row["rival"].split(":")[0] == rival
    ]
    page = (ROOT / "docs" / "explanation" / "comparison.md").read_text()
    line = re.search(rf"^\| {re.escape(ROWS[rival])}.*$", page, re.MULTILINE)
    assert line is not None
    assert [cell.strip() for cell in line[0].strip("|").split("|")][1:] == [
        str(len(rows)),
        spread([row["seconds"] / row["fitstep_seconds"] for row in rows]),
        spread([row["seconds"] / row["plain_seconds"] for row in rows]),
        spread([row["peak_bytes"] / row["plain_peak_bytes"] for row in rows]),
        str(sum(row["same_bits"] for row in rows)),
    ]


def test_fitstep_had_plain_bits_in_every_run() -> None:
    rows = json.loads((ROOT / "results" / "peers.json").read_text())["rows"]
    page = (ROOT / "docs" / "explanation" / "comparison.md").read_text()
    assert all(row["fitstep_same_bits"] for row in rows)
    assert f"plain PyTorch's bits in all {len(rows)} runs" in page
