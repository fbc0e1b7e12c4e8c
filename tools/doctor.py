"""Say everything that is missing for building and running with this interpreter, all at once.

    python tools/doctor.py [build|test|demo|bench|lint ...]

Installs nothing and needs no network. Exit status 1 and one message if anything is missing.
"""

from __future__ import annotations

import argparse
import importlib
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEPS = ROOT / ".deps" / "usr"
# What depends on torch's version. `import fitstep` would ask for the module that is not built yet.
VERSIONS: dict[str, Any] = runpy.run_path(str(ROOT / "python" / "fitstep" / "versions.py"))
# What each command needs besides torch and the build tools. Tests that need more than this (such
# as transformers) say so and are skipped without it.
MODULES = {
    "build": ["rich", "numpy"],
    "test": ["rich", "numpy", "pytest", "xdist", "hypothesis"],
    "demo": ["rich", "numpy", "sklearn"],
    "bench": ["rich", "numpy", "sklearn", "transformers"],
    "lint": ["numpy", "pytest"],
}
PACKAGES = {"sklearn": "scikit-learn", "xdist": "pytest-xdist"}  # Where names differ.
PROGRAMS = {"lint": ["clang-format", "clang-tidy", "mypy", "ruff"]}
# Header that proves a library is there, and the package that brings it.
HEADERS = {
    "fmt/format.h": "libfmt-dev",
    "nlohmann/json.hpp": "nlohmann-json3-dev",
    "CLI/CLI.hpp": "libcli11-dev",
    "zstd.h": "libzstd-dev",
    "xxhash.h": "libxxhash-dev",
    "gtest/gtest.h": "libgtest-dev",
    "rapidcheck.h": "librapidcheck-dev",
}


def version_of(text: str) -> tuple[int, ...]:
    """The first dotted number in `text`: "cmake version 3.25.1" gives (3, 25, 1)."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def check_python() -> list[str]:
    faults = []
    if sys.version_info < (3, 10):  # noqa: UP036  (it is what we are here to say)
        faults.append(f"Python {sys.version.split()[0]} is older than 3.10")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = [Path(sysconfig.get_paths()["include"]), DEPS / "include" / version]
    if not any((folder / "Python.h").exists() for folder in folders):
        faults.append(f"Python.h of {version} (Debian package lib{version}-dev, or in .deps)")
    return faults


def check_torch() -> list[str]:
    """Says of a newer torch than the tested ones only that it is one; a step tries it first."""
    oldest = VERSIONS["text_of"](VERSIONS["OLDEST"])
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("torch.utils._pytree")
    except ImportError as error:
        return [f"torch {oldest} or newer ({error})"]
    version = str(torch.__version__)
    if fault := VERSIONS["too_old"](version):
        return [fault]
    if missing := VERSIONS["missing_names"](torch):
        return [f"a torch with {', '.join(missing)}, which torch {version} does not have"]
    if VERSIONS["is_untested"](version):
        print(VERSIONS["untested"](version), file=sys.stderr)
    return []


def check_modules(names: set[str]) -> list[str]:
    faults = []
    for name in sorted(names):
        try:
            importlib.import_module(name)
        except ImportError as error:
            package = PACKAGES.get(name, name)
            faults.append(f"Python package {package} ({error})")
    return faults


def check_build_tools() -> list[str]:
    faults = []
    cmake = shutil.which("cmake")
    if cmake is None:
        faults.append("cmake 3.22 or newer (Python package cmake, or Debian package cmake)")
    else:
        answer = subprocess.run([cmake, "--version"], capture_output=True, text=True, check=False)
        if version_of(answer.stdout) < (3, 22):
            faults.append(f"cmake 3.22 or newer ({cmake} says {answer.stdout.splitlines()[:1]})")
    if shutil.which("ninja") is None:
        faults.append("ninja (Python package ninja, or Debian package ninja-build)")
    return faults


def compiles(source: str, *options: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.cpp"
        path.write_text(source)
        command = ["c++", "-std=c++20", "-fsyntax-only", *options, str(path)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def check_compiler() -> list[str]:
    if shutil.which("c++") is None:
        return ["a C++ compiler (Debian package g++)"]
    if not compiles("#include <compare>\n#include <span>\n"):
        return ["a C++20 compiler: c++ does not know <span> (g++ 11 or newer does)"]
    faults = []
    for header, package in HEADERS.items():
        if not compiles(
            f"#if !__has_include(<{header}>)\n#error\n#endif\n", "-isystem", str(DEPS / "include")
        ):
            faults.append(
                f"<{header}> (package {package}; `make deps` puts it into .deps, "
                "which can also be copied from another machine)"
            )
    return faults


def check_programs(names: set[str]) -> list[str]:
    return [
        f"{name} (see tools/requirements-lint.txt)"
        for name in sorted(names)
        if shutil.which(name) is None
    ]


CHECKS: list[Callable[[], list[str]]] = [
    check_python,
    check_torch,
    check_build_tools,
    check_compiler,
]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("goals", nargs="*", metavar="GOAL", help=" ".join(MODULES))
    goals = set(parser.parse_args(arguments).goals) or {"build"}
    if unknown := goals - set(MODULES):
        parser.error(f"no goal {', '.join(sorted(unknown))}; there are {' '.join(MODULES)}")
    missing = [fault for check in CHECKS for fault in check()]
    missing += check_modules({name for goal in goals for name in MODULES[goal]})
    missing += check_programs({name for goal in goals for name in PROGRAMS.get(goal, [])})
    if not missing:
        return 0
    print(f"fitstep cannot be built with {sys.executable}; missing or unsuitable:", file=sys.stderr)
    for fault in missing:
        print(f"  - {fault}", file=sys.stderr)
    print(
        "Nothing was installed. Without PYTHON=..., make sets up a .venv and .deps by itself.",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
