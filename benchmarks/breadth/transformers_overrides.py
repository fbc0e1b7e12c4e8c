"""What single types of transformers need beside the shrinking by names of fields.

Keys are types, or TASK/TYPE where a task differs; a dot reaches into a part of the configuration.
"""

from typing import Any

_MAMBA = ["linear_attention", "hybrid", "linear_attention", "hybrid"]
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_SWIN = {"embed_dim": 24, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4}
_T5 = {"decoder_start_token_id": 0}
_GEMMA3N = {
    "num_kv_shared_layers": 0, "intermediate_size": [128, 128], "laurel_rank": 16,
    "hidden_size_per_layer_input": 16,
}  # fmt: skip
_DOTS3 = {
    "head_dim": 32,
    "per_layer_config": {1: {"num_attention_heads": 4, "num_key_value_heads": 4,
                             "kv_lora_rank": 16, "qk_nope_head_dim": 16}},
}  # fmt: skip
_VIBEVOICE = {"num_filters": 2, "depths": [1] * 7}
_STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64]}
_INDEXER = {
    "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 32,
    "indexer_compress_ratio": 4, "hc_lowrank": 16, "ngram_vocab_size_base": 64,
    "split_ngram_parts": 1,
}  # fmt: skip


def _below(part: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {f"{part}.{key}": value for key, value in fields.items()}


TEXTS: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 64, "use_cache": False},
    "cohere_compass_text": {"rope_parameters": {"full_attention": _ROPE}},
    "dbrx": {"attn_config.rope_theta": 10000.0, "attn_config.clip_qkv": 8.0},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dory": {"num_hidden_layers": 3, "n_input_layers": 1, "n_recurrent_layers": 1,
             "n_output_layers": 1, "n_recurrent_loops": 2,
             "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "dots3_note": {**_below("text_config", _DOTS3), "vision_config.adapter_in_dim": 64,
                   "audio_config.adapter_input_size": 64},
    "dots3_note_text": _DOTS3,
    "falcon_h1": {"mamba_d_ssm": 64},
    "gemma3n_text": _GEMMA3N,
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "hrm_text": {"num_hidden_layers": 8, "num_layers_per_stack": 1},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "mamba2": {"num_heads": 8},
    "ministral": {"head_dim": 16},
    "nemotron": {"num_key_value_heads": 2},
    "phi4_multimodal": _below("audio_config", {
        "num_blocks": 2, "nemo_conv_channels": 16, "ext_pw_out_channel": 64,
        "depthwise_separable_out_channel": 64,
    }),
    "qwen3_asr": {"audio_config.downsample_hidden_size": 16},
    "vibevoice_asr": {**_below("acoustic_tokenizer_encoder_config", _VIBEVOICE),
                      **_below("semantic_tokenizer_encoder_config", _VIBEVOICE)},
    "qwen4_exp": _below("text_config", _INDEXER),
    "qwen4_exp_text": _INDEXER,
    "recurrent_gemma": {"num_hidden_layers": 3},
    "causal/reformer": {"is_decoder": True},
    "reformer": {"axial_pos_shape": [8, 8], "axial_pos_embds_dim": [16, 48], "num_hidden_layers": 2,
                 "attn_layers": ["local", "lsh"], "local_attn_chunk_length": 16,
                 "lsh_attn_chunk_length": 16, "num_buckets": 8},
    "xlstm": {"qk_dim_factor": 1.0, "num_blocks": 2, "use_cache": False},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"num_hidden_layers": 4, "layers_block_type": _MAMBA, "attention_hidden_size": 128,
              "attention_head_dim": 32, "mamba_dt_rank": 4},
    "zamba2": {"num_hidden_layers": 4, "layers_block_type": _MAMBA, "attention_hidden_size": 128,
               "attention_head_dim": 32, "mamba_headdim": 16, "hybrid_layer_ids": [1, 3],
               "adapter_rank": 8, "num_query_groups": 4},
    "esm": {"vocab_size": 128, "mask_token_id": 32, "pad_token_id": 1},
    "esmc": {"vocab_size": 128},
    "mobilebert": {"true_hidden_size": 32, "intra_bottleneck_size": 32, "embedding_size": 32},
    "perceiver": {"num_latents": 16, "d_latents": 64, "d_model": 64, "qk_channels": 64,
                  "v_channels": 64, "num_self_attention_heads": 4, "max_position_embeddings": 64,
                  "num_self_attends_per_block": 2, "num_cross_attention_heads": 4},
    "encoder-decoder": {"decoder_start_token_id": 2, "pad_token_id": 0},
    "led": {"attention_window": 16},
    "longformer": {"attention_window": [16, 16]},
    "longt5": _T5,
    "switch_transformers": _T5,
    "t5": _T5,
}  # fmt: skip
IMAGES: dict[str, dict[str, Any]] = {
    "bit": {**_STAGES, "num_groups": 4, "embedding_size": 16},
    "convnext": _STAGES,
    "convnextv2": _STAGES,
    "cvt": {"embed_dim": [16, 32, 48], "num_heads": [1, 2, 3], "depth": [1, 2, 3]},
    "donut-swin": _SWIN,
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320},
    "focalnet": {"embed_dim": 16, "depths": [1, 1, 1, 1], "hidden_sizes": [32, 64, 64, 64]},
    "hgnet_v2": {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64], "embedding_size": 16,
                 "stem_channels": [3, 8, 12], "stage_in_channels": [12, 16, 32, 48],
                 "stage_mid_channels": [8, 8, 16, 16], "stage_out_channels": [16, 32, 48, 64],
                 "stage_num_blocks": [1, 1, 2, 1], "stage_numb_of_layers": [2, 2, 2, 2]},
    "hiera": {"embed_dim": 16, "depths": [1, 1, 2, 1], "image_size": [64, 64],
              "masked_unit_size": [8, 8]},
    "levit": {"hidden_sizes": [32, 64, 96], "depths": [1, 1, 1], "num_attention_heads": [2, 4, 6],
              "key_dim": [8, 8, 8],
              "down_ops": [["Subsample", 8, 4, 4, 2, 2], ["Subsample", 8, 8, 4, 2, 2]]},
    "mobilenet_v1": {"depth_multiplier": 0.25},
    "mobilenet_v2": {"depth_multiplier": 0.25},
    "mobilevit": {"hidden_sizes": [24, 32, 48], "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 64]},
    "mobilevitv2": {"width_multiplier": 0.25, "base_attn_unit_dims": [32, 48, 64]},
    "poolformer": _STAGES,
    "pvt": {**_STAGES, "num_attention_heads": [1, 2, 3, 4]},
    "pvt_v2": {**_STAGES, "num_attention_heads": [1, 2, 3, 4], "image_size": [64, 64]},
    "regnet": {**_STAGES, "groups_width": 8, "embedding_size": 16},
    "resnet": {**_STAGES, "embedding_size": 16},
    "segformer": {**_STAGES, "num_attention_heads": [1, 2, 3, 4]},
    "siglip2": {"vision_config.num_patches": 16},
    "swiftformer": {"depths": [1, 1, 1, 1], "embed_dims": [16, 24, 32, 48]},
    "swin": _SWIN,
    "swinv2": _SWIN,
    "textnet": {"hidden_sizes": [16, 16, 24, 32, 48], "stem_out_channels": 16},
    "timm_wrapper": {"architecture": "test_resnet"},
}  # fmt: skip
OVERRIDES = {**TEXTS, **{f"image/{kind}": fields for kind, fields in IMAGES.items()}}
