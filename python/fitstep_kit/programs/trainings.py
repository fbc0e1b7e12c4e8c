"""The training steps whose programs are in benchmarks/programs/: models, batches, optimizers.

Convolutional nets train with SGD and momentum, transformers with AdamW, DCGAN with Adam, as their
papers do; sizes are those that papers on memory measure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fitstep_kit.models import (
    GPT,
    Discriminator,
    Generator,
    InceptionV3,
    LSTMLanguageModel,
    ResNet,
    UNet,
    vgg19,
)
from fitstep_kit.models.pre_activation import PreActivationResNet
from fitstep_kit.models.resnet import Bottleneck

Step = tuple[Callable[..., Any], tuple[Any, ...]]  # A step function and its arguments.


@dataclass(frozen=True)
class Training:
    """One entry of the collection."""

    what: str
    make: Callable[[], Step]


def classification(model: nn.Module, inputs: Tensor, classes: int = 1000) -> Step:
    """Cross entropy of images' classes, SGD with momentum and weight decay."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

    def train_step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return train_step, (inputs, torch.empty(len(inputs), dtype=torch.int64))


def images(count: int, side: int) -> Tensor:
    """Where `count` RGB images would be."""
    return torch.empty(count, 3, side, side)


def tokens(count: int, length: int) -> Tensor:
    """Where `count` rows of token numbers would be."""
    return torch.empty(count, length, dtype=torch.int64)


def vgg(batch: int) -> Step:
    """VGG-19."""
    return classification(vgg19(), images(batch, 224))


def resnet(depths: tuple[int, ...], batch: int) -> Step:
    """ResNet of bottleneck blocks, 224x224."""
    return classification(ResNet(Bottleneck, depths), images(batch, 224))


def resnet_1001(batch: int) -> Step:
    """Pre-activation, for images of 32x32."""
    return classification(PreActivationResNet(units=111), images(batch, 32))


def inception(batch: int) -> Step:
    """With its second classifier, whose loss has a weight of 0.4."""
    model = InceptionV3()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

    def train_step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        logits, auxiliary = model(images)
        loss = F.cross_entropy(logits, labels) + 0.4 * F.cross_entropy(auxiliary, labels)
        loss.backward()
        optimizer.step()
        return loss

    return train_step, (images(batch, 299), torch.empty(batch, dtype=torch.int64))


def unet(batch: int, side: int) -> Step:
    """Cross entropy per pixel."""
    step, (inputs, _) = classification(UNet(), images(batch, side))
    return step, (inputs, torch.empty(batch, side, side, dtype=torch.int64))


def language_model(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor) -> Step:
    """Cross entropy of the next token."""

    def train_step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return train_step, (inputs, torch.empty_like(inputs))


def gpt(layers: int, width: int, heads: int, batch: int) -> Step:
    """GPT-2's shapes: 1024 positions, 50257 tokens."""
    model = GPT(vocab=50257, context=1024, width=width, layers=layers, heads=heads)
    return language_model(
        model, torch.optim.AdamW(model.parameters(), lr=3e-4), tokens(batch, 1024)
    )


def lstm(batch: int, length: int) -> Step:
    """Zaremba's large model. Without oneDNN's fused layers, whose workspace only a run would tell:
    one op per gate and position, as a step without a library for it does."""
    model = LSTMLanguageModel(vocab=10000, width=1500, layers=2, dropout=0.65)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    step, example = language_model(model, optimizer, tokens(batch, length))

    def train_step(inputs: Tensor, targets: Tensor) -> Any:
        with torch.backends.mkldnn.flags(enabled=False):
            return step(inputs, targets)

    return train_step, example


