"""LSTM and GRU cells from plain operators, each as usual or keeping only what it was given.

    usual        keeps inputs, state, four gates and two activations of every position
    recomputing  keeps inputs and state, and computes the rest again in the backward pass

The second is what a user would write by hand to need less memory; both give the same bits.
Formulas and biases are TensorFlow's, which the tutorials of TF-swap's paper use.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def lstm(x: Tensor, state: Tensor, cell: Tensor, gates: nn.Linear) -> tuple[Tensor, Tensor]:
    """The next state and cell."""
    read, new, forget, write = gates(torch.cat([x, state], 1)).chunk(4, 1)
    cell = cell * torch.sigmoid(forget + 1.0) + torch.sigmoid(read) * torch.tanh(new)
    return torch.tanh(cell) * torch.sigmoid(write), cell


def gru(x: Tensor, state: Tensor, gates: nn.Linear, candidate: nn.Linear) -> Tensor:
    """The next state."""
    reset, update = torch.sigmoid(gates(torch.cat([x, state], 1))).chunk(2, 1)
    new = torch.tanh(candidate(torch.cat([x, reset * state], 1)))
    return update * state + (1 - update) * new


def _called(recomputes: bool, function: Callable[..., Any], *args: Any) -> Any:
    if recomputes:  # Nothing here is random.
        return checkpoint(function, *args, use_reentrant=False, preserve_rng_state=False)
    return function(*args)


class LSTMLayer(nn.Module):
    """One LSTM over a sequence."""

    def __init__(self, inputs: int, width: int, recomputes: bool = False) -> None:
        super().__init__()
        self.width = width
        self.recomputes = recomputes
        self.gates = nn.Linear(inputs + width, 4 * width)

    def forward(self, positions: Sequence[Tensor]) -> list[Tensor]:
        """The state behind each position; it starts at zero."""
        state = cell = positions[0].new_zeros(len(positions[0]), self.width)
        states: list[Tensor] = []
        for x in positions:
            state, cell = _called(self.recomputes, lstm, x, state, cell, self.gates)
            states.append(state)
        return states


class GRUStack(nn.Module):
    """Several GRUs on top of each other, one position at a time."""

    def __init__(self, inputs: int, width: int, layers: int, recomputes: bool = False) -> None:
        super().__init__()
        self.recomputes = recomputes
        sizes = [inputs, *[width] * (layers - 1)]
        self.gates = nn.ModuleList(nn.Linear(size + width, 2 * width) for size in sizes)
        self.candidates = nn.ModuleList(nn.Linear(size + width, width) for size in sizes)

    def forward(self, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
        """The next state of each layer."""
        after: list[Tensor] = []
        for gates, candidate, state in zip(self.gates, self.candidates, states, strict=True):
            x = _called(self.recomputes, gru, x, state, gates, candidate)
            after.append(x)
        return after
