"""Feature maps as papers on memory count them: vDNN, vDNN++, Layrub.

    maps = count_maps(alexnet(), torch.empty(128, 3, 224, 224, device="meta"))

They know layers, not operators: one feature map is the network's input or the output of a
convolution, pool, linear layer, concatenation or sum. Activations and dropout work in place.

    input --conv1--> m1 --pool1--> m2 --conv2--> m3       relu: in m1, in m3
       conv reads input, m2; pool reads m1                largest map L

    base(m)      weights + all maps + 2 L     gradients in two buffers that take turns; more
                                              where a layer's inputs or outputs are several
    Layrub       maps + a gradient of each but the input; where several layers read a map, one
                 more for each of them (Caffe's splits)
    offload all  inputs of convolutions and pools, each once; a concatenation is its parts
    offload conv inputs of convolutions, each once

Runs the forward pass on meta tensors: no memory, milliseconds per layer. A layer's name is its
module's, as in an op's source in a program file.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

KINDS = {
    "conv1d": "convolution",
    "conv2d": "convolution",
    "conv_transpose2d": "convolution",
    "linear": "linear",
    "max_pool2d": "pool",
    "avg_pool2d": "pool",
    "adaptive_avg_pool2d": "pool",
    "adaptive_max_pool2d": "pool",
    "mean": "pool",
    "cat": "concatenation",
    "add": "sum",
    "batch_norm": "batch_norm",
    "local_response_norm": "response_norm",
    "pad": "pad",
}
IN_PLACE = {"relu", "relu_", "leaky_relu", "dropout"}


@dataclass(frozen=True)
class Layer:
    """One layer; maps are numbers into `Maps.sizes_bytes`."""

    name: str  # The module that ran it.
    kind: str  # A value of KINDS.
    inputs: tuple[int, ...]
    output: int


@dataclass
class Maps:
    """The feature maps of one network at one batch size. Map 0 is the network's input."""

    weight_bytes: int
    sizes_bytes: list[int] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)

    def total_bytes(self) -> int:
        """Of all maps."""
        return sum(self.sizes_bytes)

    def largest_bytes(self) -> int:
        """Of one map."""
        return max(self.sizes_bytes)

    def base_bytes(self, gradient_buffers: int = 2) -> int:
        """vDNN's base(m): everything stays, no workspace."""
        return self.weight_bytes + self.total_bytes() + gradient_buffers * self.largest_bytes()

    def least_bytes(self) -> int:
        """vDNN's all(m) without weights: what the layer has that needs most, which is its inputs,
        its output's gradient and its inputs' gradients; the network's input has none."""
        most = 0
        for layer in self.layers:
            inputs = sum(self.sizes_bytes[number] for number in layer.inputs)
            gradients = sum(self.sizes_bytes[number] for number in layer.inputs if number)
            most = max(most, inputs + gradients + self.sizes_bytes[layer.output])
        return most

    def caffe_bytes(self) -> int:
        """Layrub's base: activations and gradients as Caffe keeps them, without weights."""
        readers = [0] * len(self.sizes_bytes)
        for layer in self.layers:
            for number in layer.inputs:
                readers[number] += 1
        maps = list(zip(self.sizes_bytes, readers, strict=True))
        splits = sum(size * count for size, count in maps if count > 1)
        return 2 * self.total_bytes() - self.sizes_bytes[0] + splits

    def offload_bytes(self, kinds: Sequence[str] = ("convolution", "pool")) -> int:
        """What leaves in one step if every input of such layers does."""
        return sum(self.sizes_bytes[number] for number in self.read_by(kinds))

    def read_by(self, kinds: Sequence[str]) -> list[int]:
        """The maps that layers of these kinds read, each once, concatenations as their parts."""
        parts = {one.output: one.inputs for one in self.layers if one.kind == "concatenation"}

        def whole(number: int) -> Iterator[int]:
            if number not in parts:
                yield number
            for part in parts.get(number, ()):
                yield from whole(part)

        readers = [one for one in self.layers if one.kind in kinds]
        return sorted({part for one in readers for read in one.inputs for part in whole(read)})


def count_maps(model: nn.Module, inputs: Tensor, in_place: Sequence[str] = ("batch_norm",)) -> Maps:
    """The maps of one forward pass. REQUIRES: `model` and `inputs` on the meta device.

    Layers of the kinds `in_place` write over their input, as papers count it, even where a shortcut
    reads the same map. An unknown function that makes a new tensor is an error: a map that nobody
    counts would be a wrong figure.
    """
    counter = _Counter(Maps(sum(p.nbytes for p in model.parameters())), in_place)
    counter.map_of(inputs)
    with torch.no_grad(), _module_names(model, counter.modules), counter:
        model(inputs)
    return counter.maps


class _Counter(TorchFunctionMode):
    """Adds a layer for every function that makes a map."""

    def __init__(self, maps: Maps, in_place: Sequence[str]) -> None:
        super().__init__()
        self.maps = maps
        self.in_place = in_place
        self.modules: list[str] = []  # Those that run, the innermost last.
        self.numbers: dict[int, int] = {}  # By storage; `alive` keeps storages apart.
        self.alive: list[Tensor] = []

    def map_of(self, tensor: Tensor) -> int:
        """The tensor's map, a new one if nobody has seen its storage."""
        key = tensor.untyped_storage()._cdata
        if key not in self.numbers:
            self.numbers[key] = len(self.maps.sizes_bytes)
            self.maps.sizes_bytes.append(tensor.untyped_storage().nbytes())
            self.alive.append(tensor)
        return self.numbers[key]

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if not isinstance(result, Tensor):
            return result
        name = getattr(function, "__name__", "")
        storage = result.untyped_storage()._cdata
        read = [t for t in tree_leaves(args) if isinstance(t, Tensor)]
        inputs = [self.numbers.get(t.untyped_storage()._cdata) for t in read]
        known = tuple(number for number in inputs if number is not None)
        if storage in self.numbers or not known:
            return result  # A view, in place, or not made of feature maps.
        kind = KINDS.get(name)
        is_same = name.startswith("adaptive") and result.shape == read[0].shape
        if name in IN_PLACE or kind in self.in_place or is_same:
            self.numbers[storage] = known[0]
            self.alive.append(result)
        elif kind is None:
            raise ValueError(f"{name} makes a feature map of a kind that maps.py does not know")
        else:
            self.maps.layers.append(Layer(self.modules[-1], kind, known, self.map_of(result)))
        return result


@contextmanager
def _module_names(model: nn.Module, running: list[str]) -> Iterator[None]:
    """Keeps the names of the modules that run in `running`."""

    def entering(name: str) -> Callable[..., None]:
        return lambda *_: running.append(name)

    def leave(*_: object) -> None:
        running.pop()

    handles = []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(entering(name)))
        handles.append(module.register_forward_hook(leave))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
