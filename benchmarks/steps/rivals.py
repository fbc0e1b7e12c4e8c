"""What else trains in less memory with PyTorch, as plans of our own would have to beat it.

    checkpoint:N     torch.utils.checkpoint around every N consecutive layers; what works in place
                     stays with the layer in front, whose output would else be lost to recompute;
                     an LSTM's layers are split into modules that share its weights
    memory_budget:F  torch.compile that may keep the share F of what it would save, recomputing the
                     rest; with the backend that needs no C++ compiler
    inductor:F       the same with its own compiler, whose kernels have other bits
    spill            saved tensors of at least 1 MiB go to files, one each

A rival changes the model of a workload in place, so that its train step runs that way.
"""

import tempfile
from collections.abc import Callable, Iterable
from itertools import chain, count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from benchmarks.steps.workloads import Workload

# Where the layers of a model are, one after another.
LAYERS = ("features", "layers", "down", "up", "lstm")
SINGLE = ("down", "up")  # Other layers run between these: no groups.


class Group(nn.Sequential):
    """Consecutive layers whose insides are made again in the backward pass."""

    def forward(self, x: Any) -> Any:
        """The last layer's output."""
        return checkpoint(super().forward, x, use_reentrant=False)


class Recurrent(nn.Sequential):
    """An LSTM whose layers are modules, called as nn.LSTM is; its last state is not asked for."""

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Outputs of the last layer; positions stand in front meanwhile, as nn.LSTM has them."""
        outputs: Tensor = super().forward(x.transpose(0, 1))  # type: ignore[no-untyped-call]
        return outputs.transpose(0, 1), None


class RecurrentLayer(nn.Module):
    """One layer of an LSTM, with its weights, and the dropout behind it."""

    def __init__(self, lstm: nn.LSTM, index: int) -> None:
        super().__init__()
        size = lstm.input_size if index == 0 else lstm.hidden_size
        self.layer = nn.LSTM(size, lstm.hidden_size)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(self.layer, f"{name}_l0", getattr(lstm, f"{name}_l{index}"))
        self.dropout = nn.Dropout(lstm.dropout if index + 1 < lstm.num_layers else 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs at every position."""
        outputs: Tensor = self.dropout(self.layer(x)[0])
        return outputs


def checkpointed(workload: Workload, size: int) -> None:
    """Groups of `size` layers."""
    for name in LAYERS:
        layers = getattr(workload.model, name, None)
        if isinstance(layers, nn.LSTM):
            layers = Recurrent(*(RecurrentLayer(layers, i) for i in range(layers.num_layers)))
        if isinstance(layers, nn.Sequential | nn.ModuleList):
            if name in SINGLE and size > 1:
                raise ValueError(f"{name} has other layers between its own")
            of = list(_with_what_works_in_place(layers))
            groups = [Group(*chain(*of[i : i + size])) for i in range(0, len(of), size)]
            setattr(workload.model, name, type(layers)(*_arguments(layers, groups)))


def _with_what_works_in_place(layers: Iterable[nn.Module]) -> Iterable[list[nn.Module]]:
    """Each layer, and behind it those that overwrite what it made."""
    found: list[list[nn.Module]] = []
    for layer in layers:
        if found and getattr(layer, "inplace", False):
            found[-1].append(layer)
        else:
            found.append([layer])
    return found


def _arguments(layers: nn.Module, groups: list[Group]) -> Iterable[Any]:
    return [groups] if isinstance(layers, nn.ModuleList) else groups


def compiled(workload: Workload, share: float, backend: str) -> None:
    """torch.compile that may save `share` of the bytes."""
    import torch._functorch.config as config

    config.activation_memory_budget = share
    workload.model.compile(backend=backend)


def spilled(workload: Workload) -> None:
    """Large saved tensors are files until the backward pass reads them."""
    folder = tempfile.TemporaryDirectory(prefix="spilled_")
    numbers = count()

    def pack(tensor: Tensor) -> Tensor | Path:
        if tensor.nbytes < 1 << 20 or isinstance(tensor, nn.Parameter):
            return tensor
        path = Path(folder.name) / str(next(numbers))
        torch.save(tensor, path)
        return path

    def unpack(saved: Tensor | Path) -> Tensor:
        if isinstance(saved, Tensor):
            return saved
        tensor: Tensor = torch.load(saved, weights_only=True)
        return tensor

    train_step = workload.train_step

    def step(*batch: Tensor) -> Tensor:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = train_step(*batch)
        for path in Path(folder.name).iterdir():
            path.unlink()
        return loss

    workload.train_step = step


def install(workload: Workload, rival: str) -> None:
    """Makes the workload train the rival's way."""
    name, _, setting = rival.partition(":")
    ways: dict[str, Callable[[], None]] = {
        "plain": lambda: None,
        "checkpoint": lambda: checkpointed(workload, int(setting)),
        "memory_budget": lambda: compiled(workload, float(setting), "aot_eager_decomp_partition"),
        "inductor": lambda: compiled(workload, float(setting), "inductor"),
        "spill": lambda: spilled(workload),
    }
    ways[name]()
