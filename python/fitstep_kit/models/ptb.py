"""The LSTM language model of TensorFlow's tutorial rnn/ptb (Zaremba et al. 2014).

Vocabulary 10000. Two layers of 200 units (4,651,600 parameters), 650 (19,775,200) or 1500
(66,022,000), over 20, 35 and 35 positions; TF-swap's paper stacks 1 to 16 layers.
"""

import torch
from torch import Tensor, nn

from fitstep_kit.models.recurrent import LSTMLayer


class PTBModel(nn.Module):
    """`recomputes`: the version that keeps no gates, written by hand."""

    def __init__(
        self,
        vocab: int = 10000,
        width: int = 1500,
        layers: int = 2,
        dropout: float = 0.65,
        recomputes: bool = False,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(
            LSTMLayer(width, width, dropout, recomputes) for _ in range(layers)
        )
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at every position of (batch, positions)."""
        positions = self.tokens(tokens).unbind(1)
        for layer in self.layers:
            positions = layer(positions)
        logits: Tensor = self.head(self.dropout(torch.stack(positions, 1)))
        return logits
