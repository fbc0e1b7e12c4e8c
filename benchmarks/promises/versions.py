"""Which tests ran with which torch: docs/reference/versions.md and results/versions.json.

    python -m benchmarks.promises.versions [VERSION ...] [--only PART ...] [--failed]

Parts: build (`make module`), unit (python/tests), tests (tests/torch), same_bits (its short
form).
Each version has an environment of its own (`make ... TORCH=VERSION`), except the one of
tools/requirements.txt. Raw output goes to results/versions/VERSION-PART.txt. Without a version only
the table is written again. Parts that were not run keep what an earlier run has said. With
`--failed` pytest runs again what failed last time, and the table adds up both runs.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.output import RESULTS, ROOT, Row, arguments, save

RAW = RESULTS / "versions"
PAGE = ROOT / "docs" / "reference" / "versions.md"
START, END = "<!-- table -->\n", "<!-- end of the table -->\n"
PARTS = ("build", "unit", "tests", "same_bits")
HEADS = ("builds", "`python/tests`", "`tests/torch`", "`same_bits --small`")
FACTS = "import json, sys, torch; print(json.dumps([torch.__version__, sys.version.split()[0]]))"


def default_version() -> str:
    """The torch of `.venv`."""
    text = (ROOT / "tools" / "requirements.txt").read_text()
    found = re.search(r"^torch==(\S+)$", text, re.MULTILINE)
    assert found is not None
    return found.group(1)


def beside(version: str) -> str:
    """What the Makefile appends to the names of folders for this version."""
    return "" if version == default_version() else f"-{version}"


def command_for(part: str, version: str) -> list[str]:
    """The command of a part, to be run from the root."""
    if part == "build":
        of = [] if version == default_version() else [f"TORCH={version}"]
        return ["make", "module", *of]
    python = f".venv{beside(version)}/bin/python"
    if part == "same_bits":
        return [python, "-m", "benchmarks.promises.same_bits", "--small"]
    folder = {"unit": "python/tests", "tests": "tests/torch"}[part]
    return [python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-rfE", folder]


def verdict_of(part: str, status: int, output: str) -> str:
    """What the table says: "yes", "859 passed, 3 skipped", "16 of 16"."""
    if part == "build":
        return "yes" if status == 0 else "no"
    if part == "same_bits":
        found = re.search(r"^(\d+) of (\d+) runs have the same bits", output, re.MULTILINE)
        return f"{found[1]} of {found[2]} runs" if found else f"stopped with code {status}"
    last_line = "".join(output.splitlines()[-1:])
    counts = re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", last_line)
    return ", ".join(f"{n} {what}" for n, what in counts) or f"stopped with code {status}"


def added(before: str, now: str) -> str:
    """The verdict on two runs of pytest, the second of which ran what had failed."""
    counts: dict[str, int] = {}
    for n, what in re.findall(r"(\d+) (\w+)", before) + re.findall(r"(\d+) (\w+)", now):
        counts[what] = counts.get(what, 0) + int(n)
    for what in ("failed", "error", "errors"):  # Of the first run, they ran again.
        counts[what] = sum(int(n) for n in re.findall(rf"(\d+) {what}\b", now))
    return ", ".join(f"{n} {what}" for what, n in counts.items() if n)


def run(part: str, version: str, before: str | None = None) -> str:
    """Runs one part, keeps its output, and gives its verdict. `before`: the verdict on the run
    whose failures run again; None runs all."""
    command = command_for(part, version) + ([] if before is None else ["--last-failed"])
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_WAIT_POLICY": "passive"}
    env["FITSTEP_BESIDE"] = beside(version)
    start = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    seconds = time.monotonic() - start
    venv = f".venv{beside(version)}"
    output = done.stdout.replace(f"{ROOT}/", "").replace(str((ROOT / venv).resolve()), venv)
    ending = f"exit code {done.returncode} after {seconds:.0f} s\n"
    RAW.mkdir(parents=True, exist_ok=True)
    text = f"$ {' '.join(command)}\n{output}{ending}"
    (RAW / f"{version}-{part}{'' if before is None else '-again'}.txt").write_text(text)
    verdict = verdict_of(part, done.returncode, output)
    verdict = verdict if before is None else added(before, verdict)
    print(f"torch {version} {part}: {verdict} ({seconds:.0f} s)", flush=True)
    return verdict


def facts_of(version: str) -> list[str]:
    """The build of torch in the version's environment, and its Python; nothing without one."""
    python = ROOT / f".venv{beside(version)}" / "bin" / "python"
    if not python.exists():
        return ["", ""]
    done = subprocess.run([python, "-c", FACTS], capture_output=True, text=True, check=True)
    facts: list[str] = json.loads(done.stdout)
    return facts


def table(rows: list[Row]) -> str:
    """The rows as Markdown, the newest torch first."""
    lines = ["| torch | Python | " + " | ".join(HEADS) + " |", "| --- " * 6 + "|"]
    for row in sorted(rows, key=lambda row: [int(n) for n in row["case"].split(".")], reverse=True):
        is_default = row["case"] == default_version()
        missing = {part: "at every change" for part in ("unit", "tests") if is_default}
        said = [row.get(part) or missing.get(part, "not run") for part in PARTS]
        lines.append("| " + " | ".join([row["torch"] or row["case"], row["python"], *said]) + " |")
    return "\n".join(lines) + "\n"


def kept() -> list[Row]:
    path = RESULTS / "versions.json"
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    return rows


def main() -> int:
    """1 if a part has failed."""
    parser = arguments(__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="such as 2.15.0")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--failed", action="store_true", help="only what failed last time")
    args = parser.parse_args()
    rows = {row["case"]: row for row in kept()}
    for version in args.versions:
        row = rows.setdefault(version, {"case": version})
        for part in args.only:
            row[part] = run(part, version, row[part] if args.failed else None)
            row["torch"], row["python"] = facts_of(version)
            save(Path(__file__).stem, {"rows": list(rows.values())}, args.small)
    page = PAGE.read_text()
    before, _, rest = page.partition(START)
    PAGE.write_text(before + START + table(list(rows.values())) + END + rest.partition(END)[2])
    said = [str(rows[version].get(part, "")) for version in args.versions for part in args.only]
    return int(any(re.search("no$|failed|error|stopped", one) for one in said))


if __name__ == "__main__":
    sys.exit(main())
