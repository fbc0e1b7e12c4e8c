"""Write the output of every example in docs/reference/cli.md anew: python tools/cli_docs.py COMMAND

COMMAND is the built fitstep. An example is a block of three backquotes that begins with
"$ fitstep"; what follows in it is replaced by what the command prints. Files that examples write
go to a folder of their own.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "cli.md"
PROGRAMS = ROOT / "benchmarks" / "programs"
BLOCKS = ROOT / "tests" / "fuzz" / "seeds" / "layout"


def output_of(command: Path, line: str, folder: Path) -> str:
    """What the command prints, run in the folder, which has the programs of benchmarks/programs."""
    words = [str(command), *shlex.split(line)[2:]]
    answer = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if answer.returncode == 2:
        raise SystemExit(f"{line}\n{answer.stderr}")
    return answer.stdout


def rewritten(page: str, command: Path) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in (*PROGRAMS.glob("*.program.zst"), *BLOCKS.glob("*.csv")):
            (folder / path.name).symlink_to(path)

        def block(found: re.Match[str]) -> str:
            line = found.group(1)
            return f"```\n{line}\n{output_of(command, line, folder)}```"

        return re.sub(r"```\n(\$ fitstep [^\n]*)\n.*?```", block, page, flags=re.DOTALL)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__)
        return 2
    PAGE.write_text(rewritten(PAGE.read_text(), Path(arguments[0]).resolve()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
