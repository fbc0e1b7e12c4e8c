"""Makes the program of a GPT's training step with about as many ops as wanted, from a seed.

    PYTHONPATH=python python -m fitstep_kit.programs.synthetic_gpt OPS OUT.program [--seed 1]

For measuring how the planner grows with the program: forward with dropout, backward, AdamW as
PyTorch's loop over parameters does it, 150 ops a layer. Layers are alike but not equal: the width
of the attention and of the MLP is drawn for each, so that no two have the same sizes.
"""

import argparse
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

from fitstep_kit.programs.program_text import ProgramText

# Narrow and with few words, so that what a layer saves outweighs its weights and the loss.
WIDTH = 512
TOKENS = 8192  # 16 rows of 512.
LENGTH = 512
HEADS = 8
VOCABULARY = 4096
FLOAT = 4


@dataclass
class _Layer:
    """What the backward pass needs of a layer's forward pass: weights and saved storages."""

    attention_width: int
    mlp_width: int
    weights: dict[str, int] = field(default_factory=dict)
    saved: dict[str, int] = field(default_factory=dict)


class SyntheticGPT:
    """Builds the step; `program` holds it when `build` is done."""

    def __init__(self, layers: int, seed: int) -> None:
        self._random = random.Random(seed)
        self.program = ProgramText(f"synthetic GPT, {layers} layers, seed {seed}")
        self._layer_count = layers
        self._gradients: dict[int, int] = {}
        self._generator = self.program.storage(
            "generator", 5056, "generator", is_persistent=True, has_content=True
        )

    def build(self) -> ProgramText:
        """Forward, loss, backward, updates."""
        program = self.program
        tokens = program.storage("tokens", TOKENS * 8, "input", has_content=True)
        targets = program.storage("targets", TOKENS * 8, "input", has_content=True)
        embedding = self._weight("embedding", VOCABULARY * WIDTH)
        layers = [self._make_layer(i) for i in range(self._layer_count)]
        x = self._new(WIDTH)
        program.op("embedding", "other", reads=[embedding, tokens], writes=[x])
        for layer in layers:
            x = self._forward(layer, x)
        gradient = self._head(embedding, x, targets)
        for layer in reversed(layers):
            gradient = self._backward(layer, gradient)
        drop = self._new_of(program.size_bytes(embedding))
        program.op("embedding_backward", "other", reads=[gradient, tokens], writes=[drop])
        self._add_gradient(embedding, drop)
        for weight, made in self._gradients.items():
            self._update(weight, made)
        return program

    def _make_layer(self, index: int) -> _Layer:
        layer = _Layer(
            64 * self._random.randint(WIDTH * 9 // 640, WIDTH * 11 // 640),
            64 * self._random.randint(4 * WIDTH * 9 // 640, 4 * WIDTH * 11 // 640),
        )
        shapes = {
            "norm1": (WIDTH,), "norm1_bias": (WIDTH,),
            "qkv": (WIDTH, 3 * layer.attention_width), "qkv_bias": (3 * layer.attention_width,),
            "out": (layer.attention_width, WIDTH), "out_bias": (WIDTH,),
            "norm2": (WIDTH,), "norm2_bias": (WIDTH,),
            "up": (WIDTH, layer.mlp_width), "up_bias": (layer.mlp_width,),
            "down": (layer.mlp_width, WIDTH), "down_bias": (WIDTH,),
        }  # fmt: skip
        for name, shape in shapes.items():
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            layer.weights[name] = self._weight(f"layers.{index}.{name}", count)
        return layer

    def _forward(self, layer: _Layer, x: int) -> int:
        w, saved, wide = layer.weights, layer.saved, layer.attention_width
        saved["x"] = x
        saved["n1"] = self._norm(layer, "norm1", x)
        saved["qkv"] = self._linear(saved["n1"], w["qkv"], w["qkv_bias"], WIDTH, 3 * wide)
        saved["mixed"] = self._new(wide)
        saved["sums"] = self._new_of(TOKENS * HEADS * FLOAT)
        self.program.op(
            "attention", "attention", reads=[saved["qkv"]], writes=[saved["mixed"], saved["sums"]],
            flops=4 * TOKENS * LENGTH * wide,
        )  # fmt: skip
        out = self._linear(saved["mixed"], w["out"], w["out_bias"], wide, WIDTH)
        saved["mask1"], dropped = self._dropout(out)
        saved["x2"] = self._result("add", [x, dropped], WIDTH)
        saved["n2"] = self._norm(layer, "norm2", saved["x2"])
        saved["up"] = self._linear(saved["n2"], w["up"], w["up_bias"], WIDTH, layer.mlp_width)
        saved["gelu"] = self._result("gelu", [saved["up"]], layer.mlp_width, "activation")
        down = self._linear(saved["gelu"], w["down"], w["down_bias"], layer.mlp_width, WIDTH)
        saved["mask2"], dropped = self._dropout(down)
        return self._result("add", [saved["x2"], dropped], WIDTH)

    def _backward(self, layer: _Layer, gradient: int) -> int:
        saved, wide = layer.saved, layer.attention_width
        undropped = self._result("mul", [gradient, saved["mask2"]], WIDTH)
        d_gelu = self._linear_back(layer, "down", saved["gelu"], undropped, layer.mlp_width, WIDTH)
        d_up = self._result("gelu_backward", [d_gelu, saved["up"]], layer.mlp_width, "activation")
        d_norm = self._linear_back(layer, "up", saved["n2"], d_up, WIDTH, layer.mlp_width)
        d_x2 = self._norm_back(layer, "norm2", saved["x2"], d_norm)
        self.program.op("add_", "elementwise", reads=[d_x2, gradient], writes=[d_x2])
        undropped = self._result("mul", [d_x2, saved["mask1"]], WIDTH)
        d_mixed = self._linear_back(layer, "out", saved["mixed"], undropped, wide, WIDTH)
        d_qkv = self._new(3 * wide)
        self.program.op(
            "attention_backward", "attention",
            reads=[d_mixed, saved["qkv"], saved["mixed"], saved["sums"]], writes=[d_qkv],
            flops=10 * TOKENS * LENGTH * wide,
        )  # fmt: skip
        d_norm = self._linear_back(layer, "qkv", saved["n1"], d_qkv, WIDTH, 3 * wide)
        d_x = self._norm_back(layer, "norm1", saved["x"], d_norm)
        self.program.op("add_", "elementwise", reads=[d_x, d_x2], writes=[d_x])
        return d_x

    def _head(self, embedding: int, x: int, targets: int) -> int:
        program, flops = self.program, 2 * TOKENS * WIDTH * VOCABULARY
        logits = self._new(VOCABULARY)
        program.op("mm", "matmul", reads=[x, embedding], writes=[logits], flops=flops)
        scores = self._result("log_softmax", [logits], VOCABULARY, "activation")
        loss = program.storage("loss", FLOAT, "output")
        program.op("nll_loss", "reduction", reads=[scores, targets], writes=[loss])
        d_scores = self._result("nll_loss_backward", [targets, scores], VOCABULARY, "reduction")
        d_logits = self._result(
            "log_softmax_backward", [d_scores, scores], VOCABULARY, "activation"
        )
        d_weight = self._new_of(program.size_bytes(embedding))
        program.op("mm", "matmul", reads=[d_logits, x], writes=[d_weight], flops=flops)
        self._add_gradient(embedding, d_weight)
        d_x = self._new(WIDTH)
        program.op("mm", "matmul", reads=[d_logits, embedding], writes=[d_x], flops=flops)
        return d_x

    def _linear(self, x: int, weight: int, bias: int, inputs: int, outputs: int) -> int:
        y = self._new(outputs)
        flops = 2 * TOKENS * inputs * outputs
        self.program.op("addmm", "matmul", reads=[bias, x, weight], writes=[y], flops=flops)
        return y

    def _linear_back(
        self, layer: _Layer, name: str, x: int, gradient: int, inputs: int, outputs: int
    ) -> int:
        """Data gradient, weight gradient, bias gradient: autograd's order."""
        program, flops = self.program, 2 * TOKENS * inputs * outputs
        weight, bias = layer.weights[name], layer.weights[f"{name}_bias"]
        d_x = self._new(inputs)
        program.op("mm", "matmul", reads=[gradient, weight], writes=[d_x], flops=flops)
        d_weight = self._new_of(program.size_bytes(weight))
        program.op("mm", "matmul", reads=[gradient, x], writes=[d_weight], flops=flops)
        self._add_gradient(weight, d_weight)
        d_bias = self._new_of(program.size_bytes(bias))
        program.op("sum", "reduction", reads=[gradient], writes=[d_bias])
        self._add_gradient(bias, d_bias)
        return d_x

    def _norm(self, layer: _Layer, name: str, x: int) -> int:
        y = self._new(WIDTH)
        mean, deviation = self._new(1), self._new(1)
        layer.saved[f"{name}_mean"], layer.saved[f"{name}_deviation"] = mean, deviation
        weights = [layer.weights[name], layer.weights[f"{name}_bias"]]
        self.program.op(
            "layer_norm", "normalisation", reads=[x, *weights], writes=[y, mean, deviation]
        )
        return y

    def _norm_back(self, layer: _Layer, name: str, x: int, gradient: int) -> int:
        d_x = self._new(WIDTH)
        made = [self._new_of(WIDTH * FLOAT), self._new_of(WIDTH * FLOAT)]
        saved = [layer.saved[f"{name}_mean"], layer.saved[f"{name}_deviation"]]
        weight, bias = layer.weights[name], layer.weights[f"{name}_bias"]
        self.program.op(
            "layer_norm_backward", "normalisation", reads=[gradient, x, *saved, weight],
            writes=[d_x, *made],
        )  # fmt: skip
        self._add_gradient(weight, made[0])
        self._add_gradient(bias, made[1])
        return d_x

    def _dropout(self, x: int) -> tuple[int, int]:
        mask = self._new_of(TOKENS * WIDTH)
        self.program.op("bernoulli", "random", writes=[mask], draws_from=self._generator)
        return mask, self._result("mul", [x, mask], WIDTH)

    def _update(self, weight: int, gradient: int) -> None:
        """The nine ops of AdamW."""
        program, size = self.program, self.program.size_bytes(weight)
        mean, square, count = (
            program.storage(f"{what} of {weight}", bytes_, "optimizer_state", is_persistent=True,
                            has_content=True)
            for what, bytes_ in (("mean", size), ("square", size), ("count", FLOAT))
        )  # fmt: skip
        program.op("add_", "update", reads=[count], writes=[count])
        program.op("mul_", "update", reads=[weight], writes=[weight])
        program.op("lerp_", "update", reads=[mean, gradient], writes=[mean])
        program.op("mul_", "update", reads=[square], writes=[square])
        program.op("addcmul_", "update", reads=[square, gradient], writes=[square])
        root, scaled = self._new_of(size), self._new_of(size)
        program.op("sqrt", "update", reads=[square], writes=[root])
        program.op("div", "update", reads=[root], writes=[scaled])
        program.op("add_", "update", reads=[scaled], writes=[scaled])
        program.op("addcdiv_", "update", reads=[weight, mean, scaled], writes=[weight])

    def _add_gradient(self, weight: int, gradient: int) -> None:
        known = self._gradients.setdefault(weight, gradient)
        if known != gradient:
            self.program.op("add_", "elementwise", reads=[known, gradient], writes=[known])

    def _weight(self, name: str, count: int) -> int:
        return self.program.storage(
            name, count * FLOAT, "parameter", is_persistent=True, has_content=True
        )

    def _result(self, name: str, reads: list[int], width: int, kind: str = "elementwise") -> int:
        made = self._new(width)
        self.program.op(name, kind, reads=reads, writes=[made])
        return made

    def _new(self, width: int) -> int:
        return self._new_of(TOKENS * width * FLOAT)

    def _new_of(self, size_bytes: int) -> int:
        return self.program.storage("t", size_bytes)


def op_count(layers: int) -> int:
    """Ops of a step; linear in its layers, and the same for every seed."""
    one, two = (SyntheticGPT(count, 1).build().op_count for count in (1, 2))
    return one + (two - one) * (layers - 1)


def layers_for(ops: int) -> int:
    """The layers whose step comes closest to so many ops; at least one."""
    one, two = op_count(1), op_count(2)
    return max(1, 1 + round((ops - one) / (two - one)))


def make(ops: int, seed: int) -> str:
    """The text of the program file."""
    comment = f"Made by fitstep_kit.programs.synthetic_gpt {ops} --seed {seed}. No times."
    return SyntheticGPT(layers_for(ops), seed).build().text(comment)


def main() -> int:
    """Writes one program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("ops", type=int, metavar="OPS")
    parser.add_argument("out", type=Path, metavar="OUT.program")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    text = make(args.ops, args.seed)
    args.out.write_text(text)
    print(f"{args.out}: {text.splitlines()[-1]}, {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
