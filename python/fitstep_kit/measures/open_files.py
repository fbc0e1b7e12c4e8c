"""The files that this process has open, also those without a name."""

import os
from pathlib import Path


def open_files(folder: Path) -> list[str]:
    """What this process has open of a folder, also where it has no name any more."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            continue
        if path.startswith(str(folder)):
            found.append(path)
    return found
