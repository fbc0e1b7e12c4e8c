"""Small random models from `transformers`, as subjects; nothing is downloaded."""

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from fitstep_kit.subjects.our_subjects import Batch, Subject, image_batches, token_batches

VOCAB = 96


def _text_loss(model: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    loss: Tensor = model(input_ids=tokens, labels=labels).loss
    return loss


def _image_loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    loss: Tensor = model(pixel_values=images, labels=labels).loss
    return loss


def _text(model: Any, tiny: bool) -> Subject:
    return Subject(model, token_batches(8 if tiny else 16, 32 if tiny else 64, VOCAB), _text_loss)


def _images(model: Any, tiny: bool) -> Subject:
    batches: list[Batch] = image_batches(16 if tiny else 32, 32, 10, torch.contiguous_format)
    return Subject(model, batches, _image_loss)


def _width(tiny: bool) -> int:
    return 32 if tiny else 128


def gpt2(tiny: bool) -> Subject:
    """Fused qkv as a transposed linear layer, tied head."""
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=64, n_embd=_width(tiny), n_layer=2, n_head=4,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return _text(transformers.GPT2LMHeadModel(config), tiny)


def bert(tiny: bool) -> Subject:
    """An encoder with masked-language head."""
    config = transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=_width(tiny), num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=2 * _width(tiny), max_position_embeddings=64,
    )  # fmt: skip
    return _text(transformers.BertForMaskedLM(config), tiny)


def llama(tiny: bool) -> Subject:
    """Rotary positions, grouped queries, RMS norm."""
    config = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=_width(tiny), num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=2 * _width(tiny), max_position_embeddings=64,
    )  # fmt: skip
    return _text(transformers.LlamaForCausalLM(config), tiny)


def t5(tiny: bool) -> Subject:
    """Encoder and decoder, relative position bias shared by all layers."""
    config = transformers.T5Config(
        vocab_size=VOCAB, d_model=_width(tiny), d_kv=8, d_ff=2 * _width(tiny), num_layers=2,
        num_heads=4, decoder_start_token_id=0,
    )  # fmt: skip
    return _text(transformers.T5ForConditionalGeneration(config), tiny)


def vit(tiny: bool) -> Subject:
    """Patches through a transformer."""
    config = transformers.ViTConfig(
        hidden_size=_width(tiny), num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=2 * _width(tiny), image_size=32, patch_size=8, num_labels=10,
    )  # fmt: skip
    return _images(transformers.ViTForImageClassification(config), tiny)


def resnet(tiny: bool) -> Subject:
    """Bottlenecks with batch norm."""
    width = _width(tiny) // 4
    config = transformers.ResNetConfig(
        embedding_size=width, hidden_sizes=[4 * width, 8 * width], depths=[1, 2], num_labels=10
    )
    return _images(transformers.ResNetForImageClassification(config), tiny)


HF_SUBJECTS: dict[str, Callable[[bool], Subject]] = {
    "hf_gpt2": gpt2,
    "hf_bert": bert,
    "hf_llama": llama,
    "hf_t5": t5,
    "hf_vit": vit,
    "hf_resnet": resnet,
}
