"""TensorFlow's tutorial rnn/translate (Bahdanau et al. 2014): GRUs with additive attention.

The source is given reversed. At every position of the target the decoder scores all T positions of
the source by v . tanh(keys + query):

    keys   (batch, T, width), made once
    query  (batch, width), one for each position of the target

so keys + query is T maps of the size of all keys, T * T * batch * width in total, while all else is
T * batch * width. `recomputes` is the version by hand that keeps keys and queries only, and no
gates of the GRUs. 169,079,872 parameters with the defaults.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fitstep_kit.models.recurrent import GRUStack


def additive_scores(keys: Tensor, query: Tensor, score: Tensor) -> Tensor:
    """(batch, T) scores; what autograd keeps is as large as `keys`."""
    return (torch.tanh(keys + query[:, None]) * score).sum(2)


class RecomputedScores(torch.autograd.Function):
    """The same bits; keeps its three inputs and adds them up again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, query: Tensor, score: Tensor) -> Tensor:
        ctx.save_for_backward(keys, query, score)
        return additive_scores(keys, query, score)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, query, score = ctx.saved_tensors
        active = torch.tanh(keys + query[:, None])
        grad = grads[0][:, :, None].expand_as(active)
        grad_score = (grad * active).sum((0, 1))
        grad_keys = torch.ops.aten.tanh_backward(grad * score, active)
        return grad_keys, grad_keys.sum(1), grad_score


class AdditiveAttention(nn.Module):
    """A mean of the source's states, weighted by how well the decoder's state fits them."""

    def __init__(self, width: int, query_width: int, recomputes: bool = False) -> None:
        super().__init__()
        self.recomputes = recomputes
        self.key = nn.Linear(width, width, bias=False)
        self.query = nn.Linear(query_width, width)
        self.score = nn.Parameter(torch.empty(width).uniform_(-1, 1) / math.sqrt(width))

    def forward(self, query: Tensor, keys: Tensor, states: Tensor) -> Tensor:
        """`keys` are those of `states` (batch, T, width), made by `self.key`."""
        score_all = RecomputedScores.apply if self.recomputes else additive_scores
        scores = score_all(keys, self.query(query), self.score)
        weights = torch.softmax(scores, 1)
        return torch.bmm(weights[:, None], states).squeeze(1)


class Seq2Seq(nn.Module):
    """Encoder and decoder of `layers` GRUs each."""

    def __init__(
        self,
        vocab: int = 40000,
        width: int = 1024,
        layers: int = 3,
        recomputes: bool = False,
    ) -> None:
        super().__init__()
        self.source_tokens = nn.Embedding(vocab, width)
        self.target_tokens = nn.Embedding(vocab, width)
        self.encoder = GRUStack(width, width, layers, recomputes)
        self.decoder = GRUStack(width, width, layers, recomputes)
        self.attention = AdditiveAttention(width, layers * width, recomputes)
        self.mix_input = nn.Linear(2 * width, width)
        self.mix_output = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, vocab)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """What `loss` needs of each position: (batch, target's positions, width)."""
        embedded = self.source_tokens(source)
        states = [embedded.new_zeros(len(source), embedded.shape[2])] * len(self.encoder.gates)
        encoded: list[Tensor] = []
        for x in embedded.unbind(1):
            states = self.encoder(x, states)
            encoded.append(states[-1])
        memory = torch.stack(encoded, 1)
        keys = self.attention.key(memory)
        context = torch.zeros_like(states[-1])
        outputs: list[Tensor] = []
        for x in self.target_tokens(target).unbind(1):
            states = self.decoder(self.mix_input(torch.cat([x, context], 1)), states)
            context = self.attention(torch.cat(states, 1), keys, memory)
            outputs.append(self.mix_output(torch.cat([states[-1], context], 1)))
        return torch.stack(outputs, 1)

    def loss(self, outputs: Tensor, labels: Tensor, sampled: Tensor) -> Tensor:
        """Cross entropy of the label against `sampled` tokens instead of against all.

        `sampled` are drawn with replacement, token i with probability log((i + 2) / (i + 1)) /
        log(vocab + 1), so rare tokens have large numbers; the logits make up for it.
        """
        hidden, labels = outputs.flatten(0, 1), labels.flatten()
        weight, bias = self.head.weight, self.head.bias
        right = (hidden * F.embedding(labels, weight)).sum(1) + bias[labels]
        wrong = F.linear(hidden, F.embedding(sampled, weight), bias[sampled])
        right = right - self._log_expected(labels, len(sampled))
        wrong = wrong - self._log_expected(sampled, len(sampled))
        wrong = wrong.masked_fill(labels[:, None] == sampled, -math.inf)
        logits = torch.cat([right[:, None], wrong], 1)
        return -torch.log_softmax(logits, 1)[:, 0].mean()

    def _log_expected(self, tokens: Tensor, draws: int) -> Tensor:
        """The logarithm of how often a token is drawn."""
        share = torch.log1p(1 / (tokens + 1)) / math.log(self.head.out_features + 1)
        return torch.log(share * draws)
