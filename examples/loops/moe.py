"""A small transformer with a mixture of experts: noisy top-k routing, a load-balancing loss.

python examples/loops/moe.py [--plain] [--steps N] [--budget 80%]

How many tokens an expert gets is known only while the step runs (`torch.where`), so nearly every
call has other shapes. An expert without tokens is skipped, and the step prints the loads.
"""

import argparse
import contextlib
import hashlib
import io
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, VOCAB, WIDTH, HEADS, LAYERS = 2, 6, 24, 16, 2, 2
EXPERTS, TOP_K, BALANCE, LOG_EVERY = 8, 2, 0.01, 2


class Expert(nn.Module):
    """A gated unit, as in today's language models."""

    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MixtureOfExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.noise = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))
        self.register_buffer("tokens_seen", torch.zeros(EXPERTS, dtype=torch.long))
        self.aux_loss = self.load = None

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        logits = self.router(flat)
        if self.training:
            logits = logits + torch.randn_like(logits) * F.softplus(self.noise(flat))
        probs = logits.softmax(dim=-1)
        weights, chosen = probs.topk(TOP_K, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            tokens, slots = torch.where(chosen == number)
            if tokens.numel() == 0:
                continue
            share = weights[tokens, slots].unsqueeze(-1)
            out.index_add_(0, tokens, expert(flat[tokens]) * share)
        # Least where all experts get as many tokens and as much probability.
        self.load = torch.bincount(chosen.flatten(), minlength=EXPERTS)
        fraction = self.load.float() / chosen.numel()
        self.aux_loss = EXPERTS * (fraction * probs.mean(dim=0)).sum()
        if self.training:
            self.tokens_seen += self.load
        return out.view_as(x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.moe = MixtureOfExperts()

    def forward(self, x, mask):
        y = self.norm_1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.moe(self.norm_2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        length = tokens.size(1)
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.tokens(tokens) + self.places(torch.arange(length))
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))


def make_text():
    """Every third token repeats the one before."""
    random = torch.Generator().manual_seed(2)
    text = torch.randint(VOCAB, (600,), generator=random)
    text[1::3] = text[:-1:3]
    return text


def train(plain, steps, budget):
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    text, picking = make_text(), torch.Generator().manual_seed(4)

    def batch():
        starts = torch.randint(len(text) - LENGTH - 1, (BATCH,), generator=picking).tolist()
        rows = torch.stack([text[start : start + LENGTH + 1] for start in starts])
        return rows[:, :-1], rows[:, 1:]

    def train_step(step, tokens, targets):
        logits = model(tokens)
        ce_loss = F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))
        aux_loss = sum(layer.moe.aux_loss for layer in model.layers)
        loss = ce_loss + BALANCE * aux_loss
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % LOG_EVERY == 0:
            loads = " ".join(str(layer.moe.load.tolist()) for layer in model.layers)
            print(
                f"step {step} loss {ce_loss.item():.6f} balance {aux_loss.item():.6f} "
                f"norm {norm:.6f} loads {loads}"
            )
        return loss

    tokens, targets = batch()
    if not plain:
        import fitstep

        train_step = fitstep.compile(train_step, example=(0, tokens, targets), budget=budget)
    running, began = None, time.time()
    for step in range(steps):
        loss = train_step(step, tokens, targets)
        lossf = loss.item()
        running = lossf if running is None else 0.9 * running + 0.1 * lossf
        tokens, targets = batch()
    print(f"running loss {running:.6f}")
    model.eval()
    with torch.no_grad():
        print(f"after training {F.cross_entropy(model(tokens).mT, targets).item():.6f}")
    print(f"{time.time() - began:.2f} s", file=sys.stderr)
    return model, optimizer


def fingerprint(value, digest):
    """Adds every tensor and number of nested state to a hash."""
    if isinstance(value, torch.Tensor):
        digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().reshape(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(value, nn.Module):
        fingerprint([*value.named_parameters(), *value.named_buffers()], digest)
    elif hasattr(value, "state_dict"):
        fingerprint(value.state_dict(), digest)
    elif isinstance(value, dict | list | tuple):
        for entry in value.items() if isinstance(value, dict) else value:
            fingerprint(entry, digest)
    else:
        digest.update(repr(value).encode())
    return digest


class Tee(io.StringIO):
    """Keeps what is printed, and prints it."""

    def write(self, text):
        sys.__stdout__.write(text)
        return super().write(text)


def main(plain, steps, budget=None):
    with contextlib.redirect_stdout(Tee()) as printed:
        state = train(plain, steps, budget)
    digest = fingerprint(state, hashlib.sha256())
    return {"lines": printed.getvalue().splitlines(), "hash": digest.hexdigest()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plain", action="store_true", help="PyTorch alone, for comparison")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--budget", help='bytes ("3MiB") or a share of the peak ("80%%")')
    args = parser.parse_args()
    print(main(args.plain, args.steps, args.budget)["hash"])
