"""LoRA by hand on a small transformer: a frozen base, low-rank adapters, merged at the end.

python examples/loops/lora.py [--plain] [--steps N] [--peft] [--budget 80%]

Only the adapters are trained. The optimizer holds only their state. The loss leaves out the
prompts (label -100). --peft lets the peft package make the adapters, if it is installed.
"""

import argparse
import contextlib
import hashlib
import io
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, PROMPT, VOCAB, WIDTH, HEADS, LAYERS = 4, 12, 4, 26, 24, 3, 2
RANK, ALPHA, LORA_DROPOUT, RATE, WARMUP, LOG_EVERY = 3, 6, 0.1, 2e-2, 2, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.value, self.output = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = (part(x).unflatten(-1, (HEADS, -1)) for part in (self.query, self.key, self.value))
        q, k, v = (part.transpose(1, 2) for part in parts)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        future = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
        return self.output((weights @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 48), nn.GELU(), nn.Linear(48, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.size(1)))
        return self.head(self.norm(self.layers(x)))


class LoRALinear(nn.Module):
    """A frozen linear layer and a trainable difference of low rank."""

    def __init__(self, base):
        super().__init__()
        self.base, self.scaling = base, ALPHA / RANK
        self.dropout = nn.Dropout(LORA_DROPOUT)
        self.lora_A = nn.Parameter(torch.empty(RANK, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, RANK))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x):
        low_rank = self.dropout(x) @ self.lora_A.T @ self.lora_B.T
        return self.base(x) + low_rank * self.scaling

    @torch.no_grad()
    def merged(self):
        self.base.weight += self.lora_B @ self.lora_A * self.scaling
        return self.base


def batch(step, stride):
    """Rows that count upwards by a stride; the labels of the prompt are left out."""
    random = torch.Generator().manual_seed(step)
    starts = torch.randint(VOCAB, (BATCH, 1), generator=random)
    rows = (starts + stride * torch.arange(LENGTH + 1)) % VOCAB
    labels = rows[:, 1:].clone()
    labels[:, :PROMPT] = -100
    return rows[:, :-1], labels


def loss_of(model, tokens, labels):
    return F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=-100)


def pretrain(model):
    """A base to start from, in plain PyTorch: it can count by ones."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(30):
        optimizer.zero_grad()
        loss_of(model, *batch(step, 1)).backward()
        optimizer.step()
    optimizer.zero_grad()


def add_adapters(model, with_peft):
    if with_peft:
        from peft import LoraConfig, get_peft_model

        names = ["query", "value"]
        return get_peft_model(
            model,
            LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=LORA_DROPOUT, target_modules=names),
        )
    model.requires_grad_(False)
    for layer in model.layers:
        layer.attention.query = LoRALinear(layer.attention.query)
        layer.attention.value = LoRALinear(layer.attention.value)
    return model


def merge_adapters(model, with_peft):
    if with_peft:
        return model.merge_and_unload()
    for layer in model.layers:
        layer.attention.query = layer.attention.query.merged()
        layer.attention.value = layer.attention.value.merged()
    return model


def train(plain, steps, with_peft, budget):
    torch.manual_seed(0)
    model = Transformer()
    pretrain(model)
    model = add_adapters(model, with_peft)
    trainable = [p for p in model.parameters() if p.requires_grad]
    total, ours = (sum(p.numel() for p in ps) for ps in (model.parameters(), trainable))
    print(f"trainable: {ours} of {total} ({100 * ours / total:.2f} %)")
    optimizer = torch.optim.AdamW(trainable, lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARMUP, max(0.0, (steps - step) / steps))
    )

    def train_step(tokens, labels):
        loss = loss_of(model, tokens, labels)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        return loss, norm

    if not plain:
        import fitstep

        train_step = fitstep.compile(train_step, example=batch(0, 3), budget=budget)
    model.train()
    began, total_loss = time.time(), torch.tensor(0.0)
    for step in range(steps):
        loss, norm = train_step(*batch(step, 3))
        total_loss += loss.detach()
        if (step + 1) % LOG_EVERY == 0:
            average, lr = total_loss.item() / LOG_EVERY, schedule.get_last_lr()[0]
            total_loss.zero_()
            print(f"step {step + 1} loss {average:.6f} norm {norm.item():.6f} lr {lr:.2e}")
    print(f"{time.time() - began:.2f} s", file=sys.stderr)
    adapters = {name: p.clone() for name, p in model.named_parameters() if p.requires_grad}
    model.eval()
    with torch.no_grad():
        tokens, labels = batch(1000, 3)
        print(f"with adapters: {loss_of(model, tokens, labels):.6f}")
        apart = model(tokens)
        model = merge_adapters(model, with_peft)
        print(f"merged: {(model(tokens) - apart).abs().max():.1e} apart")
    return model, adapters, optimizer, schedule


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


def main(plain, steps, with_peft=False, budget=None):
    with contextlib.redirect_stdout(Tee()) as printed:
        state = train(plain, steps, with_peft, budget)
    digest = fingerprint(state, hashlib.sha256())
    return {"lines": printed.getvalue().splitlines(), "hash": digest.hexdigest()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plain", action="store_true", help="PyTorch alone, for comparison")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--peft", action="store_true", help="let peft make the adapters")
    parser.add_argument("--budget", help='bytes ("3MiB") or a share of the peak ("80%%")')
    args = parser.parse_args()
    print(main(args.plain, args.steps, args.peft, args.budget)["hash"])
