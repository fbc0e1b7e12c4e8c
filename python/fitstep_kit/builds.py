"""Where `make` builds: `build/dev`, or `build/dev-2.15.0` with TORCH=2.15.0."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build_folder(preset: str) -> Path:
    """The build folder of a preset of CMakePresets.json."""
    return ROOT / "build" / (preset + os.environ.get("FITSTEP_BESIDE", ""))
