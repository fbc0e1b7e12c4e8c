"""Every Python number within reach, at one moment.

Two recordings in a row do not show a learning rate that changes every thirty steps, nor a weight
that the user anneals. A snapshot does: before a recording it knows all numbers, after it which of
them the recording changed, and before each later run (guards) which have changed since.
"""

from __future__ import annotations

from dataclasses import dataclass

from fitstep.state.nodes import Node, Owner, Reach, Role
from fitstep.state.rng import GeneratorStates


class _Missing:
    def __repr__(self) -> str:
        return "(not there)"


MISSING = _Missing()


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A Python number (`is_number`) and where it is: `node.get(key)`."""

    node: Node
    key: object
    value: object


@dataclass(frozen=True, slots=True, eq=False)
class NumberChange:
    """An entry that held a number and holds another now; MISSING where there is no number."""

    path: str
    old: object
    new: object
    role: Role
    owned_by: Owner
    node: Node
    key: object


class Snapshot:
    """The numbers within reach, and the states of the generators, when it was taken."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self._numbers = {
            (id(node), _hashable(key)): Number(node, key, value)
            for node, key, value in reach.numbers()
        }
        self._generators = GeneratorStates(reach)

    @classmethod
    def take(cls, reach: Reach) -> Snapshot:
        """The numbers as they are now."""
        return cls(reach)

    @property
    def numbers(self) -> list[Number]:
        """All numbers, in the order of the walk."""
        return list(self._numbers.values())

    def path(self, number: Number) -> str:
        """How a user would write a number."""
        return number.node.entry_path(number.key, self.reach.names)

    def changes(self, after: Snapshot | None = None) -> list[NumberChange]:
        """What is different in `after`, or now. Asked inside `swapped`, before all is put back.

        Entries made since are changes from MISSING, entries that are gone or are no numbers any
        more are changes to MISSING.
        """
        now = after or Snapshot(self.reach)
        found = []
        for name in [*self._numbers, *(n for n in now._numbers if n not in self._numbers)]:
            old, new = self._numbers.get(name), now._numbers.get(name)
            if old is not None and new is not None and same_number(old.value, new.value):
                continue
            number = old or new
            assert number is not None
            node, key = number.node, number.key
            found.append(
                NumberChange(
                    node.entry_path(key, self.reach.names),
                    old.value if old else MISSING,
                    new.value if new else MISSING,
                    *(node.role, node.owned_by, node, key),
                )
            )
        return found

    @staticmethod
    def apply(changes: list[NumberChange]) -> None:
        """Makes for real the changes that a recording made (a flag that the first call sets)."""
        for change in changes:
            if change.new is MISSING:
                change.node.form.drop(change.node.container, change.key)
            else:
                change.node.form.put(change.node.container, change.key, change.new)

    def drawn(self) -> list[str]:
        """Paths of the generators whose state has moved since."""
        return self._generators.moved()

    def restore(self) -> None:
        """Puts every number and generator back. `swapped` does so by itself."""
        for change in self.changes():
            if change.old is MISSING:
                change.node.form.drop(change.node.container, change.key)
            else:
                change.node.form.put(change.node.container, change.key, change.old)
        self._generators.restore()


def same_number(a: object, b: object) -> bool:
    """Whether two numbers would give the same program: equal type and equal bits."""
    # repr tells 0.0 from -0.0 and finds one NaN equal to another, which == does not.
    return a is b or (type(a) is type(b) and repr(a) == repr(b))


def _hashable(key: object) -> object:
    try:
        hash(key)
    except TypeError:
        return ("id", id(key))
    return key
