"""A GPT-2 style decoder: pre-norm, GELU, fused attention, dropout, head tied to the embedding."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    """Causal self-attention, then a two-layer MLP, both around a residual stream."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """The residual stream behind this layer."""
        batch, length, width = x.shape
        heads = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.attention_norm(x)).view(heads).permute(2, 0, 3, 1, 4)
        # No dropout inside the attention: on a CPU it would switch off the fused kernel.
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(batch, length, width)
        x = x + self.dropout(self.attention_out(mixed))
        x = x + self.dropout(self.mlp(self.mlp_norm(x)))
        return x  # noqa: RET504 (one line per residual branch)


class GPT(nn.Module):
    """A language model over `vocab` tokens and at most `context` positions.

    `checkpointed` wraps every layer in torch.utils.checkpoint, PyTorch's own way of recomputing.
    """

    def __init__(
        self,
        vocab: int = 256,
        context: int = 512,
        width: int = 512,
        layers: int = 12,
        heads: int = 8,
        dropout: float = 0.1,
        checkpointed: bool = False,
    ) -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Layer(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.apply(_initialize)
        self.head.weight = self.tokens.weight  # Two uses, one gradient.

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at every position."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
