"""A small residual net in the style of the ImageNet example: meters, top-k accuracy, StepLR.

python examples/loops/imagenet.py [--plain] [--steps N] [--budget 80%]

The step updates the meters itself: that of the loss with a number, those of the accuracies with
tensors. The last batch of an epoch is shorter. Epochs are whole, so N is rounded up to epochs.
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
from torch.utils.data import DataLoader, TensorDataset

BATCH, SIDE, CLASSES, TRAIN_IMAGES, VAL_IMAGES = 8, 16, 10, 36, 20
PRINT_FREQ = 2


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            projection = nn.Conv2d(inplanes, planes, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(planes))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.stem = nn.Sequential(stem, nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.layers = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 16, 2), BasicBlock(16, 16))
        self.fc = nn.Linear(16, CLASSES)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.layers(self.pool(self.stem(x)))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class AverageMeter:
    """The last value and the average."""

    def __init__(self, name, fmt=":f"):
        self.name, self.fmt = name, fmt
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(**self.__dict__)


class ProgressMeter:
    def __init__(self, batches, meters, prefix=""):
        self.batches, self.meters, self.prefix = batches, meters, prefix

    def display(self, batch):
        place = f"[{batch:{len(str(self.batches))}d}/{self.batches}]"
        print("  ".join([self.prefix + place, *(str(meter) for meter in self.meters)]))


def accuracy(output, target, topk=(1,)):
    """For each k, how many percent of the batch have their class among the k best."""
    with torch.no_grad():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target.view(1, -1).expand(max(topk), -1))
        hits = [correct[:k].reshape(-1).float().sum(0, keepdim=True) for k in topk]
        return [hit.mul_(100.0 / target.size(0)) for hit in hits]


def make_loaders():
    """Noise, with a bright square whose place depends on the class."""
    random = torch.Generator().manual_seed(7)
    count = TRAIN_IMAGES + VAL_IMAGES
    labels = torch.randint(CLASSES, (count,), generator=random)
    images = torch.randn(count, 3, SIDE, SIDE, generator=random)
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(label.item(), 4)
        image[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 2
    dataset = TensorDataset(images[:TRAIN_IMAGES], labels[:TRAIN_IMAGES])
    rest = TensorDataset(images[TRAIN_IMAGES:], labels[TRAIN_IMAGES:])
    shuffling = torch.Generator().manual_seed(8)
    train_loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, generator=shuffling)
    return train_loader, DataLoader(rest, batch_size=BATCH)


def validate(loader, model, criterion):
    losses, top1 = AverageMeter("Loss", ":.4e"), AverageMeter("Acc@1", ":6.2f")
    top5 = AverageMeter("Acc@5", ":6.2f")
    progress = ProgressMeter(len(loader), [losses, top1, top5], prefix="Test: ")
    model.eval()
    with torch.no_grad():
        for i, (images, target) in enumerate(loader):
            output = model(images)
            loss = criterion(output, target)
            acc1, acc5 = accuracy(output, target, topk=(1, 5))
            losses.update(loss.item(), images.size(0))
            top1.update(acc1[0], images.size(0))
            top5.update(acc5[0], images.size(0))
            if i % PRINT_FREQ == 0:
                progress.display(i + 1)
    print(f" * Acc@1 {top1.avg:.3f} Acc@5 {top5.avg:.3f}")
    return top1.avg


def train(plain, steps, budget):
    torch.manual_seed(0)
    train_loader, val_loader = make_loaders()
    model, criterion = ResNet(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    losses, top1 = AverageMeter("Loss", ":.4e"), AverageMeter("Acc@1", ":6.2f")
    top5 = AverageMeter("Acc@5", ":6.2f")

    def train_step(images, target):
        output = model(images)
        loss = criterion(output, target)
        acc1, acc5 = accuracy(output, target, topk=(1, 5))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1[0], images.size(0))
        top5.update(acc5[0], images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    if not plain:
        import fitstep

        example = torch.zeros(BATCH, 3, SIDE, SIDE), torch.zeros(BATCH, dtype=torch.long)
        train_step = fitstep.compile(train_step, example=example, budget=budget)
    best_acc1, began = 0, time.time()
    for epoch in range(-(-steps // len(train_loader))):
        progress = ProgressMeter(len(train_loader), [losses, top1, top5], f"Epoch: [{epoch}]")
        for meter in progress.meters:
            meter.reset()
        model.train()
        for i, (images, target) in enumerate(train_loader):
            train_step(images, target)
            if i % PRINT_FREQ == 0:
                progress.display(i + 1)
        acc1 = validate(val_loader, model, criterion)
        scheduler.step()
        best_acc1 = max(acc1, best_acc1)
    print(f"best {best_acc1:.3f}, lr {scheduler.get_last_lr()[0]:g}")
    print(f"{time.time() - began:.2f} s", file=sys.stderr)
    return model, optimizer, scheduler


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
