"""Everything that formats or checks: `make lint`. With --fix, repair what tools can repair.

    python tools/lint.py [--fix] [--thorough] [--jobs N] [STEP ...]

Steps: format tidy functions ruff mypy imports headers commits clang-tidy. All run, even after one
has failed, and each says how long it took. Needs build/lint/compile_commands.json for clang-tidy. A
file that passed clang-tidy is not checked again until it, a header or the configuration changes.
Its static analyzer takes three quarters of its time and is left for --thorough (`make test-long`),
as is fitstep_torch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "lint"
CHECKED_BEHIND = "bce6c3c"  # Older commits stand as they are: results name their hashes.
PASSED = ROOT / ".cache" / "clang-tidy.json"


@dataclass(frozen=True)
class Options:
    fix: bool
    thorough: bool
    jobs: int


def tracked(*patterns: str) -> list[str]:
    """Files that git tracks or would track, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({name for name in answer.stdout.split("\n") if name and (ROOT / name).exists()})


def run(command: Sequence[str]) -> bool:
    """Runs in the root; prints what the tool says only when it is unhappy."""
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        print((answer.stdout + answer.stderr).strip(), flush=True)
    return answer.returncode == 0


def run_all(commands: Sequence[Sequence[str]], jobs: int) -> list[bool]:
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run, commands))


def format_code(options: Options) -> bool:
    mode = ["-i"] if options.fix else ["--dry-run", "-Werror"]
    return run(["clang-format", *mode, *tracked("*.h", "*.cpp")])


def tidy(_: Options) -> bool:
    return run([sys.executable, "tools/tidy.py"])


# At most 70 lines in a function. The other two are limits that lizard has without being asked.
LIZARD = (sys.executable, "-m", "lizard", "--warnings_only", "--length", "70",
          "--CCN", "1000", "--arguments", "100")  # fmt: skip


def functions(options: Options) -> bool:
    """Their length. Tables of the C++ tests may be longer."""
    python = ["python", "tests", "tools", "benchmarks", "examples"]
    cpp = ["fitstep", "fitstep_cuda", "fitstep_torch", "fitstep_torch_cuda", "cli"]
    commands = [
        [*LIZARD, "--languages", "python", *python],
        [*LIZARD, "--languages", "cpp", "--exclude", "*_test.cpp", *cpp],
    ]
    return all(run_all(commands, options.jobs))


def ruff(options: Options) -> bool:
    return run(["ruff", "check", "--quiet", *(["--fix"] if options.fix else [])])


def mypy(_: Options) -> bool:
    return run(["mypy"])


def imports(_: Options) -> bool:
    """The order of the package's rooms, and cycles of its modules."""
    return run(["lint-imports", "--no-logo", "--no-cache"])


def headers(options: Options) -> bool:
    """Each header of the core compiles alone. Where its own source includes it first, the build has
    shown that; tests' sources are compiled behind each other."""
    include = ["-I.", "-isystem", ".deps/usr/include"]
    commands = [
        ["c++", "-std=c++20", "-fsyntax-only", *include, "-x", "c++", "-include", name, "/dev/null"]
        for name in tracked("fitstep/*.h", "fitstep_cuda/*.h", "tests/*.h")
        if name.startswith("tests/") or not _is_first_in_its_source(name)
    ]
    return all(run_all(commands, options.jobs))


def _is_first_in_its_source(header: str) -> bool:
    source = (ROOT / header).with_suffix(".cpp")
    if not source.exists():
        return False
    includes = (line for line in source.read_text().splitlines() if line.startswith("#include"))
    return next(includes, "") == f'#include "{header}"'


def commits(_: Options) -> bool:
    """Messages, by .gitlint; none in a checkout without history."""
    since = f"{CHECKED_BEHIND}..HEAD"
    listed = ["git", "rev-list", since]
    answer = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False)
    return not answer.stdout or run([sys.executable, "-m", "gitlint.cli", "--commits", since])


def fingerprint(name: str, shared: bytes) -> str:
    return hashlib.sha256(shared + (ROOT / name).read_bytes()).hexdigest()


def clang_tidy(options: Options) -> bool:
    """All sources of ours that a build compiles, tests aside."""
    database = json.loads((BUILD / "compile_commands.json").read_text())
    compiled = {
        str(Path(entry["file"]).relative_to(ROOT))
        for entry in database
        if Path(entry["file"]).is_relative_to(ROOT)
    }
    patterns = ["fitstep/*.cpp", "fitstep_cuda/*.cpp", "cli/*.cpp"]
    patterns += ["fitstep_torch/*.cpp"] if options.thorough else []
    names = [
        name for name in tracked(*patterns) if name in compiled and not name.endswith("_test.cpp")
    ]
    left_out: list[str] = []
    if not options.thorough:
        # Without the analyzer clang warns of what the library's own stable_sort uses.
        left_out = ["--checks=-clang-analyzer-*", "--extra-arg=-Wno-deprecated-declarations"]
    shared = hashlib.sha256("".join(left_out).encode())
    for name in [".clang-tidy", *tracked("*.h")]:
        shared.update((ROOT / name).read_bytes())
    marks = {name: fingerprint(name, shared.digest()) for name in names}
    passed = json.loads(PASSED.read_text()) if PASSED.exists() else {}
    todo = [name for name in names if passed.get(name) != marks[name]]
    # Repairs to a header from two files at once would be applied twice.
    jobs = 1 if options.fix else options.jobs
    base = ["clang-tidy", "-p", str(BUILD), "--quiet", *left_out]
    base += ["--fix"] if options.fix else []
    results = run_all([[*base, name] for name in todo], jobs)
    if not options.fix:
        passed |= {name: marks[name] for name, good in zip(todo, results, strict=True) if good}
        PASSED.parent.mkdir(exist_ok=True)
        PASSED.write_text(json.dumps({name: passed[name] for name in names if name in passed}))
    return all(results)


STEPS: dict[str, Callable[[Options], bool]] = {
    "format": format_code,
    "tidy": tidy,
    "functions": functions,
    "ruff": ruff,
    "mypy": mypy,
    "imports": imports,
    "headers": headers,
    "commits": commits,
    "clang-tidy": clang_tidy,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fix", action="store_true", help="repair what tools can repair")
    parser.add_argument("--thorough", action="store_true", help="all that clang-tidy can look at")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=" ".join(STEPS))
    wanted = parser.parse_args(arguments)
    if unknown := set(wanted.steps) - set(STEPS):
        parser.error(f"no step {', '.join(sorted(unknown))}; there are {' '.join(STEPS)}")
    options = Options(fix=wanted.fix, thorough=wanted.thorough, jobs=wanted.jobs)
    failed = []
    for name in wanted.steps or STEPS:
        start = time.monotonic()
        good = STEPS[name](options)
        print(
            f"lint: {name}: {'ok' if good else 'FAILED'} ({time.monotonic() - start:.0f} s)",
            flush=True,
        )
        failed += [] if good else [name]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
