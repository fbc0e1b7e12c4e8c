"""Build a wheel for this interpreter and its torch into dist/ (`make wheel`).

    python tools/wheel.py

The wheel has fmt, zstd and xxHash inside, and torch's libraries outside: it loads those of the
installed torch. Its tag names the oldest glibc that its symbols allow.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
# Loaded by `import torch` before ours.
OF_TORCH = ("libtorch*.so*", "libc10*.so*", "libgomp*.so*", "libcudart.so*", "libshm.so*")


def run(*command: str) -> None:
    """Runs a command from the root. Raises CalledProcessError."""
    print(f"$ {' '.join(command)}".replace(str(ROOT) + "/", ""), flush=True)
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> int:
    """0 if there is a wheel; prints its path."""
    raw = ROOT / "build" / "raw-wheels"
    shutil.rmtree(raw, ignore_errors=True)
    build = ("pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", str(raw))
    run(sys.executable, "-m", *build, ".")
    (made,) = raw.glob("*.whl")
    DIST.mkdir(exist_ok=True)
    excluded = [option for name in OF_TORCH for option in ("--exclude", name)]
    run(
        *(sys.executable, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", str(DIST)),
        *(*excluded, str(made)),
    )
    name = "-".join(made.name.split("-")[:4])
    (wheel,) = DIST.glob(f"{name}-*.whl")
    print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
