"""An LSTM language model; on a CPU its backward pass reads a workspace that the forward made."""

from torch import Tensor, nn


class LSTMLanguageModel(nn.Module):
    """Embedding, `layers` LSTM layers with dropout between them, and a linear head."""

    def __init__(
        self, vocab: int = 256, width: int = 256, layers: int = 2, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at every position; the state starts at zero."""
        hidden, _ = self.lstm(self.tokens(tokens))
        logits: Tensor = self.head(self.dropout(hidden))
        return logits
