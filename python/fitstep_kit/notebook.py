"""Runs a notebook in a real kernel and keeps its outputs: `make notebook`.

    python -m fitstep_kit.notebook examples/first_steps.ipynb

Needs tools/requirements-notebook.txt. The file gets no counters, ids or times of execution, so
that a second run changes only what was printed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

LIMIT_S = 600


def execute(path: Path) -> float:
    """Runs all cells, writes the outputs into the file, and returns the seconds it took. Raises
    nbclient's CellExecutionError if a cell raises."""
    import nbclient
    import nbformat

    notebook: Any = nbformat.read(path, as_version=4)
    started = time.perf_counter()
    nbclient.NotebookClient(
        notebook, timeout=LIMIT_S, kernel_name="python3", record_timing=False
    ).execute(cwd=str(path.parent))
    seconds = time.perf_counter() - started
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        if cell.cell_type == "code":
            cell.execution_count = None
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = None
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, path)
    return seconds


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"wrote {name} after {execute(Path(name)):.0f} s")
