"""DCGAN (Radford et al. 2015): two networks, two optimizers, two step functions, shared storages.

The discriminator's step runs the generator without gradients; the generator's step runs backward
through the discriminator. Images have side 8 << stages, so three stages give 64x64.
"""

from torch import Tensor, nn


class Generator(nn.Module):
    """Noise of shape (batch, noise) to images in [-1, 1]."""

    def __init__(self, noise: int = 100, width: int = 64, stages: int = 3) -> None:
        super().__init__()
        channels = width << stages
        layers: list[nn.Module] = [
            nn.ConvTranspose2d(noise, channels, 4, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
        ]
        for _ in range(stages):
            layers += [
                nn.ConvTranspose2d(channels, channels // 2, 4, 2, padding=1, bias=False),
                nn.BatchNorm2d(channels // 2),
                nn.ReLU(inplace=True),
            ]
            channels //= 2
        layers += [nn.ConvTranspose2d(channels, 3, 4, 2, padding=1, bias=False), nn.Tanh()]
        self.layers = nn.Sequential(*layers)

    def forward(self, noise: Tensor) -> Tensor:
        """One image per row of noise."""
        images: Tensor = self.layers(noise[:, :, None, None])
        return images


class Discriminator(nn.Module):
    """Images to one logit each: real or made."""

    def __init__(self, width: int = 64, stages: int = 3) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 4, 2, padding=1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
        ]
        channels = width
        for _ in range(stages):
            layers += [
                nn.Conv2d(channels, channels * 2, 4, 2, padding=1, bias=False),
                nn.BatchNorm2d(channels * 2),
                nn.LeakyReLU(0.2, inplace=True),
            ]
            channels *= 2
        layers.append(nn.Conv2d(channels, 1, 4, bias=False))
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        """The logit of each image."""
        logits: Tensor = self.layers(images).flatten()
        return logits
