"""Well-known models in a few lines each, without torchvision: for examples, tests and benchmarks.

Each follows its paper; the layer sizes are arguments, so that a test can use a small one of the
same shape. Weights are random: nothing is downloaded. Nets that papers on memory train have the
sizes given there; `maps.py` counts their feature maps as those papers do.
"""

from fitstep.zoo.alexnet import alexnet, alexnet_227, caffe_alexnet, caffenet
from fitstep.zoo.dcgan import Discriminator, Generator
from fitstep.zoo.googlenet import googlenet
from fitstep.zoo.gpt import GPT
from fitstep.zoo.inception import InceptionV3
from fitstep.zoo.lstm import LSTMLanguageModel
from fitstep.zoo.mlp import MLP
from fitstep.zoo.overfeat import overfeat_accurate, overfeat_fast
from fitstep.zoo.ptb import PTBModel
from fitstep.zoo.resnet import ResNet, deep_resnet, resnet18, resnet34, resnet50
from fitstep.zoo.seq2seq import Seq2Seq
from fitstep.zoo.small import cifar10_quick, lenet, vdnnpp_demo
from fitstep.zoo.unet import UNet
from fitstep.zoo.vgg import VGG, deep_vgg, vgg16, vgg19
from fitstep.zoo.wide_resnet import cifar_resnet, wide_resnet

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
