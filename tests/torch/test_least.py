"""The least budget that BudgetTooSmall names is one at which planning was tried."""

from types import SimpleNamespace
from typing import Any

import pytest
from fitstep.least import tried

from fitstep import BudgetTooSmall

ENOUGH = 130


class Asked:
    """A session with a disk whose planner says 15 more than it was asked for, up to ENOUGH."""

    def __init__(self, has_disk: bool = True) -> None:
        self.budget_bytes = 1
        self.below = SimpleNamespace(has_disk=has_disk)
        self.taken: list[int] = []

    def take_budget(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.taken.append(budget_bytes)

    def plan(self) -> list[Any]:
        if self.budget_bytes < ENOUGH:
            raise BudgetTooSmall(self.budget_bytes, 90, self.budget_bytes + 15, [])
        return []


@pytest.mark.parametrize(
    ("said", "tries", "least"), [(130, [130], 130), (100, [100, 115, 130], 130), (500, [500], 500)]
)
def test_it_is_tried_until_one_works(said: int, tries: list[int], least: int) -> None:
    session: Any = Asked()
    error = tried(session, BudgetTooSmall(1, 90, said, []), session.plan)
    assert session.taken == [*tries, 1]
    assert (error.budget_bytes, error.floor_bytes, error.least_found_bytes) == (1, 90, least)


def test_it_is_not_tried_for_ever() -> None:
    session: Any = Asked()
    error = tried(session, BudgetTooSmall(1, 5, 10, []), session.plan)
    assert error.least_found_bytes == 70
    assert session.budget_bytes == 1


def test_without_a_disk_the_planner_has_tried_it() -> None:
    session: Any = Asked(has_disk=False)
    said = BudgetTooSmall(1, 90, 100, [])
    assert tried(session, said, session.plan) is said
    assert session.taken == []
