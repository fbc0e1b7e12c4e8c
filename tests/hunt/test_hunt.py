"""A sample of the hunt: no case may train with other numbers in silence, or crash.

`FITSTEP_HUNT=all` runs all cases, `FITSTEP_HUNT=7` a sample from another seed. Each case trains
a tiny model twice, in plain PyTorch and through fitstep, and compares everything bit for bit.
"""

import os
import random

import kit
import pytest
from fitstep.errors import AuditError, FitstepError, overwritten

SAMPLE = 40
CASES = kit.load_cases()


def chosen() -> list[str]:
    """The names of the cases to run."""
    wanted = os.environ.get("FITSTEP_HUNT", "0")
    names = sorted(CASES)
    return names if wanted == "all" else random.Random(int(wanted)).sample(names, SAMPLE)


def test_the_hunt_is_large() -> None:
    assert len(CASES) >= 260


def test_what_finds_a_difference_is_known_by_its_text() -> None:
    assert kit.FOUND.search(str(overwritten("weight")))
    assert kit.FOUND.search(str(AuditError("an audit of this step found a difference")))
    assert not kit.FOUND.search(str(FitstepError("the step talks to other processes")))


@pytest.mark.parametrize("name", chosen())
def test_no_other_numbers_in_silence(name: str) -> None:
    outcome = kit.run_case(CASES[name])
    assert outcome.outcome in kit.ALLOWED, outcome.line()
