"""Runs the Python examples of documents, and writes their output anew.

    python -m fitstep_kit.pages        # writes what the examples print into README.md and docs/

The ```python blocks of a page run in order, as one script. A ```text block that follows a python
block shows what it prints. A page in docs/how-to/ starts with the first block of the tutorial. The
code cells of a notebook run in the same way; `make notebook` writes their output.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import tempfile
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = [ROOT / "README.md", TUTORIAL, *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"
SCRIPT = "train.py"  # What messages call the script of a page.
COLUMNS = 98

_BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<shown>.*?)```\n)?", re.DOTALL)

_IMPORT = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)

# What may differ from run to run or between machines, and what is compared in its place.
_UNSTABLE = [
    (r"\n  (codes|packed) .*(\n {9,}.*)*", ""),
    (r"\s+", " "),  # Long lines are wrapped.
    (r"bound (\S+ m?s) \((?:[^()]|\([^()]*\))*\)", r"bound \1"),
    (r"\d[\d.]* (bytes|[KMG]iB|B)\b", "SIZE"),
    (r"SIZE \(SIZE\)", "SIZE"),
    (r"\bbudget=\d+", "budget=N"),
    (r"; operators that differ from run to run in plain PyTorch: [\w:., ]*", ""),
    (r" operators that differ from run to run in plain PyTorch are never .*?(?= pass )", ""),
    (r"\['aten::[^]]*\]", "[]"),  # What a busy machine takes for unrepeatable.
    (r"[\d.]+(e[+-]?\d+)? (ms|s)\b", "TIME"),
    (r"\d+ (ops|kept|recomputed)\b", r"N \1"),
    (r"\d+ ?%", "N %"),
    (r"\d+\.\d+", "X"),
    (r"(SIZE N % TIME \d+ ?)+", "ROWS "),
    (r"\b(plan|auto:) \w+( \+ \w+)*", r"\1 MOVES"),
    (r"\bthe \d+ oldest\b", "the N oldest"),  # As many as measured times allow.
]


@dataclass
class Example:
    """One block of a page."""

    code: str
    shown: str | None  # None where the page does not show what it prints.
    printed: str = ""


def examples_in(text: str) -> list[Example]:
    return [Example(found["code"], found["shown"]) for found in _BLOCK.finditer(text)]


def cells_in(text: str) -> list[Example]:
    """The code cells of a notebook, with what they printed."""
    found = []
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            prints = [one["text"] for one in cell["outputs"] if one["output_type"] == "stream"]
            shown = "".join(line for text in prints for line in text)
            found.append(Example("".join(cell["source"]) + "\n", shown or None))
    return found


def missing(page: Path) -> list[str]:
    """The packages that the examples of a page import and that are not installed."""
    code = "".join(one.code for one in examples_in(page.read_text(encoding="utf-8")))
    names = [found[1] for found in _IMPORT.finditer(code)]
    return [name for name in dict.fromkeys(names) if importlib.util.find_spec(name) is None]


def run(page: Path) -> list[Example]:
    """The examples of the page, run in a folder of their own by one thread."""
    text = page.read_text(encoding="utf-8")
    examples = cells_in(text) if page.suffix == ".ipynb" else examples_in(text)
    first = [] if page.parent.name != "how-to" else examples_in(TUTORIAL.read_text("utf-8"))[:1]
    script = types.ModuleType("train")
    line = 0
    with _empty_folder() as folder:
        for example in first + examples:
            code = compile("\n" * line + example.code, SCRIPT, "exec")
            line += example.code.count("\n")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, script.__dict__)
            example.printed = _wrapped(printed.getvalue().replace(folder, "/home/you"))
    return examples


def stable(text: str) -> str:
    """What of an output is the same in every run."""
    for pattern, replacement in _UNSTABLE:
        text = re.sub(pattern, replacement, text)
    return text.strip()


@contextlib.contextmanager
def _empty_folder() -> Iterator[str]:
    before, threads = os.getcwd(), torch.get_num_threads()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield os.path.realpath(folder)
        finally:
            os.chdir(before)
            torch.set_num_threads(threads)


def _wrapped(text: str) -> str:
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 7)
        lines += textwrap.wrap(line, COLUMNS, subsequent_indent=indent) or [""]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def main() -> None:
    for page in PAGES:
        if lacks := missing(page):
            print(f"left out {page.relative_to(ROOT)}: {', '.join(lacks)} not installed")
            continue
        printed = iter(run(page))

        def block(found: re.Match[str], printed: Iterator[Example] = printed) -> str:
            text = next(printed).printed
            shown = "" if found["shown"] is None else f"\n```text\n{text}```\n"
            return f"```python\n{found['code']}```\n{shown}"

        page.write_text(_BLOCK.sub(block, page.read_text("utf-8")), encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
