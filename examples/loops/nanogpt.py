"""A character GPT in the style of nanoGPT's train.py: mixed precision, micro steps, clipping.

python examples/loops/nanogpt.py [--plain] [--steps N] [--dtype float16] [--budget 80%]

As in nanoGPT, float16 enables the GradScaler and bfloat16 leaves it disabled. The step fetches its
own batches from a numpy array, and the learning rate is written into `param_groups` by hand.
"""

import argparse
import contextlib
import hashlib
import io
import math
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BATCH, BLOCK, VOCAB = 4, 32, 40
LAYERS, HEADS, WIDTH, DROPOUT = 2, 2, 32, 0.1
MICRO_STEPS, GRAD_CLIP = 3, 1.0
LEARNING_RATE, LEAST_RATE, WARMUP, DECAY_STEPS = 1e-3, 1e-4, 2, 10
EVAL_INTERVAL, EVAL_STEPS, LOG_INTERVAL = 3, 2, 1
PROMISED_FLOPS = 1e12  # What the machine could do; only printed.


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.resid_dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        batch, length, width = x.size()
        heads = (batch, length, HEADS, width // HEADS)
        q, k, v = (part.view(heads).transpose(1, 2) for part in self.c_attn(x).split(width, dim=2))
        dropout = DROPOUT if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(batch, length, width)
        return self.resid_dropout(self.c_proj(y))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH, bias=False), SelfAttention()
        self.ln_2 = nn.LayerNorm(WIDTH, bias=False)
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.dropout(self.c_proj(F.gelu(self.c_fc(self.ln_2(x)))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.drop = nn.Dropout(DROPOUT)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH, bias=False)
        self.lm_head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.wte.weight = self.lm_head.weight  # Tied.
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                scale = 1 / math.sqrt(2 * LAYERS) if name.endswith("c_proj.weight") else 1
                nn.init.normal_(p, std=0.02 * scale)

    def forward(self, idx, targets):
        pos = torch.arange(0, idx.size(1), dtype=torch.long)
        x = self.drop(self.wte(idx) + self.wpe(pos))
        for layer in self.layers:
            x = layer(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))

    def configure_optimizer(self):
        decayed = [p for p in self.parameters() if p.dim() >= 2]
        others = [p for p in self.parameters() if p.dim() < 2]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.95))

    def estimate_mfu(self, iterations, seconds):
        """Flops that the model needs over flops that the machine could have done."""
        parameters = sum(p.numel() for p in self.parameters())
        flops_per_token = 6 * parameters + 12 * LAYERS * WIDTH * BLOCK
        return flops_per_token * BLOCK * BATCH * iterations / seconds / PROMISED_FLOPS


def get_lr(it):
    """Linear warm-up, then a cosine down to the least rate."""
    if it < WARMUP:
        return LEARNING_RATE * (it + 1) / (WARMUP + 1)
    if it > DECAY_STEPS:
        return LEAST_RATE
    ratio = (it - WARMUP) / (DECAY_STEPS - WARMUP)
    return LEAST_RATE + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (LEARNING_RATE - LEAST_RATE)


def make_data():
    """Numbers below VOCAB in which the next one mostly follows from the last."""
    random = np.random.default_rng(0)
    jumps = np.where(random.random(4000) < 0.8, 3, random.integers(0, VOCAB, 4000))
    tokens = (np.cumsum(jumps) % VOCAB).astype(np.uint16)
    return {"train": tokens[:3600], "val": tokens[3600:]}


def train(plain, steps, dtype, budget):
    torch.manual_seed(1337)
    data = make_data()
    ptdtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
    ctx = torch.amp.autocast(device_type="cpu", dtype=ptdtype)
    model = GPT()
    optimizer = model.configure_optimizer()
    # The scale starts so high that the first two steps are skipped, then grows every second step.
    enabled = dtype == "float16"
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22, growth_interval=2, enabled=enabled)

    def get_batch(split):
        ix = torch.randint(len(data[split]) - BLOCK, (BATCH,))
        x = torch.stack([torch.from_numpy(data[split][i : i + BLOCK].astype(np.int64)) for i in ix])
        y = torch.stack(
            [torch.from_numpy(data[split][i + 1 : i + 1 + BLOCK].astype(np.int64)) for i in ix]
        )
        return x, y

    @torch.no_grad()
    def estimate_loss():
        model.eval()
        out = {}
        for split in ["train", "val"]:
            losses = torch.zeros(EVAL_STEPS)
            for k in range(EVAL_STEPS):
                X, Y = get_batch(split)
                with ctx:
                    _, loss = model(X, Y)
                losses[k] = loss.item()
            out[split] = losses.mean()
        model.train()
        return out

    def train_step(X, Y):
        for _ in range(MICRO_STEPS):
            with ctx:
                _, loss = model(X, Y)
                loss = loss / MICRO_STEPS
            X, Y = get_batch("train")  # The next batch.
            scaler.scale(loss).backward()
        if GRAD_CLIP != 0.0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), GRAD_CLIP)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss, X, Y

    X, Y = get_batch("train")
    if not plain:
        import fitstep

        train_step = fitstep.compile(train_step, example=(X, Y), budget=budget)
    iterate(steps, model, optimizer, scaler, estimate_loss, train_step, (X, Y))
    return model, optimizer, scaler


def iterate(steps, model, optimizer, scaler, estimate_loss, train_step, batch):
    """nanoGPT's `while True`. Times go to stderr, because they differ from run to run."""
    X, Y = batch
    iter_num, best_val_loss, running_loss, running_mfu = 0, 1e9, -1.0, -1.0
    t0 = time.time()
    while iter_num < steps:
        lr = get_lr(iter_num)
        for param_group in optimizer.param_groups:
            param_group["lr"] = lr
        if iter_num % EVAL_INTERVAL == 0:
            losses = estimate_loss()
            print(f"step {iter_num}: train {losses['train']:.6f}, val {losses['val']:.6f}")
            if losses["val"] < best_val_loss:
                best_val_loss = losses["val"]
        loss, X, Y = train_step(X, Y)
        t1 = time.time()
        dt, t0 = t1 - t0, t1
        if iter_num % LOG_INTERVAL == 0:
            lossf = loss.item() * MICRO_STEPS
            running_loss = lossf if running_loss < 0 else 0.9 * running_loss + 0.1 * lossf
            mfu = model.estimate_mfu(MICRO_STEPS, dt)
            running_mfu = mfu if running_mfu < 0 else 0.9 * running_mfu + 0.1 * mfu
            print(f"iter {iter_num}: loss {lossf:.6f}, average {running_loss:.6f}, lr {lr:.2e}")
            if scaler.is_enabled():
                print(f"scale {scaler.get_scale():g}")
            print(f"time {dt * 1000:.2f}ms, mfu {running_mfu * 100:.2f}%", file=sys.stderr)
        iter_num += 1
    print(f"best val {best_val_loss:.6f}")


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


def main(plain, steps, dtype="bfloat16", budget=None):
    with contextlib.redirect_stdout(Tee()) as printed:
        state = train(plain, steps, dtype, budget)
    digest = fingerprint(state, hashlib.sha256())
    return {"lines": printed.getvalue().splitlines(), "hash": digest.hexdigest()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plain", action="store_true", help="PyTorch alone, for comparison")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--dtype", choices=["bfloat16", "float16"], default="bfloat16")
    parser.add_argument("--budget", help='bytes ("3MiB") or a share of the peak ("80%%")')
    args = parser.parse_args()
    print(main(args.plain, args.steps, args.dtype, args.budget)["hash"])
