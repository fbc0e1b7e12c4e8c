"""LSTM and GRU cells from plain operators, each as usual or keeping only what it was given.

    usual        keeps inputs, state, four gates and two activations of every position
    recomputing  keeps inputs and state, and computes the rest again in the backward pass, the
                 input's dropout too

The second is what a user would write by hand to need less memory; both give the same bits.
Formulas and biases are TensorFlow's, which the tutorials of TF-swap's paper use.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def lstm(
    x: Tensor, state: Tensor, cell: Tensor, gates: nn.Linear, dropout: nn.Dropout
) -> tuple[Tensor, Tensor]:
    """The next state and cell."""
    x = dropout(x)
    read, new, forget, write = gates(torch.cat([x, state], 1)).chunk(4, 1)
    cell = cell * torch.sigmoid(forget + 1.0) + torch.sigmoid(read) * torch.tanh(new)
    return torch.tanh(cell) * torch.sigmoid(write), cell


def gru(x: Tensor, state: Tensor, gates: nn.Module, candidate: nn.Module) -> Tensor:
    """The next state."""
    reset, update = torch.sigmoid(gates(torch.cat([x, state], 1))).chunk(2, 1)
    new = torch.tanh(candidate(torch.cat([x, reset * state], 1)))
    return update * state + (1 - update) * new


class LSTMLayer(nn.Module):
    """One LSTM over a sequence, with dropout of what it is given."""

    def __init__(
        self, inputs: int, width: int, dropout: float = 0.0, recomputes: bool = False
    ) -> None:
        super().__init__()
        self.width = width
        self.recomputes = recomputes
        self.gates = nn.Linear(inputs + width, 4 * width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, positions: Sequence[Tensor]) -> list[Tensor]:
        """The state behind each position; it starts at zero."""
        state = cell = positions[0].new_zeros(len(positions[0]), self.width)
        states: list[Tensor] = []
        for x in positions:
            args = (x, state, cell, self.gates, self.dropout)
            if self.recomputes:
                state, cell = checkpoint(lstm, *args, use_reentrant=False)
            else:
                state, cell = lstm(*args)
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
            args = (x, state, gates, candidate)
            if self.recomputes:  # Nothing here is random.
                x = checkpoint(gru, *args, use_reentrant=False, preserve_rng_state=False)
            else:
                x = gru(*args)
            after.append(x)
        return after
