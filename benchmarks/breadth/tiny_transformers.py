"""Tiny random models of every type that transformers registers for four tasks.

A type's default configuration is shrunk by the names of its fields, for example `hidden_size` to
64 and `num_hidden_layers` to 2. OVERRIDES holds what a type needs beside that.
"""

import functools
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.breadth.subject import (
    CLASSES,
    TOKENS,
    VOCAB,
    Batch,
    Subject,
    image_batches,
    token_batches,
)
from benchmarks.breadth.transformers_overrides import OVERRIDES

WIDTH = 64
HEADS = 4
LAYERS = 2
TASKS = {
    "causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "masked": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "image": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
}
# The most that a field of a configuration may be.
BY_NAME: dict[str, int] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "embed_dim", "hidden_dim", "emb_dim", "dim",
         "embedding_size", "embedding_dim", "width", "word_embed_proj_dim", "output_dim",
         "projection_dim", "input_embedding_size", "output_embedding_size", "lru_width",
         "attention_hidden_size", "backbone_hidden_size", "out_hidden_size", "hidden_size_global",
         "word_embed_proj_dim", "input_size", "decoder_hidden_size", "pooler_hidden_size",
         "output_channels", "projector_output_dim", "projector_input_dim", "true_hidden_size",
         "projection_size", "attention_hidden_size", "adapter_out_dim", "router_hidden_size"),
        WIDTH,
    ),
    **dict.fromkeys(
        ("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "d_ff", "n_inner",
         "moe_intermediate_size", "shared_expert_intermediate_size", "ffn_hidden_size", "dim_ff",
         "shared_intermediate_size", "expert_ffn_hidden_size", "intermediate_size_mlp", "dff",
         "feed_forward_size", "d_inner", "dense_intermediate_size", "mlp_dim",
         "moe_shared_expert_intermediate_size", "shared_experts_intermediate_size"),
        2 * WIDTH,
    ),
    **dict.fromkeys(
        ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads", "n_head",
         "num_heads", "n_heads", "attention_heads", "num_encoder_attention_heads",
         "num_decoder_attention_heads", "swa_num_attention_heads", "linear_num_value_heads",
         "index_n_heads", "linear_num_heads", "n_routed_experts", "num_experts",
         "num_local_experts", "moe_num_experts", "num_kv_heads", "sliding_window_pattern"),
        HEADS,
    ),
    **dict.fromkeys(
        ("num_key_value_heads", "swa_num_key_value_heads", "linear_num_key_heads",
         "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "moe_top_k",
         "kv_n_heads", "num_hidden_layers", "encoder_layers", "decoder_layers", "num_layers",
         "n_layer", "n_layers", "num_decoder_layers", "num_encoder_layers", "zero_expert_num"),
        LAYERS,
    ),
    **dict.fromkeys(
        ("n_group", "topk_group", "num_expert_group", "moe_layer_start_index", "layer_group_size",
         "moe_layer_end_index", "first_k_dense_replace", "num_nextn_predict_layers"),
        1,
    ),
    **dict.fromkeys(
        ("head_dim", "d_kv", "kv_channels", "linear_key_head_dim", "linear_value_head_dim",
         "v_head_dim", "qk_nope_head_dim", "swa_head_dim", "d_head", "dim_head", "mamba_d_head",
         "attention_head_size", "index_head_dim", "linear_head_dim", "global_head_dim",
         "mamba_d_state", "state_size", "ssm_state_size"),
        WIDTH // HEADS,
    ),
    **dict.fromkeys(
        ("kv_lora_rank", "q_lora_rank", "o_lora_rank", "qk_head_dim"), WIDTH // 2
    ),
    "qk_rope_head_dim": WIDTH // HEADS,
    **dict.fromkeys(
        ("vocab_size", "src_vocab_size", "tgt_vocab_size", "decoder_vocab_size",
         "unpadded_vocab_size", "entity_vocab_size", "pronunciation_vocab_size",
         "shape_vocab_size", "codebook_size", "vocab_size_per_layer_input", "char_vocab_size"),
        VOCAB,
    ),
    **dict.fromkeys(
        ("max_position_embeddings", "n_positions", "n_ctx", "max_source_positions",
         "max_target_positions", "max_seq_len", "context_length", "max_sequence_length",
         "max_encoder_position_embeddings", "max_decoder_position_embeddings", "model_max_length",
         "original_max_position_embeddings"),
        2 * TOKENS,
    ),
    "sliding_window": TOKENS // 2,
    "image_size": 64,
    "rotary_dim": 16, "mamba_n_heads": 8,
}  # fmt: skip
_DRAFTS = "drafts for another model and needs that model's states"
# Why plain PyTorch does not train the type in a tiny form.
SKIPPED: dict[str, str] = {
    "transformers_causal/gemma3n": "its image tower exists in one size, of 295 million parameters",
    "transformers_causal/gemma4_assistant": _DRAFTS,
    "transformers_causal/gemma4_unified_assistant": _DRAFTS,
    "transformers_image/dinat": "needs the package natten",
    "transformers_image/levit/b1": "batch norm of a single value",
    "transformers_image/shieldgemma2": "a causal model behind a processor's prompt; see gemma3",
    "transformers_seq2seq/nemo_speechlm": "its parts' sizes depend on each other in too many ways",
    "transformers_seq2seq/voxtral_realtime": "needs an audio stream beside the text",
}
CODEBOOKS = 4  # Of musicgen.
# Fields that follow from others; with the large model's values they would contradict them.
DROPPED = {
    "transformers_version", "architectures", "id2label", "label2id", "dtype", "out_features",
    "out_indices", "stage_names", "per_layer_config", "_name_or_path",
}  # fmt: skip


