"""The zoo's models are the published ones: parameter counts, output shapes."""

import pytest
import torch
from torch import nn

from fitstep import zoo


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (zoo.resnet18, 11_689_512),
        (zoo.resnet50, 25_557_032),
        (zoo.vgg16, 138_357_544),
        (zoo.UNet, 31_037_698),
        # Embedding 256*512, positions 512*512, twelve layers of 12*512*512 + 13*512, final norm
        # 2*512; the head is the embedding.
        (zoo.GPT, 256 * 512 + 512 * 512 + 12 * (12 * 512 * 512 + 13 * 512) + 2 * 512),
        (zoo.Generator, 3_576_704),
        (zoo.Discriminator, 2_765_568),
    ],
)
def test_parameter_count(model: type[nn.Module], parameters: int) -> None:
    with torch.device("meta"):  # Counts need no memory.
        built = model()
    # On meta tensors initialisation re-ties nothing, so ties hold as written in the model.
    assert sum(p.numel() for p in built.parameters()) == parameters


def test_gpt_head_is_the_embedding() -> None:
    model = zoo.GPT(vocab=16, context=8, width=8, layers=1, heads=2)
    assert model.head.weight is model.tokens.weight


def test_gpt_sees_only_the_past() -> None:
    torch.manual_seed(0)
    model = zoo.GPT(vocab=16, context=8, width=8, layers=2, heads=2).eval()
    tokens = torch.randint(0, 16, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 16
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5:], after[:, 5:])


@pytest.mark.parametrize("stages", [1, 3])
def test_dcgan_nets_fit_each_other(stages: int) -> None:
    images = zoo.Generator(noise=8, width=2, stages=stages)(torch.randn(2, 8))
    assert images.shape == (2, 3, 8 << stages, 8 << stages)
    assert zoo.Discriminator(width=2, stages=stages)(images).shape == (2,)


def test_unet_keeps_the_image_size() -> None:
    assert zoo.UNet(classes=5, width=2)(torch.randn(1, 3, 32, 48)).shape == (1, 5, 32, 48)
