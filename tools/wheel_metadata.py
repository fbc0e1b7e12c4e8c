"""The metadata of a wheel that depends on the torch with which it is built.

A wheel that is built with torch 2.13.0 has the version "0.1.0+torch2.13" and requires torch 2.13,
of any patch release and build. A source distribution requires the oldest torch or newer.
scikit-build-core calls this class (pyproject.toml).
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "fitstep"
OTHERS = ("numpy", "rich")  # What `import fitstep` needs beside torch, which does without numpy.


class WheelMetadata:
    def __init__(self) -> None:
        self._is_wheel = True

    def build_state(self, state: str) -> None:
        self._is_wheel = state != "sdist"

    def dynamic_metadata(
        self, settings: Mapping[str, Any], project: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The fields `version` and `dependencies` of the project."""
        versions = runpy.run_path(str(PACKAGE / "versions.py"))
        source = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
        found = re.search(r'^__version__ = "(.+)"', source, re.MULTILINE)
        assert found is not None
        version = found.group(1)
        if not self._is_wheel:
            oldest = versions["text_of"](versions["OLDEST"])
            return {"version": version, "dependencies": [f"torch>={oldest}", *OTHERS]}
        import torch

        minor = versions["minor_of"](torch.__version__)
        dependencies = [f"torch=={minor}.*", *OTHERS]
        return {"version": f"{version}+torch{minor}", "dependencies": dependencies}