def names() -> list[str]:
    """transformers_TASK/TYPE, for example transformers_causal/llama."""
    from transformers.models.auto import modeling_auto

    missing = set() if importlib.util.find_spec("timm") else {"timm_wrapper"}
    return [
        f"transformers_{task}/{kind}"
        for task, mapping in TASKS.items()
        for kind in getattr(modeling_auto, mapping)
        if kind not in missing
    ]


def build(name: str, count: int) -> Subject:
    """A subject whose batches have `count` rows."""
    task, kind = name.removeprefix("transformers_").split("/")
    overrides = {**OVERRIDES.get(kind, {}), **OVERRIDES.get(f"{task}/{kind}", {})}
    config = tiny_config(task, kind, overrides)
    model = _model(task, kind, config).train()
    loss = LOSSES.get(f"{task}/{kind}")
    if task == "image" and kind != "imagegpt":
        return Subject(model, _images(config, count), loss or _image_loss)
    wanted = inspect.signature(model.forward).parameters
    masked = count > 1 and "attention_mask" in wanted and not loss
    batches = token_batches(count, masked)
    first = "input_ids" if "input_ids" in wanted else "inputs"
    return Subject(model, batches, loss or functools.partial(_text_loss, first))


def tiny_config(task: str, kind: str, overrides: dict[str, Any]) -> Any:
    """The type's default configuration with every large field shrunk."""
    from transformers import CONFIG_MAPPING

    cls = CONFIG_MAPPING[kind]
    fields = shrink(cls().to_dict())
    if task == "image":
        fields["num_labels"] = CLASSES
    for key, value in overrides.items():
        *parts, last = key.split(".")
        inner = fields
        for part in parts:
            inner = inner[part]
        inner[last] = value
    return cls(**fields)


def shrink(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a configuration, small; parts of it too."""
    depths = (fields.get(key) for key in ("num_hidden_layers", "n_layer", "num_layers"))
    depth = next((value for value in depths if isinstance(value, int)), None)
    small: dict[str, Any] = {}
    for key, value in fields.items():
        if key in DROPPED or value is None:
            continue
        if isinstance(value, dict) and "model_type" in value:
            small[key] = shrink(value)
        elif isinstance(value, list) and depth and len(value) == depth > LAYERS:
            small[key] = _each_kind(value)
        elif isinstance(value, bool) or not isinstance(value, int):
            small[key] = value
        elif key.endswith(("_token_id", "_token_index", "_id")) or key == "pad_index":
            small[key] = value if value < VOCAB else 3
        else:
            small[key] = min(value, BY_NAME.get(key, value))
    heads, key_heads = (fields.get(f"num_{of}_heads") for of in ("attention", "key_value"))
    if key_heads is not None:  # Keeps what the type is: every head its own, groups, or one for all.
        small["num_key_value_heads"] = {heads: HEADS, 1: 1}.get(key_heads, HEADS // 2)
    return small


def _each_kind(values: list[Any]) -> list[Any]:
    """As many as layers; of different ones, one each."""
    kinds = [value for i, value in enumerate(values) if value not in values[:i]]
    return (kinds + values)[:LAYERS] if len(kinds) > 1 else values[:LAYERS]


def _model(task: str, kind: str, config: Any) -> Any:
    import transformers
    from transformers.models.auto import modeling_auto

    name = getattr(modeling_auto, TASKS[task])[kind]
    cls = getattr(transformers, name if isinstance(name, str) else name[0])
    if cls.config_class is not type(config):
        config = getattr(config, "decoder", None) or config.get_text_config()
    return cls(config)


def _images(config: Any, count: int) -> list[Batch]:
    size = getattr(config, "image_size", None) or 64
    if not isinstance(size, int):
        size = size[0]
    channels = getattr(config, "num_channels", 3)
    return image_batches(count, (channels, size, size))


def _text_loss(
    first: str, model: nn.Module, tokens: Tensor, labels: Tensor, mask: Tensor | None = None
) -> Tensor:
    more = {} if mask is None else {"attention_mask": mask}
    return model(**{first: tokens}, labels=labels, **more).loss


def _image_loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return model(pixel_values=images, labels=labels).loss


def _git_loss(model: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    """Its own loss leaves out the tokens of an image, also where there is none."""
    return functional.cross_entropy(model(input_ids=tokens).logits.flatten(0, 1), labels.flatten())


def _musicgen_loss(model: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    """One row of tokens per codebook."""
    logits = model(input_ids=tokens.repeat_interleave(CODEBOOKS, 0)).logits
    labels = labels.repeat_interleave(CODEBOOKS, 0)
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def _imagegpt_loss(model: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    """Pixels are tokens, too."""
    return model(input_ids=tokens, labels=labels[:, 0] % CLASSES).loss


def _lcnet_loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """The model has no loss of its own and returns probabilities."""
    scores = model(pixel_values=images).last_hidden_state
    return functional.cross_entropy(scores, labels)


def _siglip2_loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Takes patches, a mask of them, and the shape they come from."""
    count = len(images)
    patches = images.reshape(count, 16, -1)
    shapes = torch.full((count, 2), 4)
    mask = torch.ones(count, 16, dtype=torch.long)
    return model(
        pixel_values=patches, pixel_attention_mask=mask, spatial_shapes=shapes, labels=labels
    ).loss


LOSSES: dict[str, Callable[..., Tensor]] = {
    "causal/git": _git_loss,
    "causal/musicgen": _musicgen_loss,
    "causal/musicgen_melody": _musicgen_loss,
    "image/imagegpt": _imagegpt_loss,
    "image/pp_lcnet": _lcnet_loss,
    "image/siglip2": _siglip2_loss,
}
