"""Makes a transformer's trace of G10 from what it publishes, without its analyser.

    PYTHONPATH=python python -m fitstep_kit.programs.rebuild_g10 NETWORK TIMES OUT.config --batch N
        --weights-below ID [--workspace FILE]

NETWORK is a file of frontend/Nets/, one op after the other: its number, kind, inputs and their
shapes, in which 99 stands for the batch. Tensors with numbers below ID are weights. TIMES and
WORKSPACE are files of results/: a kernel, then its ms or bytes, in every line. What comes out is as
`kernels.config` of its analyser, and goes to convert_g10.py.

    bert-256   BERT_Base.txt, BERT_Base/cudnn256.txt, --weights-below 210
    vit-1280   VIT.txt, VIT/cudnn1280.txt, VIT/cudnn1280Workspace.txt, --weights-below 184

A tensor has the shape with which it is read last, and whole pages. Every op has a forward kernel;
then the loss; then, backwards, a kernel that sums the gradients of an output which several ops
read, kernels for the gradients of the inputs, and one that updates a weight.
"""

import argparse
import math
from dataclasses import dataclass, field
from pathlib import Path

PAGE_BYTES = 4096
HERTZ = 1.2e9
LINE = "-------------------"
SOFTMAX_PARTS = 4  # Ops of NETWORK that are one kernel.
FORWARD = {
    "Convolution": "Conv2d_Forward", "Dot": "Linear_Forward", "Relu": "ReLU_Forward",
}  # fmt: skip
OF_OUTPUT_GRADIENT = ("Add", "Subtract")  # Whose gradients need nothing else.


@dataclass
class Op:
    """One op of the network."""

    number: int
    kind: str
    inputs: list[int]


@dataclass(frozen=True)
class Tensor:
    """As the trace names it."""

    number: int
    is_global: bool
    size_bytes: int


@dataclass
class Kernel:
    """One entry of the trace."""

    name: str
    inputs: list[Tensor]
    outputs: list[Tensor]


def read_network(text: str, batch: int) -> tuple[list[Op], dict[int, list[int]]]:
    """Its ops, and the shape of every tensor that one reads."""
    words = iter(text.split())
    ops: list[Op] = []
    shapes: dict[int, list[int]] = {}
    parts = 0  # Of a softmax that has begun.
    for word in words:
        op = Op(int(word), next(words), [])
        op.inputs = [int(next(words)) for _ in range(int(next(words)))]
        for number in op.inputs:
            shape = [int(next(words)) for _ in range(int(next(words)))]
            shapes[number] = [batch if extent == 99 else extent for extent in shape]
        if next(words) != LINE:
            raise ValueError(f"op {op.number}: expected {LINE}")
        parts = parts % SOFTMAX_PARTS + 1 if op.kind == "SoftmaxBasic" else 0
        if parts > 1:
            ops[-1].number = op.number
        else:
            ops.append(op)
    return ops, shapes


