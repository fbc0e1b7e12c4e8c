"""Well-known models in a few lines each, without torchvision: for examples, tests and benchmarks.

Each follows its paper; the layer sizes are arguments, so that a test can use a small one of the
same shape. Weights are random: nothing is downloaded. Nets that papers on memory train have the
sizes given there; `measures/maps.py` counts their feature maps as those papers do.
"""

from fitstep_kit.models.alexnet import alexnet, alexnet_227, caffe_alexnet, caffenet
from fitstep_kit.models.dcgan import Discriminator, Generator
from fitstep_kit.models.googlenet import googlenet
from fitstep_kit.models.gpt import GPT
from fitstep_kit.models.inception import InceptionV3
from fitstep_kit.models.lstm import LSTMLanguageModel
from fitstep_kit.models.mlp import MLP
from fitstep_kit.models.overfeat import overfeat_accurate, overfeat_fast
from fitstep_kit.models.ptb import PTBModel
from fitstep_kit.models.resnet import ResNet, deep_resnet, resnet18, resnet34, resnet50
from fitstep_kit.models.seq2seq import Seq2Seq
from fitstep_kit.models.small import cifar10_quick, lenet, vdnnpp_demo
from fitstep_kit.models.unet import UNet
from fitstep_kit.models.vgg import VGG, deep_vgg, vgg16, vgg19
from fitstep_kit.models.wide_resnet import cifar_resnet, wide_resnet

__all__ = [
    "GPT",
    "MLP",
    "VGG",
    "Discriminator",
    "Generator",
    "InceptionV3",
    "LSTMLanguageModel",
    "PTBModel",
    "ResNet",
    "Seq2Seq",
    "UNet",
    "alexnet",
    "alexnet_227",
    "caffe_alexnet",
    "caffenet",
    "cifar10_quick",
    "cifar_resnet",
    "deep_resnet",
    "deep_vgg",
    "googlenet",
    "lenet",
    "overfeat_accurate",
    "overfeat_fast",
    "resnet18",
    "resnet34",
    "resnet50",
    "vdnnpp_demo",
    "vgg16",
    "vgg19",
    "wide_resnet",
]
