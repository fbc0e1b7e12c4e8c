"""A DCGAN in the style of the DCGAN example: two nets, two optimizers, three backward passes.

python examples/loops/dcgan.py [--plain] [--steps N] [--budget 80%]

The step makes its own noise, asks for `.item()` between its backward passes, and prints.
"""

import argparse
import contextlib
import hashlib
import io
import sys
import time

import torch
from torch import nn

BATCH, SIDE, IMAGES, LATENT, WIDTH = 6, 16, 24, 12, 8
REAL_LABEL, FAKE_LABEL, SHOW_EVERY = 1, 0, 3


def weights_init(m):
    name = m.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(LATENT, WIDTH * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(WIDTH * 2),
            nn.ReLU(True),  # 4 x 4.
            nn.ConvTranspose2d(WIDTH * 2, WIDTH, 4, 2, 1, bias=False),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(True),  # 8 x 8.
            nn.ConvTranspose2d(WIDTH, 3, 4, 2, 1, bias=False),
            nn.Tanh(),  # 16 x 16.
        )

    def forward(self, noise):
        return self.main(noise)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, WIDTH, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),  # 8 x 8.
            nn.Conv2d(WIDTH, WIDTH * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(WIDTH * 2),
            nn.LeakyReLU(0.2, inplace=True),  # 4 x 4.
            nn.Conv2d(WIDTH * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, images):
        return self.main(images).view(-1, 1).squeeze(1)


def make_images():
    """Smooth waves in three colours."""
    random = torch.Generator().manual_seed(5)
    grid = torch.linspace(0, 3, SIDE)
    phase, speed = torch.rand(2, IMAGES, 3, 1, 1, generator=random)
    return torch.sin(6 * phase + speed * (grid[:, None] + 2 * grid[None, :]))


def train(plain, steps, budget):
    torch.manual_seed(0)
    netG, netD = Generator(), Discriminator()
    netG.apply(weights_init)
    netD.apply(weights_init)
    criterion = nn.BCELoss()
    fixed_noise = torch.randn(BATCH, LATENT, 1, 1)
    optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
    images = make_images()
    per_epoch = IMAGES // BATCH

    def train_step(epoch, i, real):
        # The discriminator: maximise log(D(x)) + log(1 - D(G(z))), first with real images.
        netD.zero_grad()
        batch_size = real.size(0)
        label = torch.full((batch_size,), REAL_LABEL, dtype=real.dtype)
        output = netD(real)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.mean().item()
        # Then with fake ones.
        noise = torch.randn(batch_size, LATENT, 1, 1)
        fake = netG(noise)
        label.fill_(FAKE_LABEL)
        output = netD(fake.detach())
        errD_fake = criterion(output, label)
        errD_fake.backward()
        D_G_z1 = output.mean().item()
        errD = errD_real + errD_fake
        optimizerD.step()
        # The generator: maximise log(D(G(z))).
        netG.zero_grad()
        label.fill_(REAL_LABEL)
        output = netD(fake)
        errG = criterion(output, label)
        errG.backward()
        D_G_z2 = output.mean().item()
        optimizerG.step()
        print(
            f"[{epoch}][{i}/{per_epoch}] Loss_D: {errD.item():.6f} Loss_G: {errG.item():.6f} "
            f"D(x): {D_x:.6f} D(G(z)): {D_G_z1:.6f} / {D_G_z2:.6f}"
        )

    if not plain:
        import fitstep

        train_step = fitstep.compile(train_step, example=(0, 0, images[:BATCH]), budget=budget)
    began = time.time()
    for step in range(steps):
        epoch, i = divmod(step, per_epoch)
        train_step(epoch, i, images[i * BATCH : (i + 1) * BATCH])
        if step % SHOW_EVERY == 0:
            fake = netG(fixed_noise)  # As in the original, this moves the batch norms' averages.
            print(f"fake images: mean {fake.mean():.6f}, deviation {fake.detach().std():.6f}")
    print(f"{time.time() - began:.2f} s", file=sys.stderr)
    return netG, netD, optimizerG, optimizerD


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
