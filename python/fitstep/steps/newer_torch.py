"""A torch that is newer than the tested ones: tried once, then used with a warning.

    compile --> newer than tested? --> tried before? --> train a small model in another process
                no: nothing            yes: warn         equal bits: warn      else: FitstepError

The verdict "equal bits" lies beside the profiles, one file for each build of torch and of fitstep.
A bad verdict is not kept, so each process tries again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import torch

from ..errors import FitstepError
from ..memory.profile_cache import build, default_folder
from ..versions import NEWEST, is_untested, text_of, untested

SECONDS = 300.0
_is_trial = False  # This process is the one that tries.


def trust_torch() -> None:
    """From now on this process uses torch untried: it is the trial."""
    global _is_trial
    _is_trial = True


def check_torch() -> None:
    """Warns once in a process if torch is newer than all tested ones, after trying it.

    Raises FitstepError if the small training crashes or has other bits than plain PyTorch's.
    """
    version = str(torch.__version__)
    if is_untested(version) and not _is_trial:
        _try_once(version, default_folder())


@functools.cache
def _try_once(version: str, folder: Path) -> None:
    of = "\n".join((version, torch.__config__.show(), str(build())))
    verdict = folder / f"tried-{hashlib.sha256(of.encode()).hexdigest()[:16]}.txt"
    if not verdict.exists():
        fault = fault_of_trial()
        if fault is not None:
            newest = text_of(NEWEST)
            raise FitstepError(
                f"{untested(version)}, and the self-test failed: {fault}",
                todo=f"pip install 'torch=={newest}.*', or report the line above",
            )
        with contextlib.suppress(OSError):  # Then the next process tries again.
            folder.mkdir(parents=True, exist_ok=True)
            verdict.write_text(f"equal bits with torch {version}\n", encoding="utf-8")
    warnings.warn(f"{untested(version)}; the self-test had plain PyTorch's bits", stacklevel=5)


def fault_of_trial() -> str | None:
    """What went wrong in a small training in another process, in one line; None: equal bits."""
    paths = [path for path in sys.path if path]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "fitstep.self_test"],
            env=env, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it did not end in {SECONDS:.0f} s"
    except OSError as error:
        return f"it could not be started ({error})"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line and not line.startswith(" ")]
    return lines[-1] if lines else f"it ended with code {done.returncode}"
