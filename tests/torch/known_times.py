"""Times of operators that tests know, in place of those that this machine had just then.

Which plan is the fastest is a matter of times, and a busy machine measures any. A test of what a
plan does, not of which is chosen, lets everything be profiled once and sets the times afterwards.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fitstep

MILLISECOND_PS = 10**9
PACKERS = ("fitstep::pack_", "fitstep::narrow_")


def set_times(folder: Path) -> None:
    """Of all that profiles in the folder know: a millisecond, and a thousandth for making codes."""
    for path in folder.glob("profile-*.json"):
        profile = json.loads(path.read_text())
        for signature, measured in profile["calls"].items():
            _, rest = measured.split(" ", 1)
            time_ps = MILLISECOND_PS // (1000 if signature.startswith(PACKERS) else 1)
            profile["calls"][signature] = f"{time_ps} {rest}"
        path.write_text(json.dumps(profile))


@contextmanager
def profiled_once(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """Compiles within have a profile of their own, and too little memory; those behind know it,
    with times that are set."""
    monkeypatch.setenv("FITSTEP_CACHE", str(folder))
    with pytest.raises(fitstep.BudgetTooSmall):
        yield
    set_times(folder)