@dataclass
class Trace:
    """Grows kernel by kernel."""

    kernels: list[Kernel] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)

    def tensor(self, size_bytes: int, is_global: bool = False) -> Tensor:
        """A new one."""
        pages = math.ceil(size_bytes / PAGE_BYTES)
        self.tensors.append(Tensor(len(self.tensors), is_global, pages * PAGE_BYTES))
        return self.tensors[-1]

    def kernel(self, name: str, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """The next one; what it names twice counts once."""
        self.kernels.append(Kernel(name, list(dict.fromkeys(inputs)), list(dict.fromkeys(outputs))))


class Builder:
    """Forward and backward part of a network."""

    def __init__(self, ops: list[Op], shapes: dict[int, list[int]], weights_below: int) -> None:
        self.trace = Trace()
        self._ops = ops
        self._weights_below = weights_below
        self._tensors: dict[int, Tensor] = {}
        self._gradients: dict[int, list[Tensor]] = {op.number: [] for op in ops}  # Of outputs.
        self._of_inputs: dict[int, list[Tensor | None]] = {}  # By op.
        for op in ops:
            shapes.setdefault(op.number, shapes[op.inputs[0]])
            for number in (op.number, *op.inputs):
                if number not in self._tensors:
                    size_bytes = 4 * math.prod(shapes[number])
                    made = self.trace.tensor(size_bytes, number < weights_below)
                    self._tensors[number] = made
            self._of_inputs[op.number] = [self._gradient(op, number) for number in op.inputs]
        loss = self.trace.tensor(self._tensors[ops[-1].number].size_bytes)
        self._gradients[ops[-1].number].append(loss)

    def build(self) -> Trace:
        """All kernels in order."""
        for op in self._ops:
            name = FORWARD.get(op.kind, f"{op.kind}_Forward")
            self.trace.kernel(name, self._inputs(op), [self._tensors[op.number]])
        last = self._ops[-1].number
        self.trace.kernel("makeLoss", [self._tensors[last]], self._gradients[last][:1])
        for op in reversed(self._ops):
            gradients = self._gradients[op.number]
            if len(gradients) > 1:
                self.trace.kernel("Add_MultiGredient", gradients, gradients[:1])
            self._backward(op, gradients[0])
        return self.trace

    def _gradient(self, op: Op, number: int) -> Tensor | None:
        """A new one for this input, if it has one."""
        is_made = number in self._gradients
        if not is_made and (number >= self._weights_below or op.kind == "Power"):
            return None
        gradient = self.trace.tensor(self._tensors[number].size_bytes)
        if is_made:
            self._gradients[number].append(gradient)
        return gradient

    def _inputs(self, op: Op) -> list[Tensor]:
        return [self._tensors[number] for number in op.inputs]

    def _backward(self, op: Op, output: Tensor) -> None:
        kernel = self.trace.kernel
        inputs, gradients = self._inputs(op), self._of_inputs[op.number]
        known = [gradient for gradient in gradients if gradient is not None]
        updated = [
            (weight, gradient)
            for weight, gradient in zip(inputs, gradients, strict=True)
            if weight.is_global and gradient is not None
        ][-1:]
        if op.kind in ("Dot", "Convolution", "GatherV2"):
            [(weight, of_weight)] = updated
            value, of_value = next(
                pair for pair in zip(inputs, gradients, strict=True) if not pair[0].is_global
            )
            of_both = [of_weight] if of_value is None else [of_weight, of_value]
            if op.kind == "GatherV2":
                kernel("GatherV2_Backward", [output, value], of_both)
            else:
                name = "Linear" if op.kind == "Dot" else "Conv2d"
                kernel(f"{name}_Backward_Weight", [output, value], [of_weight])
                if of_value is not None:
                    kernel(f"{name}_Backward_Input", [weight, output], [of_value])
        elif op.kind in OF_OUTPUT_GRADIENT:
            kernel(f"{op.kind}_Backward", [output], known)
        elif op.kind in ("BatchMatMul", "Multiply"):
            for gradient, other in zip(gradients, reversed(inputs), strict=True):
                if gradient is not None:
                    kernel(f"{op.kind}_Backward", [output, other], [gradient])
        elif op.kind == "Divide":
            if gradients[0] is not None:
                kernel("Divide_Backward_A", [inputs[1], output], [gradients[0]])
            if gradients[1] is not None:
                result = self._tensors[op.number]
                kernel("Divide_Backward_B", [inputs[1], result, output], [gradients[1]])
        else:
            name = "ReLU" if op.kind == "Relu" else op.kind
            kernel(f"{name}_Backward", [output, *inputs], known)
        for weight, gradient in updated:
            label = "Linear_Apply_Grad_Weight" if op.kind == "Dot" else "Apply_Grad"
            kernel(label, [weight, gradient], [weight])


def column(path: Path) -> list[str]:
    """The second word of every line."""
    return [line.split()[1] for line in path.read_text().splitlines()]


def text_of(trace: Trace, milliseconds: list[str]) -> str:
    """As `kernels.config`."""
    if len(milliseconds) != len(trace.kernels):
        raise ValueError(f"{len(trace.kernels)} kernels, but {len(milliseconds)} times")
    lines = []
    for index, (kernel, ms) in enumerate(zip(trace.kernels, milliseconds, strict=True)):
        lines += [f"Kernel ID: {index}, Name: {kernel.name}"]
        lines += [f"Execution Time: {int(float(ms) * HERTZ / 1000)}"]
        for title, tensors in (("Input", kernel.inputs), ("Output", kernel.outputs)):
            lines += [f"{title} Tensors:"]
            for one in tensors:
                lines += [
                    f"tensor{one.number} Is weight (global)?: {int(one.is_global)}, "
                    f"Size in byte: {one.size_bytes}, Range:0--{one.size_bytes}"
                ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("network", type=Path)
    parser.add_argument("times", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--weights-below", type=int, required=True, metavar="ID")
    parser.add_argument("--workspace", type=Path)
    args = parser.parse_args()
    ops, shapes = read_network(args.network.read_text(), args.batch)
    trace = Builder(ops, shapes, args.weights_below).build()
    if args.workspace:
        for kernel, size in zip(trace.kernels, map(int, column(args.workspace)), strict=True):
            if size:
                kernel.outputs.append(trace.tensor(size))
    args.out.write_text(text_of(trace, column(args.times)))
    total = sum(tensor.size_bytes for tensor in trace.tensors)
    print(f"{args.out}: {len(trace.kernels)} kernels, {len(trace.tensors)} tensors, {total} bytes")


if __name__ == "__main__":
    main()
