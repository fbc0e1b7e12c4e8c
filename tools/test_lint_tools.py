"""Each outside tool, with our configuration, finds the fault in a small file that must fail."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import lint
import pytest

ROOT = Path(__file__).resolve().parent.parent
CLEAN = "int twice(int count) { return count + count; }\n"

# (what is wrong, source, the check that must find it)
FAULTS = [
    ("a type name", "struct bad_name {};", "readability-identifier-naming"),
    ("a constant's name", "constexpr int answer = 42;", "readability-identifier-naming"),
    ("an implicit constructor", "struct A { A(int) {} };", "google-explicit-constructor"),
    ("NULL", "int* none() { return 0; }", "modernize-use-nullptr"),
    ("a variable never changed", "int f(int a) { int b = a; return b; }", "misc-const-correctness"),
    ("an included header not used", "#include <vector>\nint a();", "misc-include-cleaner"),
    (
        "seven parameters",
        "int f(int a, int b, int c, int d, int e, int g, int h) { return a + b"
        " + c + d + e + g + h; }",
        "readability-function-size",
    ),
    (
        "a function of 80 lines",
        "int f(int a) {\n" + "a = a + 1;\n" * 80 + "return a; }",
        "readability-function-size",
    ),
    ("a division by zero", "int f() { int const zero = 0; return 1 / zero; }", "DivideZero"),
    (
        "use after move",
        "#include <string>\n#include <utility>\nstd::size_t f(std::string a) {\n"
        "std::string const b = std::move(a); return a.size() + b.size(); }",
        "bugprone-use-after-move",
    ),
]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed; `make lint` installs and runs it")
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def run_clang_tidy(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    path = folder / "sample.cpp"
    path.write_text(source)
    config = f"--config-file={ROOT / '.clang-tidy'}"
    return run("clang-tidy", config, "--quiet", str(path), "--", "-std=c++20")


@pytest.mark.parametrize(("what", "source", "check"), FAULTS, ids=[row[0] for row in FAULTS])
def test_clang_tidy_finds(tmp_path: Path, what: str, source: str, check: str) -> None:
    answer = run_clang_tidy(tmp_path, source)
    assert answer.returncode != 0, what
    assert check in answer.stdout


def test_clang_tidy_accepts_a_clean_file(tmp_path: Path) -> None:
    assert run_clang_tidy(tmp_path, CLEAN).returncode == 0


@pytest.mark.parametrize(("source", "status"), [(CLEAN, 0), ("int  twice (int count );\n", 1)])
def test_clang_format(tmp_path: Path, source: str, status: int) -> None:
    path = tmp_path / "sample.cpp"
    path.write_text(source)
    style = f"--style=file:{ROOT / '.clang-format'}"
    assert run("clang-format", "--dry-run", "-Werror", style, str(path)).returncode == status


@pytest.mark.parametrize(("source", "status"), [("a = 1\n", 0), ("import os\n", 1)])
def test_ruff(tmp_path: Path, source: str, status: int) -> None:
    path = tmp_path / "sample.py"
    path.write_text(source)
    config = f"--config={ROOT / 'pyproject.toml'}"
    assert run("ruff", "check", "--no-cache", config, str(path)).returncode == status


@pytest.mark.parametrize(
    ("source", "status"), [("def f(a: int) -> int:\n    return a\n", 0), ("def f(a): ...\n", 1)]
)
def test_mypy(tmp_path: Path, source: str, status: int) -> None:
    path = tmp_path / "sample.py"
    path.write_text(source)
    cache = f"--cache-dir={tmp_path / 'cache'}"
    config = f"--config-file={ROOT / 'pyproject.toml'}"
    assert run("mypy", config, cache, str(path)).returncode == status


@pytest.mark.parametrize(
    ("module", "text", "found"),
    [
        ("memory/a.py", "from ..steps.step import Step\n", "memory is not allowed to import"),
        ("state/a.py", "from fitstep.steps.step import Step\n", "state is not allowed to import"),
        (
            "base/names.py",
            "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from .sources import S\n",
            "cycle",
        ),
        ("alone.py", "", "alone"),  # In no room.
    ],
)
def test_lint_imports_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, text: str, found: str
) -> None:
    package = ROOT / "python" / "fitstep"  # With its modules and rooms, all of them empty.
    (tmp_path / "fitstep").mkdir()
    for path in (*package.glob("*.py"), *package.glob("[a-z]*/")):
        copy = tmp_path / "fitstep" / path.relative_to(package)
        copy.mkdir(parents=True) if path.is_dir() else copy.touch()
    (tmp_path / "fitstep" / "base" / "names.py").touch()
    (tmp_path / "fitstep" / "steps" / "step.py").write_text("from .. import _core\n")
    (tmp_path / "fitstep" / "base" / "sources.py").write_text("from .names import N\n")
    for folder in (tmp_path / "fitstep", *(tmp_path / "fitstep").glob("*/")):
        (folder / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = "lint-imports", "--no-logo", "--no-cache", str(ROOT / "pyproject.toml")
    assert run(*command).returncode == 0
    (tmp_path / "fitstep" / module).write_text(text)
    answer = run(*command)
    assert answer.returncode != 0
    assert found in answer.stdout + answer.stderr


@pytest.mark.parametrize(
    ("name", "begin", "line", "end"),
    [("a.py", "def f():\n", "    g()\n", ""), ("a.cpp", "void f() {\n", "  g();\n", "}\n")],
)
def test_lizard_finds_a_function_of_more_than_70_lines(
    tmp_path: Path, name: str, begin: str, line: str, end: str
) -> None:
    pytest.importorskip("lizard")
    others = len((begin + end).splitlines())
    for count, is_found in [(70, False), (71, True)]:
        (tmp_path / name).write_text(begin + line * (count - others) + end)
        answer = run(*lint.LIZARD, str(tmp_path / name))
        assert ("f has" in answer.stdout) == is_found
        assert (answer.returncode != 0) == is_found
