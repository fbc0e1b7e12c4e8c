"""A small UNet that learns to remove noise, with random time steps and two averages of weights.

python examples/loops/diffusion.py [--plain] [--steps N] [--budget 80%]

The step draws its time steps and noise itself. One average is by hand, with a decay that depends
on a counter in Python; the other is torch.optim.swa_utils.AveragedModel.
"""

import argparse
import contextlib
import copy
import hashlib
import io
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

BATCH, SIDE, IMAGES, WIDTH, GROUPS = 4, 8, 16, 8, 4
TIMES, SAMPLING_STEPS, EMA_DECAY, AVERAGE_EVERY, LOG_EVERY = 50, 5, 0.95, 2, 2


def time_embedding(times, width):
    """Sines and cosines of the time step, from slow to fast."""
    speeds = torch.exp(-math.log(1000.0) * torch.arange(width // 2) / (width // 2))
    angles = times[:, None].float() * speeds[None, :]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.norm_1, self.norm_2 = nn.GroupNorm(GROUPS, inside), nn.GroupNorm(GROUPS, outside)
        self.conv_1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.conv_2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.time = nn.Linear(2 * WIDTH, outside)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, emb):
        h = self.conv_1(F.silu(self.norm_1(x)))
        h = h + self.time(F.silu(emb))[:, :, None, None]
        h = self.conv_2(self.dropout(F.silu(self.norm_2(h))))
        return h + self.skip(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, 2 * WIDTH)
        )
        self.enter = nn.Conv2d(1, WIDTH, 3, padding=1)
        self.down_1, self.down_2 = ResBlock(WIDTH, WIDTH), ResBlock(WIDTH, 2 * WIDTH)
        self.smaller = nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.middle = ResBlock(2 * WIDTH, 2 * WIDTH)
        self.larger = nn.ConvTranspose2d(2 * WIDTH, WIDTH, 2, stride=2)
        self.up = ResBlock(2 * WIDTH, WIDTH)
        self.leave = nn.Sequential(
            nn.GroupNorm(GROUPS, WIDTH), nn.SiLU(), nn.Conv2d(WIDTH, 1, 3, padding=1)
        )

    def forward(self, x, times):
        emb = self.time(time_embedding(times, WIDTH))
        first = self.down_1(self.enter(x), emb)
        h = self.middle(self.down_2(self.smaller(first), emb), emb)
        h = self.up(torch.cat([self.larger(h), first], dim=1), emb)
        return self.leave(h)


class Diffusion:
    """How much of an image is left after each time step."""

    def __init__(self):
        self.alphas_cumprod = torch.cumprod(1 - torch.linspace(1e-3, 0.1, TIMES), dim=0)

    def add_noise(self, images, noise, times):
        left = self.alphas_cumprod[times][:, None, None, None]
        return left.sqrt() * images + (1 - left).sqrt() * noise

    @torch.no_grad()
    def sample(self, model, shape, random):
        """Images from noise, without noise in between (DDIM)."""
        x = torch.randn(shape, generator=random)
        steps = torch.linspace(TIMES - 1, 0, SAMPLING_STEPS).long().tolist()
        for now, then in zip(steps, [*steps[1:], None], strict=True):
            noise = model(x, torch.full((shape[0],), now))
            left = self.alphas_cumprod[now]
            image = (x - (1 - left).sqrt() * noise) / left.sqrt()
            if then is None:
                return image.clamp(-1, 1)
            left = self.alphas_cumprod[then]
            x = left.sqrt() * image + (1 - left).sqrt() * noise
        return x


class EMA:
    """An exponential moving average by hand; early on it forgets faster."""

    def __init__(self, model):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.updates = 0

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        decay = min(EMA_DECAY, (1 + self.updates) / (10 + self.updates))
        for ours, p in zip(self.model.parameters(), model.parameters(), strict=True):
            ours.mul_(decay).add_(p, alpha=1 - decay)
        return decay


def make_images():
    """Discs of many sizes and places."""
    random = torch.Generator().manual_seed(9)
    x, y, radius = torch.rand(3, IMAGES, 1, 1, generator=random)
    grid = torch.linspace(0, 1, SIDE)
    distance = (grid[None, :, None] - x) ** 2 + (grid[None, None, :] - y) ** 2
    return torch.where(distance < (0.2 + 0.3 * radius) ** 2, 1.0, -1.0)[:, None]


def train(plain, steps, budget):
    torch.manual_seed(0)
    images, picking = make_images(), torch.Generator().manual_seed(6)
    model, diffusion = UNet(), Diffusion()
    ema = EMA(model)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(EMA_DECAY))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    global_step = 0

    def train_step(clean):
        nonlocal global_step
        noise = torch.randn_like(clean)
        times = torch.randint(0, TIMES, (clean.size(0),))
        predicted = model(diffusion.add_noise(clean, noise, times), times)
        loss = F.mse_loss(predicted, noise)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        decay = ema.update(model)
        global_step += 1
        if global_step % AVERAGE_EVERY == 0:
            averaged.update_parameters(model)
        if global_step % LOG_EVERY == 0:
            logs = {"loss": loss.detach().item(), "decay": decay, "step": global_step}
            print(" ".join(f"{name}={number:.6g}" for name, number in logs.items()))

    if not plain:
        import fitstep

        train_step = fitstep.compile(train_step, example=images[:BATCH], budget=budget)
    began = time.time()
    model.train()
    for _ in range(steps):
        rows = torch.randint(IMAGES, (BATCH,), generator=picking)
        train_step(images[rows])
    print(f"{time.time() - began:.2f} s", file=sys.stderr)
    averaged.eval()
    for name, average in {"by hand": ema.model, "AveragedModel": averaged}.items():
        samples = diffusion.sample(average, (2, 1, SIDE, SIDE), torch.Generator().manual_seed(1))
        print(f"samples, {name}: mean {samples.mean():.6f}, deviation {samples.std():.6f}")
    return model, ema.model, ema.updates, averaged, optimizer


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
