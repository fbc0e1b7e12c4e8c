"""A word-level LSTM in the style of the word language model example: carried hidden state.

python examples/loops/word_lm.py [--plain] [--steps N] [--budget 80%]

The step keeps `hidden` and `total_loss` from call to call, clips, and updates the parameters by
hand with a learning rate that is an ordinary Python number. The last piece of an epoch is shorter.
Epochs are whole, so N is rounded up to epochs.
"""

import argparse
import contextlib
import hashlib
import io
import math
import sys
import time

import torch
from torch import nn

BATCH, EVAL_BATCH, BPTT, WORDS, WIDTH, LAYERS, DROPOUT = 6, 3, 8, 30, 24, 2, 0.2
CLIP, RATE, LOG_INTERVAL = 0.25, 5.0, 2


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(DROPOUT)
        self.encoder = nn.Embedding(WORDS, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, LAYERS, dropout=DROPOUT)
        self.decoder = nn.Linear(WIDTH, WORDS)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(tokens)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, WORDS)
        return torch.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, batch):
        weight = next(self.parameters())
        shape = LAYERS, batch, WIDTH
        return weight.new_zeros(shape), weight.new_zeros(shape)


def repackage_hidden(h):
    """The hidden state without its history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(words, batch):
    rows = words.size(0) // batch
    return words.narrow(0, 0, rows * batch).view(batch, -1).t().contiguous()


def make_corpus(count):
    """Words of which most follow from the one before."""
    random = torch.Generator().manual_seed(3)
    jumps = torch.randint(WORDS, (count,), generator=random)
    jumps[torch.rand(count, generator=random) < 0.7] = 4
    return jumps.cumsum(0) % WORDS


def get_batch(source, i):
    seq_len = min(BPTT, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


def evaluate(model, criterion, source):
    model.eval()
    total_loss = 0.0
    hidden = model.init_hidden(EVAL_BATCH)
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, BPTT):
            data, targets = get_batch(source, i)
            output, hidden = model(data, hidden)
            hidden = repackage_hidden(hidden)
            total_loss += len(data) * criterion(output, targets).item()
    return total_loss / (len(source) - 1)


def train(plain, steps, budget):
    torch.manual_seed(1111)
    corpus = make_corpus(360)
    train_data, val_data = batchify(corpus[:270], BATCH), batchify(corpus[270:], EVAL_BATCH)
    model, criterion, lr = RNNModel(), nn.NLLLoss(), RATE
    hidden, total_loss = model.init_hidden(BATCH), 0.0

    def train_step(data, targets):
        nonlocal hidden, total_loss
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        # Against gradients that explode, as they do in recurrent nets.
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total_loss += loss.item()

    if not plain:
        import fitstep

        train_step = fitstep.compile(train_step, example=get_batch(train_data, 0), budget=budget)
    starts = range(0, train_data.size(0) - 1, BPTT)
    best_val_loss, began = None, time.time()
    for epoch in range(1, -(-steps // len(starts)) + 1):
        model.train()
        hidden, total_loss = model.init_hidden(BATCH), 0.0
        for batch, i in enumerate(starts):
            train_step(*get_batch(train_data, i))
            if (batch + 1) % LOG_INTERVAL == 0:
                cur_loss = total_loss / LOG_INTERVAL
                print(
                    f"| epoch {epoch:3d} | {batch + 1:5d}/{len(starts):5d} batches "
                    f"| lr {lr:02.2f} | loss {cur_loss:5.5f} | ppl {math.exp(cur_loss):8.5f}"
                )
                total_loss = 0
        val_loss = evaluate(model, criterion, val_data)
        print(f"| end of epoch {epoch:3d} | valid loss {val_loss:5.5f}")
        if not best_val_loss or val_loss < best_val_loss:
            best_val_loss = val_loss
        else:
            lr /= 4.0  # No better than before, so smaller steps.
    print(f"{time.time() - began:.2f} s", file=sys.stderr)
    return model, hidden, lr


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
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--budget", help='bytes ("3MiB") or a share of the peak ("80%%")')
    args = parser.parse_args()
    print(main(args.plain, args.steps, args.budget)["hash"])
