"""The kit's models are the published ones: parameter counts, output shapes."""

import pytest
import torch
from fitstep.errors import is_user_file
from fitstep_kit import models
from torch import nn

from fitstep.base import sources


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (models.resnet18, 11_689_512),
        (models.resnet50, 25_557_032),
        (models.vgg16, 138_357_544),
        (models.UNet, 31_037_698),
        # Embedding 256*512, positions 512*512, twelve layers of 12*512*512 + 13*512, final norm
        # 2*512; the head is the embedding.
        (models.GPT, 256 * 512 + 512 * 512 + 12 * (12 * 512 * 512 + 13 * 512) + 2 * 512),
        (models.Generator, 3_576_704),
        (models.Discriminator, 2_765_568),
    ],
)
def test_parameter_count(model: type[nn.Module], parameters: int) -> None:
    with torch.device("meta"):  # Counts need no memory.
        built = model()
    # On meta tensors initialisation re-ties nothing, so ties hold as written in the model.
    assert sum(p.numel() for p in built.parameters()) == parameters


def test_gpt_head_is_the_embedding() -> None:
    model = models.GPT(vocab=16, context=8, width=8, layers=1, heads=2)
    assert model.head.weight is model.tokens.weight


def test_gpt_sees_only_the_past() -> None:
    torch.manual_seed(0)
    model = models.GPT(vocab=16, context=8, width=8, layers=2, heads=2).eval()
    tokens = torch.randint(0, 16, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 16
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5:], after[:, 5:])


@pytest.mark.parametrize("stages", [1, 3])
def test_dcgan_nets_fit_each_other(stages: int) -> None:
    images = models.Generator(noise=8, width=2, stages=stages)(torch.randn(2, 8))
    assert images.shape == (2, 3, 8 << stages, 8 << stages)
    assert models.Discriminator(width=2, stages=stages)(images).shape == (2,)


def test_unet_keeps_the_image_size() -> None:
    assert models.UNet(classes=5, width=2)(torch.randn(1, 3, 32, 48)).shape == (1, 5, 32, 48)


def test_what_lies_beside_fitstep_and_begins_with_its_name_is_the_users_code() -> None:
    """Messages and programs name the lines of these models, as they name those of a user's."""
    kit = str(models.gpt.__file__)
    assert sources._is_users(kit) and is_user_file(kit)
    assert not sources._is_users(sources.__file__) and not is_user_file(sources.__file__)
