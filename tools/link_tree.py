"""Lets an environment inside this tree import fitstep: .venv/bin/python tools/link_tree.py

`make demo` calls it. An interpreter from outside the tree (`PYTHON=... make`) is left as it is.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def link(root: Path, prefix: Path, packages: Path) -> Path | None:
    """Writes the file by which Python finds `root`/python; None if `prefix` is not in `root`."""
    if not prefix.is_relative_to(root):
        return None
    path = packages / "fitstep-tree.pth"
    path.write_text(f"{root / 'python'}\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    link(ROOT, Path(sys.prefix), Path(sysconfig.get_path("purelib")))
