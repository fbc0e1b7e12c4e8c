"""What every benchmark writes: a table for readers; JSON under results/ for tools."""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
MIB = 1 << 20

Row = dict[str, Any]


def command_of(script: str | Path) -> list[str]:
    """What runs a script of this folder, given its `__file__`, from the root in a process of its
    own."""
    parts = Path(script).resolve().relative_to(ROOT).with_suffix("").parts
    return [sys.executable, "-m", ".".join(parts)]


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--small", action="store_true", help="try the benchmark; writes no results")
    return parser


def machine() -> Row:
    """Where and with what this was measured."""
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line),
        platform.processor(),
    )
    changed = _git("status", "--porcelain", "--untracked-files=no", ":!results")
    commit = _git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")
    return {
        "processor": model,
        "threads": torch.get_num_threads(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit,
    }


def show(title: str, rows: Sequence[Row]) -> None:
    """One table; its columns are the first row's keys."""
    table = Table(title=title)
    for name in rows[0] if rows else ():
        table.add_column(name, no_wrap=True, justify="left" if name == "case" else "right")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    Console(width=400).print(table)  # As wide as its columns are.


def save(name: str, result: Row, small: bool) -> None:
    """Writes `name`.json, unless this was only a try."""
    if small:
        return
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"machine": machine(), **result}, indent=1, sort_keys=True)
    (RESULTS / f"{name}.json").write_text(text + "\n")


def kept_rows(name: str, measured: Sequence[str], small: bool) -> list[Row]:
    """The rows of `name`.json that are of other cases than those `measured` now."""
    path = RESULTS / f"{name}.json"
    if small or not path.exists():
        return []
    rows: list[Row] = json.loads(path.read_text())["rows"]
    return [row for row in rows if row["case"] not in measured]


def mib(size_bytes: float | None) -> str:
    """A size for a table."""
    return "-" if size_bytes is None else f"{size_bytes / MIB:.1f} MiB"


def share(part: float | None, whole: float) -> str:
    """A percentage for a table."""
    return "-" if part is None else f"{100 * part / whole:.1f} %"


def _git(*command: str) -> str:
    answer = subprocess.run(
        ["git", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
