"""Links of documents, for tidy.py: each anchor exists, and the index has every page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

INDEX = PurePosixPath("docs/README.md")

_LINK = re.compile(r"\]\(([\w./-]*)(?:#([^)\s]*))?\)")
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", _CODE.sub("", text), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        base = re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", shown.lower()).strip())
        again = sum(one == base or one.startswith(f"{base}-") for one in found)
        found.add(base if base not in found else f"{base}-{again}")
    return found


def dead_anchors(root: Path, path: PurePosixPath, text: str) -> Iterator[tuple[int, str]]:
    """Links to a heading that its page does not have."""
    if path.suffix != ".md":
        return
    for number, line in enumerate(text.splitlines(), 1):
        for link, anchor in _LINK.findall(line):
            page = root / path.parent / link if link else root / path
            if not anchor or page.suffix != ".md" or not page.exists():
                continue
            if anchor not in anchors_of(page.read_text(encoding="utf-8")):
                yield number, f"{link or path.name} has no heading #{anchor}"


def unlisted(root: Path, paths: list[PurePosixPath]) -> Iterator[str]:
    """Pages under docs/ that the index leaves out: nobody finds them, on the site neither."""
    if INDEX not in paths:
        return
    listed = {link for link, _ in _LINK.findall((root / INDEX).read_text(encoding="utf-8"))}
    for path in paths:
        if path.parts[0] == "docs" and path.suffix == ".md" and path != INDEX:
            name = path.relative_to("docs").as_posix()
            if name not in listed:
                yield f"{path}: {INDEX} does not list this page"
