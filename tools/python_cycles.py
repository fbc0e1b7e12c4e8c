"""Finds modules of the package that import each other, or against its order; tidy.py asks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

# Each room of the package imports those in front of it; what lies in no room (the API) all.
ROOMS = {name: i for i, name in enumerate(("base", "state", "memory", "follow", "steps"))}


def imported(parts: tuple[str, ...], node: ast.ImportFrom) -> tuple[str, set[str]]:
    """`a` and {"a.B"} of "from .a import B" or "from fitstep.a import B", in the module `parts`."""
    named = (node.module or "").split(".")
    if node.level:
        base = [*parts[: len(parts) - node.level], *filter(None, named)]
    elif named[0] == "fitstep":
        base = named[1:]
    else:
        return "", set()
    return ".".join(base), {".".join([*base, name.name]) for name in node.names}


def graph_of(package: Path) -> dict[str, set[str]]:
    """By module: those that it imports, if only for their types. Names without the package's."""
    trees = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        trees[".".join(parts).removesuffix(".__init__")] = parts, ast.parse(path.read_text())
    graph: dict[str, set[str]] = {}
    for module, (parts, tree) in trees.items():
        seen = graph.setdefault(module, set())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                base, names = imported(parts, node)
                seen |= (names & trees.keys()) or ({base} & trees.keys())
        seen.discard(module)
    return graph


def cycles(root: Path) -> Iterator[str]:
    """Imports against the order of rooms, and cycles of modules."""
    graph = graph_of(root / "python" / "fitstep")
    for module, seen in sorted(graph.items()):
        at = ROOMS.get(module.partition(".")[0], len(ROOMS))
        behind = [one for one in seen if ROOMS.get(one.partition(".")[0], 0) > at]
        yield from (f"python/fitstep: {module} may not import {one}" for one in sorted(behind))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"python/fitstep: {' -> '.join(error.args[1])} import each other"
