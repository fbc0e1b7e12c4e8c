"""Converts a trace of G10 (platformxlab/G10, its file kernels.config) to a program.

    PYTHONPATH=python python -m fitstep_kit.programs.convert_g10 TRACE OUT.program

A trace lists the kernels of one training step in order, each with its time in cycles of 1.2 GHz and
the tensors that it reads and writes:

    Kernel ID: 4, Name: Conv2d_Forward
    Execution Time: 16564224
    Input Tensors:
    tensor21 Is weight (global)?: 1, Size in byte: 36864, Range:16384--53248
    Output Tensors:
    tensor20 Is weight (global)?: 0, Size in byte: 1416167424, Range:9828384768--11244552192

Global tensors are persistent parameters. A tensor that is read before anything writes it is an
input. An output that exists already is changed in place: as a new version of it. What a kernel
overwrites of its own inputs, or of what outlives the step, it could not make again; every other
kernel is pure.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fitstep_kit.programs.program_text import ProgramText

CYCLE_PS = 2500 / 3  # At 1.2 GHz.
TENSOR = re.compile(r"tensor(\d+) Is weight \(global\)\?: ([01]), Size in byte: (\d+), Range:")
KERNEL = re.compile(r"Kernel ID: *(\d+), Name: *(\S.*)")
TIME = re.compile(r"Execution Time: *(\d+)$")
KINDS = {  # By what a kernel's name begins with; the first that fits.
    "Conv": "convolution", "Linear": "matmul", "GatherV2": "other", "Batch": "normalisation",
    "LayerNorm": "normalisation", "ReLU": "activation", "GeLU": "activation", "Soft": "activation",
    "Tanh": "activation", "MaxPool": "pool", "AdaptiveAvgPool": "pool", "Add": "elementwise",
    "Scale": "elementwise", "Divide": "elementwise", "Multiply": "elementwise", "Sum": "reduction",
    "Apply_Grad": "update",
}  # fmt: skip


class TraceError(Exception):
    """What is wrong with a trace, with file and line."""


@dataclass(frozen=True)
class Tensor:
    """As the trace says of it wherever it names it."""

    number: int
    is_global: bool
    size_bytes: int


@dataclass
class Kernel:
    """One entry of the trace."""

    name: str
    line: int
    cycles: int = -1
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)


class TraceReader:
    """Reads line by line and knows where it is."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()
        self._known: dict[int, tuple[Tensor, int]] = {}  # With the line that named it first.

    def kernels(self) -> list[Kernel]:
        """All kernels, in order. Raises TraceError."""
        found: list[Kernel] = []
        into: list[Tensor] | None = None
        for number, line in enumerate(map(str.strip, self._lines), 1):
            if line.startswith("Kernel ID"):
                self._check_complete(found)
                found.append(self._kernel(number, line))
                into = None
            elif line.startswith(("Execution Time", "Input Tensors", "Output Tensors", "tensor")):
                if not found:
                    raise self._error(number, f"before the first 'Kernel ID': {line!r}")
                into = self._add(number, line, found[-1], into)
            elif into is not None and line.strip("_-="):
                raise self._error(number, f"expected a tensor, found {line!r}")
        self._check_complete(found)
        if not found:
            raise TraceError(f"{self._path}: no line begins with 'Kernel ID'")
        return found

    def _kernel(self, number: int, line: str) -> Kernel:
        match = KERNEL.match(line)
        if match is None:
            raise self._error(number, f"expected 'Kernel ID: <n>, Name: <name>', found {line!r}")
        return Kernel(match[2], number)

    def _add(
        self, number: int, line: str, kernel: Kernel, into: list[Tensor] | None
    ) -> list[Tensor] | None:
        if line.startswith("Execution Time"):
            match = TIME.match(line)
            if match is None:
                raise self._error(number, f"expected 'Execution Time: <cycles>', found {line!r}")
            kernel.cycles = int(match[1])
            return None
        if line.startswith("Input Tensors"):
            return kernel.inputs
        if line.startswith("Output Tensors"):
            return kernel.outputs
        if into is None:
            raise self._error(number, "a tensor outside of 'Input Tensors' and 'Output Tensors'")
        into.append(self._tensor(number, line))
        return into

    def _tensor(self, number: int, line: str) -> Tensor:
        match = TENSOR.match(line)
        if match is None:
            wanted = "tensor<n> Is weight (global)?: <0 or 1>, Size in byte: <bytes>"
            raise self._error(number, f"expected '{wanted}', found {line!r}")
        tensor = Tensor(int(match[1]), match[2] == "1", int(match[3]))
        first, where = self._known.setdefault(tensor.number, (tensor, number))
        if tensor != first:
            raise self._error(number, f"tensor{tensor.number} is another one in line {where}")
        return tensor

    def _check_complete(self, kernels: list[Kernel]) -> None:
        if not kernels:
            return
        last = kernels[-1]
        if last.cycles < 0:
            raise self._error(last.line, f"kernel {last.name} has no 'Execution Time'")
        if not last.outputs:
            raise self._error(last.line, f"kernel {last.name} has no output")

    def _error(self, number: int, sentence: str) -> TraceError:
        return TraceError(f"{self._path}:{number}: {sentence}")


