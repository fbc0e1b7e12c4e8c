"""Tiny random models of peft and diffusers."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.breadth.subject import STEPS, VOCAB, Batch, Subject, generator, token_batches

SIDE = 16
CONTEXT = 32


def peft_names() -> list[str]:
    """One adapter."""
    return ["peft/lora_llama"]


def diffusers_names() -> list[str]:
    """One network of a diffusion."""
    return ["diffusers/unet2d_condition"]


def build(name: str, count: int) -> Subject:
    """A subject whose batches have `count` rows."""
    return {"peft/lora_llama": _lora, "diffusers/unet2d_condition": _unet}[name](count)


def _lora(count: int) -> Subject:
    import transformers
    from peft import LoraConfig, get_peft_model

    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=128, max_position_embeddings=128,
    )  # fmt: skip
    adapter = LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"])
    model = get_peft_model(transformers.LlamaForCausalLM(config), adapter)
    return Subject(model.train(), token_batches(count, masked=count > 1), _text_loss)


def _text_loss(
    model: nn.Module, tokens: Tensor, labels: Tensor, mask: Tensor | None = None
) -> Tensor:
    return model(input_ids=tokens, labels=labels, attention_mask=mask).loss


def _unet(count: int) -> Subject:
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=SIDE, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8,
        cross_attention_dim=CONTEXT, attention_head_dim=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    random = generator()
    batches: list[Batch] = [
        (
            torch.randn(count, 4, SIDE, SIDE, generator=random),
            torch.randint(0, 1000, (count,), generator=random),
            torch.randn(count, 8, CONTEXT, generator=random),
        )
        for _ in range(STEPS)
    ]
    return Subject(model.train(), batches, _noise_loss)


def _noise_loss(model: nn.Module, images: Tensor, times: Tensor, context: Tensor) -> Tensor:
    """As a training script does: the noise is drawn in the step."""
    noise = torch.randn_like(images)
    return functional.mse_loss(model(images + noise, times, context).sample, noise)
