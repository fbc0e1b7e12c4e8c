"""Names of what lies in one arena: each stands for one thing, as long as that is there."""

from __future__ import annotations

from collections.abc import Callable


class Names:
    """Given out once each."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[Callable[[], object], str]] = {}
        self._taken: set[str] = set()

    def unique(
        self, identity: tuple[object, ...], alive: Callable[[], object], proposal: str
    ) -> str:
        """The name of what `identity` stands for as long as `alive()` is not None."""
        known = self._known.get(identity)
        if known is not None and known[0]() is not None:
            return known[1]
        name, count = proposal, 1
        while name in self._taken:
            name, count = f"{proposal} ({count + 1})", count + 1
        self._taken.add(name)
        self._known[identity] = (alive, name)
        return name
