"""Everything that only a GPU can show, in at most eight minutes (`make gpu-check`).

    PYTHONPATH=python python -m benchmarks.gpu.check [--small]

Builds what it needs, then runs its parts by worth, each with a share of the time that is left. A
part that fails or takes too long does not stop the others; what was not reached is "not run". One
table, and results/gpu.json. Without a GPU it says so in one line and ends with exit code
0; with one the exit code is 1 if anything was seen that is not as it has to be.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from benchmarks.output import ROOT, Row, arguments, command_of, save, show

SECONDS = 480.0
BUILD = ROOT / "build" / "gpu"
HERE = Path(__file__).parent
TARGETS = ("gpu_tool", "contract_test", "in_tree", "cuda_in_tree")
TRAININGS = ("bits", "gpt", "resnet50", "vgg16", "vgg_e", "gpt_1_3b", "resnet_5x")
# By worth: name, and the most of the whole time that it may take.
PARTS = (
    ("contract", 0.1),
    ("placement", 0.1),
    ("bits", 0.15),
    ("gpt", 0.15),
    ("resnet50", 0.15),
    ("copies", 0.1),
    ("threads", 0.05),
    ("refusal", 0.1),
    ("outside", 0.05),
    ("vgg_e", 0.15),
    ("vgg16", 0.15),
    ("gpt_1_3b", 0.15),
    ("resnet_5x", 0.15),
)
BUILD_SHARE = 0.5
CONTRACT_LINE = re.compile(r"\[ +(OK|FAILED) +\] (\S+)")


@dataclass
class Part:
    """What came of one part."""

    name: str
    outcome: str  # "ok", "bad", "failed", "too slow", "not run"
    seconds: float = 0.0
    rows: list[Row] = field(default_factory=list)
    why: str = ""

    def row(self) -> Row:
        """For the table."""
        checks = [bool(row["good"]) for row in self.rows if "good" in row]
        of = f"{sum(checks)} of {len(checks)}" if checks else None
        why = self.why if len(self.why) <= 60 else self.why[:57] + "..."
        return {
            "case": self.name,
            "outcome": self.outcome,
            "good": of,
            "seconds": f"{self.seconds:.0f}" if self.seconds else None,
            "why": why or None,
        }


def run(command: Sequence[str], seconds: float) -> tuple[str, str, str]:
    """(outcome, standard output, last line of the errors) of a command."""
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # As deterministic algorithms ask.
    }
    try:
        done = subprocess.run(
            list(command), cwd=ROOT, env=env, capture_output=True, text=True, check=False,
            timeout=max(seconds, 1.0),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        text = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        return "too slow", text, f"stopped after {seconds:.0f} s"
    except OSError as error:
        return "failed", "", str(error)
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return ("ok" if done.returncode == 0 else "failed"), done.stdout, lines[-1] if lines else ""


def build(until: float) -> Part:
    """Configures and builds; nothing is fetched."""
    begin = time.monotonic()
    configure = [
        "cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
        "-DFITSTEP_TESTS=ON", "-DFITSTEP_TORCH=ON", f"-DPython_EXECUTABLE={sys.executable}",
    ]  # fmt: skip
    jobs = str(os.cpu_count() or 1)
    compile_ = ["cmake", "--build", str(BUILD), "-j", jobs, "--target", *TARGETS]
    for command in (configure, compile_):
        outcome, output, why = run(command, until - time.monotonic())
        if outcome != "ok":
            errors = [line for line in output.splitlines() if "error" in line.lower()]
            why = errors[0] if errors else why
            return Part("build", outcome, time.monotonic() - begin, why=why)
    return Part("build", "ok", time.monotonic() - begin)


def parsed(name: str, output: str) -> list[Row]:
    """The rows that a part printed, also one that was stopped half-way."""
    if name == "contract":
        verdicts = {case: verdict for verdict, case in CONTRACT_LINE.findall(output)}
        return [{"case": case, "good": verdict == "OK"} for case, verdict in verdicts.items()]
    rows = []
    for line in output.splitlines():
        if line.startswith("{") and line.endswith("}"):
            rows.append(json.loads(line))
    return rows


def check(name: str, seconds: float) -> Part:
    """Runs one part."""
    if name == "contract":
        command = [str(BUILD / "contract_test"), "--gtest_filter=*gpu*"]
    elif name in TRAININGS:
        command = [*command_of(HERE / "trainings.py"), name]
    else:
        tool = str(BUILD / "gpu_tool.so")
        command = [*command_of(HERE / "parts.py"), name, tool]
    begin = time.monotonic()
    outcome, output, why = run(command, seconds)
    rows = parsed(name, output)
    judged = [row["good"] for row in rows if "good" in row]
    has_to_be_judged = name not in ("copies", "outside")
    good = outcome == "ok" and bool(rows) and all(judged)
    good = good and bool(judged or not has_to_be_judged)
    if rows and outcome in ("ok", "failed") and name == "contract":
        outcome = "ok" if good else "bad"
    elif outcome == "ok" and not good:
        outcome = "bad" if rows else "failed"
        why = why if rows else "it printed nothing"
    return Part(name, outcome, time.monotonic() - begin, rows, "" if good else why)


def check_all(seconds: float) -> list[Part]:
    """The build and all parts, in order."""
    begin = time.monotonic()
    parts = [build(begin + seconds * BUILD_SHARE)]
    print(f"build: {parts[0].outcome} ({parts[0].seconds:.0f} s) {parts[0].why}", flush=True)
    for name, share in PARTS:
        left = begin + seconds - time.monotonic()
        if parts[0].outcome != "ok":
            parts.append(Part(name, "not run", why="it was not built"))
            continue
        if left < 5:
            parts.append(Part(name, "not run", why="no time was left"))
            continue
        parts.append(check(name, min(left, seconds * share)))
        show(name, parts[-1].rows)
    return parts


def gpu() -> Row:
    """What GPU it is."""
    of = torch.cuda.get_device_properties(0)
    return {
        "name": of.name,
        "memory_gib": round(of.total_memory / 2**30, 1),
        "capability": f"{of.major}.{of.minor}",
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def main() -> int:
    """0 where nothing is amiss, or where there is no GPU."""
    args = arguments(__doc__).parse_args()
    if not torch.cuda.is_available():
        kind = "for CUDA " + torch.version.cuda if torch.version.cuda else "without CUDA"
        print(f"gpu-check: skipped: no GPU (torch {torch.__version__}, built {kind})")
        return 0
    parts = check_all(SECONDS)
    show(f"gpu-check on {torch.cuda.get_device_name(0)}", [part.row() for part in parts])
    result = {
        "gpu": gpu(),
        "parts": [part.row() | {"rows": part.rows, "why": part.why} for part in parts],
    }
    save("gpu", result, args.small)
    return int(any(part.outcome in ("bad", "failed", "too slow") for part in parts))


if __name__ == "__main__":
    sys.exit(main())
