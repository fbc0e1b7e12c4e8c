"""Trains a ResNet-18 on scikit-learn's handwritten digits inside a memory budget.

PYTHONPATH=python python examples/resnet_digits.py --budget 60% --steps 100
"""

import argparse

import torch
import torch.nn.functional as F
from fitstep_kit.models import resnet18
from sklearn.datasets import load_digits

import fitstep

BATCH, SIDE = 48, 96


def setup(steps):
    """The training step, its i-th batch, and everything that training changes."""
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16  # 1797 of 8x8.
    labels = torch.tensor(digits.target)
    model = resnet18(classes=10, stem_pool=False).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def train_step(inputs, targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    def batch(index):
        rows = torch.randint(len(images), (BATCH,), generator=torch.Generator().manual_seed(index))
        inputs = F.interpolate(images[rows], size=(SIDE, SIDE), mode="bilinear").repeat(1, 3, 1, 1)
        return inputs.contiguous(memory_format=torch.channels_last), labels[rows]

    return train_step, batch, {"model": model, "optimizer": optimizer}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budget", default="60%", help='bytes ("300MiB") or a share of the peak')
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
