"""docs/explanation/published-systems.md: every capability has a row, and its test is there."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "explanation" / "published-systems.md"
CAPABILITIES = {"V": 19, "P": 15, "T": 11, "L": 14}
ROW = re.compile(
    r"^\| (?P<id>[VPTL]\d+) \| (?P<what>[^|]+) \| (?P<where>[^|]+) \| (?P<test>[^|]*)\|$"
)


@dataclass(frozen=True)
class Capability:
    """A row."""

    name: str
    where: str
    test: str  # PATH::NAME; empty for none.

    @property
    def is_offered(self) -> bool:
        return "not offered" not in self.where


def rows() -> list[Capability]:
    found = [ROW.match(line) for line in PAGE.read_text().splitlines()]
    return [
        Capability(row["id"], row["where"].strip(), row["test"].strip().strip("`"))
        for row in found
        if row is not None
    ]


def exists(test: str) -> bool:
    """Whether a test of this name is in this file."""
    path, _, name = test.partition("::")
    file = ROOT / path
    if not file.is_file():
        return False
    suite, _, case = name.partition(".")
    pattern = rf"^def {re.escape(name)}\(" if path.endswith(".py") else (
        rf"^TEST(?:_F|_P)?\({re.escape(suite)},\s*{re.escape(case)}\)"
    )  # fmt: skip
    return re.search(pattern, file.read_text(), re.MULTILINE) is not None


def test_every_capability_has_one_row() -> None:
    expected = [
        f"{system}{i}" for system, count in CAPABILITIES.items() for i in range(1, count + 1)
    ]
    assert [row.name for row in rows()] == expected


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_row_names_a_test_or_says_why_there_is_none(row: Capability) -> None:
    if row.is_offered:
        assert exists(row.test), row.test
    else:
        assert row.test == ""
        assert ":" in row.where  # The reason.


def test_the_page_counts_both_kinds() -> None:
    offered = sum(row.is_offered for row in rows())
    text = f"{offered} of {len(rows())} are offered, {len(rows()) - offered} are not"
    assert text in PAGE.read_text()


def test_a_test_that_is_gone_is_noticed() -> None:
    assert exists("tests/torch/papers/test_published_systems.py::test_every_capability_has_one_row")
    assert not exists("tests/torch/papers/test_published_systems.py::test_every_capability")
    assert not exists("tests/torch/nowhere.py::test_every_capability_has_one_row")
    assert not exists("fitstep/planner/policies/policies_test.cpp::Vdnn.EndsALayer")
