"""Captures the programs of benchmarks/programs/: whole steady training steps, on fake tensors.

    PYTHONPATH=python python -m fitstep_kit.programs.capture [NAME ...]

No kernel runs and nothing is measured, so any machine writes the same files: a program has the ops,
storages, flops and bytes of its step, but no times and no scratch. Parameters are memory that
nobody touches, so a model of many GB is captured in little more than its program needs.
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from fitstep.follow.maker import Maker
from fitstep.memory.session import Session
from fitstep.memory.settings import Settings
from fitstep.steps.subject import Subject
from torch.utils._python_dispatch import TorchDispatchMode

from fitstep import _core
from fitstep_kit.programs.trainings import TRAININGS, Training

ROOT = Path(__file__).resolve().parents[3]
STORED = ROOT / "benchmarks" / "programs"
HEADER = """\
# {what}
# Captured on fake tensors by fitstep_kit.programs.capture, torch {torch}. Nothing was measured:
# no form has a time, and what kernels request is unknown, so there is no scratch, only results.
"""
MARKS = ("<!-- written by capture.py -->", "<!-- until here -->")
TOUCHED_BYTES = 1 << 16  # Smaller tensors may be filled: buffers, biases.


class UntouchedMemory(TorchDispatchMode):
    """Leaves large new tensors as the system gives them: pages that nobody has touched."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        in_place = function._schema.name.endswith("_") and isinstance(args[0], torch.Tensor)
        if in_place and args[0].nbytes > TOUCHED_BYTES:
            return args[0]
        return function(*args, **(kwargs or {}))


class UnmeasuredCache:
    """What Maker needs of a ProfileCache, without running any kernel."""

    def __init__(self) -> None:
        self.profile = _core.Profile()

    def under(self, _settings: tuple[object, ...]) -> "UnmeasuredCache":
        return self

    def lower(self, segment: Any, session: Session) -> Any:
        return _core.lower(segment)

    def write(self, **_when: Any) -> bool:
        """Nothing was measured, so nothing is kept or taken over."""
        return False


def steady_step(function: Callable[..., Any], example: tuple[Any, ...]) -> Any:
    """The program of the step that follows the first one, as fitstep's own StepProgram."""
    session = Session(Settings("100%"))
    find_reach = Subject(function, None, None).find_reach
    cache: Any = UnmeasuredCache()
    maker = Maker(function, find_reach, session, cache, keep_grads=False)
    return maker.preview(example, {}).variants[-1].step


def capture(name: str, training: Training) -> str:
    """The text of a program file; places in code are relative to the repository."""
    with UntouchedMemory():
        function, example = training.make()
    step = steady_step(function, example)
    step.set_name(name)
    text = step.text().replace(f"{ROOT}/", "")
    text = re.sub(r'"/[^"]*/site-packages/', '"', text)
    head, rest = text.split("\n", 1)
    header = HEADER.format(what=training.what, torch=torch.__version__.partition("+")[0])
    return f"{head}\n{header}{rest}"


def zstd(option: str, content: bytes) -> bytes:
    """What the `zstd` command makes of `content`: Python has no library for it before 3.14."""
    return subprocess.run(
        ["zstd", "-q", option], input=content, capture_output=True, check=True
    ).stdout


def table(folder: Path) -> str:
    """What is in the folder, as a table for its README."""
    rows = ["| Program | Training | Ops | Storages | Plain peak | Parameters | Flops |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for name, training in TRAININGS.items():
        path = folder / f"{name}.program.zst"
        if not path.exists():
            continue
        facts = _core.facts_of_program(zstd("-dc", path.read_bytes()).decode())
        sizes = [_core.format_bytes(facts[key]) for key in ("plain_peak_bytes", "parameter_bytes")]
        numbers = [f"{facts['ops']:,}", f"{facts['storages']:,}", *sizes, f"{facts['flops']:.3g}"]
        rows.append(f"| `{name}` | {training.what} | {' | '.join(numbers)} |")
    return "\n".join(rows) + "\n"


def write_table(folder: Path) -> None:
    """Puts the table between the marks of the folder's README."""
    readme = folder / "README.md"
    head, _, rest = readme.read_text().partition(MARKS[0])
    tail = rest.partition(MARKS[1])[2]
    readme.write_text(f"{head}{MARKS[0]}\n{table(folder)}{MARKS[1]}{tail}")


def write_programs(names: Iterable[str], known: Mapping[str, Training], folder: Path) -> None:
    """Writes NAME.program.zst into the folder for each name of what is known."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        start = time.monotonic()
        text = capture(name, known[name])
        packed = zstd("-19", text.encode())
        (folder / f"{name}.program.zst").write_bytes(packed)
        seconds = time.monotonic() - start
        print(f"{name}: {len(text)} bytes, packed {len(packed)}, {seconds:.0f} s", flush=True)


def main() -> int:
    """Writes the programs that are named, or all that are stored, and their table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(TRAININGS))
    parser.add_argument("--out", type=Path, default=STORED, help="the folder to write to")
    args = parser.parse_args()
    if unknown := sorted({*args.names} - {*TRAININGS}):
        parser.error(f"no training named {', '.join(unknown)}; there are {', '.join(TRAININGS)}")
    write_programs(args.names or TRAININGS, TRAININGS, args.out)
    if args.out == STORED:
        write_table(STORED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
