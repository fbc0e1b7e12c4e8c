"""Well-known models in a few lines each, without torchvision: for examples, tests and benchmarks.

Each follows its paper; the layer sizes are arguments, so that a test can use a small one of the
same shape. Weights are random: nothing is downloaded.
"""

from fitstep.zoo.dcgan import Discriminator, Generator
from fitstep.zoo.gpt import GPT
from fitstep.zoo.lstm import LSTMLanguageModel
from fitstep.zoo.mlp import MLP
from fitstep.zoo.resnet import ResNet, resnet18, resnet50
from fitstep.zoo.unet import UNet
from fitstep.zoo.vgg import VGG, vgg16

__all__ = [
    "GPT",
    "MLP",
    "VGG",
    "Discriminator",
    "Generator",
    "LSTMLanguageModel",
    "ResNet",
    "UNet",
    "resnet18",
    "resnet50",
    "vgg16",
]
