"""Numeric arguments of a step function: where a float stands in the program.

A second recording gets other floats. Where a number of the program is the argument's own value in
both recordings, it is written anew before each run. A float that goes into the program in any other
way (1 - weight, a comparison) has its value in the choice of the variant instead, as integers have,
which may be shapes:

    step(x, weight=0.5)   mul(loss, 0.5)       step(x, weight=0.3)   op 17, number 0 := 0.3
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_Place = tuple[int, int]  # (op, number of the op)


@dataclass
class HostNumbers:
    """The numeric arguments of one variant, by argument leaf."""

    fixed: dict[int, object] = field(default_factory=dict)
    places: dict[int, list[_Place]] = field(default_factory=dict)
    now: dict[int, float] = field(default_factory=dict)  # What stands in the program.

    def accept(self, leaves: list[Any]) -> bool:
        """Whether the program can be made right for these arguments."""
        return all(
            type(leaves[i]) is type(value) and repr(leaves[i]) == repr(value)
            for i, value in self.fixed.items()
        )

    def patches(self, leaves: list[Any]) -> list[tuple[int, int, float]]:
        """(op, number, value) of all that is to be written for these arguments."""
        found = []
        for leaf, places in self.places.items():
            value = float(leaves[leaf])
            if repr(value) != repr(self.now[leaf]):
                found += [(op, number, value) for op, number in places]
                self.now[leaf] = value
        return found


class WatchedNumber(float):
    """A float that knows whether Python decided something by its value."""

    decided = False

    def _decide(self, name: str, *others: Any) -> Any:
        self.decided = True
        return getattr(float(self), name)(*others)


def _watch(name: str) -> Any:
    def method(self: WatchedNumber, *others: Any) -> Any:
        return self._decide(name, *others)

    return method


for _name in (
    *("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__", "__int__"),
    *("__hash__", "__trunc__", "__floor__", "__ceil__", "__round__"),
):
    setattr(WatchedNumber, _name, _watch(_name))


def is_number(leaf: Any) -> bool:
    """Whether an argument is a number that selects a variant or is a host parameter."""
    return isinstance(leaf, int | float) and not isinstance(leaf, bool)


def perturbed(leaves: list[Any]) -> list[Any] | None:
    """The arguments with other floats, all different; None if there is no float."""
    floats = [i for i, leaf in enumerate(leaves) if type(leaf) is float]
    if not floats:
        return None
    changed = list(leaves)
    for position, i in enumerate(floats):
        # Stays between 0 and 1 if it was: it may be a probability.
        changed[i] = WatchedNumber(leaves[i] * 0.875 + 0.03125 * (1 + position / len(floats)))
    return changed


def host_numbers(
    step: Any, other: Any, leaves: list[Any], recordings: tuple[Any, Any]
) -> HostNumbers:
    """The numeric arguments of a program; `other` is the one that was recorded with `perturbed`
    arguments, None if there is none or it failed."""
    found = HostNumbers()
    numbers = [i for i, leaf in enumerate(leaves) if is_number(leaf)]
    places = _places(step, other, leaves, recordings) if other is not None else {}
    for i in numbers:
        if places.get(i):
            found.places[i] = places[i]
            found.now[i] = leaves[i]
        else:
            found.fixed[i] = leaves[i]
    return found


def _places(
    step: Any, other: Any, leaves: list[Any], recordings: tuple[Any, Any]
) -> dict[int, list[_Place]]:
    """Places by leaf; none at all where the two programs differ in more than these numbers."""
    changed = recordings[1].arguments
    count = step.op_count()
    if count != other.op_count() or any(step.op(i) != other.op(i) for i in range(count)):
        return {}
    sizes = [[one["size_bytes"] for one in each.storages()] for each in (step, other)]
    if sizes[0] != sizes[1] or recordings[0].literals != recordings[1].literals:
        return {}
    constants = [[r.constant for r in one.results if r.index < 0] for one in recordings]
    if repr(constants[0]) != repr(constants[1]):
        return {}
    floats = [
        i for i, leaf in enumerate(changed) if isinstance(leaf, WatchedNumber) and not leaf.decided
    ]
    found: dict[int, list[_Place]] = {}
    for op, (old, new) in enumerate(zip(step.all_numbers(), other.all_numbers(), strict=True)):
        if len(old) != len(new):
            return {}
        for number, (a, b) in enumerate(zip(old, new, strict=True)):
            if repr(a) == repr(b):
                continue
            pair = (repr(a), repr(b))
            owners = [i for i in floats if pair == (repr(leaves[i]), repr(float(changed[i])))]
            if len(owners) != 1:
                return {}
            found.setdefault(owners[0], []).append((op, number))
    return found
