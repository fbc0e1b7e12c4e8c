"""Runs scripts that train beside plain PyTorch, and keeps what they print.

    PYTHONPATH=python python -m benchmarks.promises.reproducers FOLDER

Each script of the folder says itself where the two differ: they are small trainings that an earlier
fitstep got wrong, written by hand and not by the hunt (tests/hunt), without audits. Some need what
benchmarks/breadth/requirements.txt installs.
"""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.output import ROOT, arguments

# torchvision's compiled operators do not load beside a CPU build of torch.
IMPORTS = (
    "import sys, runpy, importlib.util as u\n"
    "from benchmarks.breadth.tiny_torchvision import import_torchvision\n"
    "if u.find_spec('torchvision'): import_torchvision()\n"
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)


def main() -> int:
    """The number of scripts that ended by an error."""
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    environment = {**os.environ, "FITSTEP_AUDITS": "off", "OMP_NUM_THREADS": "1"}
    failed = 0
    for script in sorted(folder.glob("*.py")):
        needs_packages = any(name in script.read_text() for name in ("transformers", "timm"))
        command = ["-c", IMPORTS, str(script)] if needs_packages else [str(script)]
        answer = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment,
            text=True,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        failed += answer.returncode != 0
        text = answer.stdout.replace(f"{folder}/", "").replace(sys.prefix, "PYTHON")
        print(f"== {script.name}: exit code {answer.returncode}\n{text.rstrip()}\n", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