def bert(batch: int, length: int) -> Step:
    """BERT-large with its masked-language head."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=30522, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
        intermediate_size=4096, max_position_embeddings=512,
    )  # fmt: skip
    model = transformers.BertForMaskedLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def train_step(inputs: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(input_ids=inputs, labels=labels).loss
        loss.backward()
        optimizer.step()
        return loss

    return train_step, (tokens(batch, length), tokens(batch, length))


def vit(batch: int) -> Step:
    """ViT-L/16: 196 patches and a class token, 24 layers of width 1024."""
    import transformers

    config = transformers.ViTConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
        image_size=224, patch_size=16, num_labels=1000,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def train_step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pixel_values=images).logits, labels)
        loss.backward()
        optimizer.step()
        return loss

    return train_step, (images(batch, 224), torch.empty(batch, dtype=torch.int64))


def dcgan(part: str, batch: int) -> Step:
    """The discriminator's step on real and made images, or the generator's through it."""
    generator, discriminator = Generator(), Discriminator()
    trained = discriminator if part == "discriminator" else generator
    optimizer = torch.optim.Adam(trained.parameters(), lr=2e-4, betas=(0.5, 0.999))

    def loss_of(made: Tensor, is_real: bool) -> Tensor:
        logits = discriminator(made)
        wanted = torch.ones_like(logits) if is_real else torch.zeros_like(logits)
        return F.binary_cross_entropy_with_logits(logits, wanted)

    def discriminator_step(real: Tensor, noise: Tensor) -> Tensor:
        optimizer.zero_grad()
        with torch.no_grad():
            made = generator(noise)
        loss = loss_of(real, True) + loss_of(made, False)
        loss.backward()
        optimizer.step()
        return loss

    def generator_step(noise: Tensor) -> Tensor:
        optimizer.zero_grad()
        discriminator.zero_grad()
        loss = loss_of(generator(noise), True)
        loss.backward()
        optimizer.step()
        return loss

    noise = torch.empty(batch, 100)
    if part == "discriminator":
        return discriminator_step, (images(batch, 64), noise)
    return generator_step, (noise,)


TRAININGS: dict[str, Training] = {
    "vgg-e-64": Training("VGG-E, 64 images of 224x224, SGD", lambda: vgg(64)),
    "vgg-e-128": Training("VGG-E, 128 images of 224x224, SGD", lambda: vgg(128)),
    "vgg-e-256": Training("VGG-E, 256 images of 224x224, SGD", lambda: vgg(256)),
    "resnet-50": Training("ResNet-50, 64 images of 224x224, SGD", lambda: resnet((3, 4, 6, 3), 64)),
    "resnet-152": Training(
        "ResNet-152, 32 images of 224x224, SGD", lambda: resnet((3, 8, 36, 3), 32)
    ),
    "resnet-1001": Training("ResNet-1001, 64 images of 32x32, SGD", lambda: resnet_1001(64)),
    "inception-v3": Training("Inception-V3, 32 images of 299x299, SGD", lambda: inception(32)),
    "unet": Training("U-Net, 8 images of 512x512, SGD", lambda: unet(8, 512)),
    "gpt-12": Training(
        "GPT, 12 layers of width 768, 8 x 1024 tokens, AdamW", lambda: gpt(12, 768, 12, 8)
    ),
    "gpt-48": Training(
        "GPT, 48 layers of width 1600, 4 x 1024 tokens, AdamW", lambda: gpt(48, 1600, 25, 4)
    ),
    "bert-large": Training("BERT-large, 8 x 512 tokens, AdamW", lambda: bert(8, 512)),
    "vit-large": Training("ViT-L/16, 64 images of 224x224, AdamW", lambda: vit(64)),
    "lstm": Training(
        "LSTM language model, 2 layers of width 1500, 64 x 35 tokens, SGD", lambda: lstm(64, 35)
    ),
    "dcgan-d": Training(
        "DCGAN's discriminator step, 128 images of 64x64, Adam",
        lambda: dcgan("discriminator", 128),
    ),
    "dcgan-g": Training(
        "DCGAN's generator step, 128 images of 64x64, Adam", lambda: dcgan("generator", 128)
    ),
}