def kind_of(name: str) -> str:
    """The kind of op that a kernel's name stands for."""
    return next((kind for start, kind in KINDS.items() if name.startswith(start)), "other")


def tensors_of(kernels: list[Kernel]) -> Iterator[tuple[Tensor, bool]]:
    """Each tensor once, in the order of its number, and whether it is read before it is written."""
    first_read: dict[int, bool] = {}
    tensors: dict[int, Tensor] = {}
    for kernel in kernels:
        for tensors_there, is_read in ((kernel.inputs, True), (kernel.outputs, False)):
            for tensor in tensors_there:
                tensors[tensor.number] = tensor
                first_read.setdefault(tensor.number, is_read)
    for number in sorted(tensors):
        yield tensors[number], first_read[number]


def convert(kernels: list[Kernel], name: str) -> ProgramText:
    """The program of a trace."""
    program = ProgramText(name)
    storages: dict[Tensor, int] = {}
    for tensor, is_read_first in tensors_of(kernels):
        kind = "parameter" if tensor.is_global else "input" if is_read_first else "temporary"
        storages[tensor] = program.storage(
            f"tensor{tensor.number}",
            tensor.size_bytes,
            kind,
            is_persistent=tensor.is_global,
            has_content=tensor.is_global or is_read_first,
        )
    written: set[Tensor] = set()
    for kernel in kernels:
        outputs = list(dict.fromkeys(kernel.outputs))
        # Without a "read" it would be overwritten as a whole; a trace does not say that it is.
        changed = [t for t in outputs if t in written or t.is_global or t in kernel.inputs]
        inputs = list(dict.fromkeys([*kernel.inputs, *changed]))
        program.op(
            kernel.name,
            kind_of(kernel.name),
            reads=[storages[t] for t in inputs],
            writes=[storages[t] for t in outputs],
            time_ps=round(kernel.cycles * CYCLE_PS),
            is_pure=not changed,
        )
        written.update(outputs)
    return program


def main() -> int:
    """2 if the trace cannot be read or the program not written."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("trace", type=Path, metavar="TRACE")
    parser.add_argument("out", type=Path, metavar="OUT.program")
    args = parser.parse_args()
    try:
        text = args.trace.read_text(encoding="utf-8", errors="replace")
        kernels = TraceReader(str(args.trace), text).kernels()
        program = convert(kernels, args.trace.stem)
        comment = f"From a trace of G10 ({args.trace.name}); times are those of its kernels."
        args.out.write_text(program.text(comment))
    except (OSError, TraceError) as error:
        print(f"convert_g10: {error}", file=sys.stderr)
        return 2
    seconds = sum(k.cycles for k in kernels) * CYCLE_PS / 1e12
    size_bytes = sum(t.size_bytes for t, _ in tensors_of(kernels))
    print(f"{args.out}: {len(kernels)} kernels, {size_bytes} bytes of tensors, {seconds:.6f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
