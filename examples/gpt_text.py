"""Trains a small GPT on Python's own documentation inside a memory budget.

PYTHONPATH=python python examples/gpt_text.py --budget 60% --steps 200
"""

import argparse
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from fitstep_kit.models import GPT

import fitstep

BATCH, CONTEXT = 16, 128


def setup(steps):
    """The training step, its i-th batch, and everything that training changes."""
    torch.manual_seed(0)
    text = torch.tensor(list("\n".join(topics[name] for name in sorted(topics)).encode()))
    model = GPT(vocab=256, context=CONTEXT, width=256, layers=6, heads=8, dropout=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)

    def train_step(tokens, targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss

    def batch(index):
        random = torch.Generator().manual_seed(index)
        starts = torch.randint(len(text) - CONTEXT, (BATCH,), generator=random)
        rows = torch.stack([text[start : start + CONTEXT + 1] for start in starts])
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    return train_step, batch, {"model": model, "optimizer": optimizer, "schedule": schedule}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budget", default="60%", help='bytes ("200MiB") or a share of the peak')
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--plain", action="store_true", help="PyTorch alone, for comparison")
    args = parser.parse_args()
    train_step, batch, _ = setup(args.steps)
    step = train_step
    if not args.plain:
        step = fitstep.compile(train_step, example=batch(0), budget=args.budget)
    for index in range(args.steps):
        print(f"step {index + 1:3}  loss {step(*batch(index)).item():.4f}", flush=True)
    print("" if args.plain else step.report())


if __name__ == "__main__":
    main()
