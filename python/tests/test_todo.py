"""Every reason for which an operator is refused has its own line that says what to write."""

from __future__ import annotations

import re
from pathlib import Path

from fitstep.base.todo import todo_for

ROOT = Path(__file__).resolve().parents[2]


def reasons() -> set[str]:
    """The texts that C++ and Python pass to refuse()."""
    sources = [*ROOT.glob("fitstep_torch/*/*.cpp"), *ROOT.glob("python/fitstep/follow/*.py")]
    text = "\n".join(path.read_text() for path in sources)
    found = set(re.findall(r'refuse\((?:(?!refuse\().){0,200}?,\s*"([^"]+)"\s*\)', text, re.DOTALL))
    for name in re.findall(r"refuse\([^;]*?,\s*(k[A-Z]\w+)\)", text):
        definition = "\n".join(path.read_text() for path in ROOT.glob("fitstep_torch/*/*.h"))
        (value,) = re.findall(rf'{name}(?:\[\])?\s*=\s*"([^"]+(?:"\s*"[^"]+)*)"', definition)
        found.add(re.sub(r'"\s*"', "", value))
    return found


def test_every_reason_has_its_own_advice() -> None:
    assert "gives other memory to a tensor that the arena has" in reasons()  # From Python.
    assert "changes the size of the tensor that it writes into (out=)" in reasons()  # A constant.
    assert "talks to other processes" in reasons()
    for why in reasons():
        assert todo_for(why)
