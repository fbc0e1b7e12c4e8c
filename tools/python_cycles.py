"""Finds modules of the package that import each other; tidy.py asks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

# Each room of the package imports those in front of it; what lies in no room (the API) all.
ROOMS = {name: i for i, name in enumerate(("base", "state", "memory", "follow", "steps"))}


def cycles(root: Path) -> Iterator[str]:
    """Imports against the order of rooms, and cycles of modules, if only for their types."""
    package = root / "python" / "fitstep"
    graph: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        seen = graph.setdefault(".".join(parts).removesuffix(".__init__"), set())
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            of = [*parts[: len(parts) - node.level], *(node.module or "").split(".")]
            base = ".".join(filter(None, of))
            seen |= {base, *(f"{base}.{name.name}".lstrip(".") for name in node.names)}
    for module, seen in sorted(graph.items()):
        at = ROOMS.get(module.partition(".")[0], len(ROOMS))
        behind = [one for one in seen & graph.keys() if ROOMS.get(one.partition(".")[0], 0) > at]
        yield from (f"python/fitstep: {module} may not import {one}" for one in sorted(behind))
    try:
        TopologicalSorter({m: seen & graph.keys() - {m} for m, seen in graph.items()}).prepare()
    except CycleError as error:
        yield f"python/fitstep: {' -> '.join(error.args[1])} import each other"
