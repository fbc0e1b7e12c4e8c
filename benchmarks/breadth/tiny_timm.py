"""One tiny random model of every module of timm.models."""

import importlib
from typing import Any

from benchmarks.breadth.subject import CLASSES, Subject, classification_loss, image_batches

# Transformers of 24 to 90 million parameters, narrow and shallow.
_NARROW = {"img_size": 64, "embed_dim": 48, "depth": 2, "num_heads": 3}
_STAGES = {"depths": (1, 1, 1, 1), "embed_dim": 24}
# Module -> model, or class where the model's function fixes the sizes; side of its images; sizes.
MODELS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "beit": ("beit_base_patch16_224", 64, _NARROW),
    "byoanet": ("botnet26t_256", 64, {"img_size": 64}),
    "byobnet": ("test_byobnet", 64, {}),
    "cait": ("cait_xxs24_224", 64, {**_NARROW, "depth_token_only": 1}),
    "coat": ("coat_tiny", 64, {"img_size": 64, "serial_depths": (1, 1, 1, 1)}),
    "convit": ("convit_tiny", 64, {"img_size": 64, "depth": 2, "local_up_to_layer": 1}),
    "convmixer": ("ConvMixer", 64, {"dim": 48, "depth": 2}),
    "convnext": ("test_convnext", 64, {}),
    "cpubone": ("cpubone_nano", 64, {}),
    "crossvit": ("crossvit_tiny_240", 240, {"depth": ((1, 1, 0), (1, 1, 0))}),
    "csatv2": ("csatv2", 64, {}),
    "cspnet": ("cs3darknet_focus_s", 64, {}),
    "cspnext": ("cspnext_tiny", 64, {}),
    "davit": ("davit_tiny", 64, {"depths": (1, 1, 1, 1), "embed_dims": (24, 48, 96, 96)}),
    "deepseek_vit": ("deepseek_vit_412m", 56, {**_NARROW, "img_size": 56}),
    "deit": ("deit_tiny_distilled_patch16_224", 64, _NARROW),
    "densenet": ("densenet121", 64, {"growth_rate": 8, "block_config": (2, 2, 2, 2)}),
    "dla": ("dla46x_c", 64, {}),
    "dpn": ("dpn48b", 64, {"k_sec": (1, 1, 1, 1)}),
    "edgenext": ("edgenext_xx_small", 64, {}),
    "efficientformer": ("efficientformer_l1", 224, {"depths": (1, 1, 1, 2),
                                                    "embed_dims": (16, 32, 48, 64)}),
    "efficientformer_v2": ("efficientformerv2_s0", 64, {"img_size": 64}),
    "efficientnet": ("efficientnet_lite0", 64, {}),
    "efficientvim": ("efficientvim_m1", 128, {}),
    "efficientvit_mit": ("efficientvit_b0", 64, {}),
    "efficientvit_msra": ("efficientvit_m0", 128, {"img_size": 128}),
    "eva": ("eva02_tiny_patch14_224", 56, {**_NARROW, "img_size": 56}),
    "fasternet": ("fasternet_t0", 64, {}),
    "fastvit": ("fastvit_t8", 64, {}),
    "focalnet": ("FocalNet", 64, _STAGES),
    "gcvit": ("GlobalContextVit", 64, {"img_size": 64, "window_ratio": (32, 32, 16, 32),
                                     "embed_dim": 16, "depths": (1, 1, 2, 1),
                                     "num_heads": (1, 2, 4, 4)}),
    "gemma4_vit": ("gemma4_vit_167m", 96, _NARROW),
    "ghostnet": ("ghostnet_050", 64, {}),
    "hardcorenas": ("hardcorenas_b", 64, {}),
    "hgnet": ("hgnetv2_b0", 64, {}),
    "hiera": ("hiera_tiny_224", 64, {"img_size": (64, 64), "stages": (1, 1, 2, 1),
                                     "embed_dim": 16}),
    "hieradet_sam2": ("sam2_hiera_tiny", 64, {"stages": (1, 1, 2, 1), "embed_dim": 16,
                                              "global_att_blocks": (3,)}),
    "hrnet": ("hrnet_w18_small", 64, {}),
    "iformer": ("iformer_t", 64, {}),
    "inception_next": ("inception_next_atto", 64, {}),
    "inception_resnet_v2": ("inception_resnet_v2", 160, {}),
    "inception_v3": ("inception_v3", 160, {}),
    "inception_v4": ("inception_v4", 160, {}),
    "lcnetv2": ("lcnetv2_small", 64, {}),
    "levit": ("levit_128s", 64, {"img_size": 64}),
    "lowformer": ("lowformer_b0", 64, {}),
    "mambaout": ("test_mambaout", 64, {}),
    "maxxvit": ("test_maxvit", 64, {"img_size": 64}),
    "metaformer": ("MetaFormer", 64, {"depths": (1, 1, 1, 1), "dims": (16, 32, 48, 64)}),
    "mlp_mixer": ("gmlp_ti16_224", 64, {"img_size": 64}),
    "mobilenetv3": ("mobilenetv3_small_050", 64, {}),
    "mobilenetv5": ("mobilenetv5_base", 64, {"channel_multiplier": 0.25}),
    "mobilevit": ("mobilevit_xxs", 64, {}),
    "mvitv2": ("mvitv2_tiny", 64, {"img_size": 64}),
    "naflexvit": ("naflexvit_base_patch16_gap", 64, {"embed_dim": 48, "depth": 2,
                                                     "num_heads": 3}),
    "nasnet": ("nasnetalarge", 96, {"num_features": 24 * 96, "stem_size": 24}),
    "nest": ("Nest", 64, {"img_size": 64, "depths": (1, 1, 2), "embed_dims": (24, 48, 96),
                     "num_heads": (1, 2, 4)}),
    "nextvit": ("nextvit_small", 64, {}),
    "nfnet": ("test_nfnet", 64, {}),
    "pit": ("pit_ti_224", 64, {"img_size": 64, "depth": (1, 1, 1)}),
    "pnasnet": ("pnasnet5large", 96, {}),
    "pvt_v2": ("pvt_v2_b0", 64, {}),
    "qwen3_vit": ("qwen3_vit_88m", 64, _NARROW),
    "rdnet": ("rdnet_tiny", 64, {}),
    "regnet": ("regnety_002", 64, {}),
    "repghost": ("repghostnet_050", 64, {}),
    "repvit": ("repvit_m0_9", 64, {}),
    "res2net": ("res2net50_14w_8s", 64, {"layers": (1, 1, 1, 1)}),
    "resnest": ("resnest14d", 64, {}),
    "resnet": ("resnet10t", 64, {}),
    "resnetv2": ("resnetv2_18", 64, {"layers": (1, 1, 1, 1), "channels": (32, 64, 96, 128)}),
    "rexnet": ("rexnet_100", 64, {"width_mult": 0.5}),
    "selecsls": ("selecsls42", 128, {}),
    "senet": ("legacy_seresnet18", 64, {"layers": (1, 1, 1, 1)}),
    "sequencer": ("sequencer2d_s", 64, {"img_size": 64, "layers": (1, 1, 1, 1),
                                        "embed_dims": (24, 48, 48, 48),
                                        "hidden_sizes": (12, 24, 24, 24)}),
    "shvit": ("shvit_s1", 128, {}),
    "sknet": ("skresnet18", 64, {"layers": (1, 1, 1, 1)}),
    "starnet": ("starnet_s050", 64, {}),
    "swiftformer": ("swiftformer_xs", 64, {"img_size": 64}),
    "swin_transformer": ("swin_tiny_patch4_window7_224", 64, {**_STAGES, "img_size": 64,
                                                              "window_size": 4}),
    "swin_transformer_v2": ("swinv2_tiny_window8_256", 64, {**_STAGES, "img_size": 64,
                                                            "window_size": 4}),
    "swin_transformer_v2_cr": ("swinv2_cr_tiny_224", 64, {**_STAGES, "img_size": 64,
                                                          "window_size": 4}),
    "tiny_vit": ("tiny_vit_5m_224", 64, {"depths": (1, 1, 2, 1), "embed_dims": (16, 32, 48, 64),
                                         "num_heads": (1, 1, 2, 2)}),
    "tnt": ("tnt_s_patch16_224", 64, {"img_size": 64, "embed_dim": 48, "depth": 2,
                                      "num_heads_outer": 3}),
    "tresnet": ("tresnet_m", 64, {"layers": (1, 1, 1, 1), "width_factor": 0.5}),
    "twins": ("twins_svt_small", 64, {"img_size": 64, "depths": (1, 1, 2, 1),
                                      "embed_dims": (16, 32, 64, 64), "num_heads": (1, 2, 4, 4)}),
    "vgg": ("VGG", 64, {"cfg": [16, "M", 32, "M", 32, "M", 32, "M", 32, "M"]}),
    "visformer": ("visformer_tiny", 64, {"img_size": 64, "depth": (1, 1, 1)}),
    "vision_transformer": ("vit_tiny_patch16_224", 64, {"img_size": 64, "depth": 2}),
    "vision_transformer_hybrid": ("vit_tiny_r_s16_p8_224", 64, {"img_size": 64, "depth": 2}),
    "vision_transformer_relpos": ("test_vit_relpos", 64, {"img_size": 64}),
    "vision_transformer_sam": ("samvit_base_patch16_224", 64, _NARROW),
    "vitamin": ("vitamin_small_224", 64, {"img_size": 64}),
    "volo": ("VOLO", 64, {"img_size": 64, "layers": (1, 1, 1, 1), "embed_dims": (24, 48, 48, 48),
                     "num_heads": (1, 2, 2, 2), "use_mix_token": False}),
    "vovnet": ("ese_vovnet19b_slim_dw", 64, {}),
    "xception": ("legacy_xception", 96, {}),
    "xception_aligned": ("xception41p", 64, {}),
    "xcit": ("xcit_nano_12_p8_224", 64, {"depth": 2}),
}  # fmt: skip
# Modules that normalise one value per channel of a batch of one image.
_PAIRS = (
    "efficientvit_msra", "iformer", "levit", "repvit", "resnest", "rexnet", "shvit", "sknet",
)  # fmt: skip
SKIPPED = {f"timm/{module}/b1": "batch norm of a single value" for module in _PAIRS}


def names() -> list[str]:
    """timm/MODULE for every module of the installed timm, also for those that MODELS lacks."""
    import timm

    return [f"timm/{module}" for module in timm.list_modules()]


def build(name: str, count: int) -> Subject:
    """A subject whose batches have `count` images."""
    import timm

    module = name.removeprefix("timm/")
    model_name, side, small = MODELS[module]
    if model_name[0].isupper():
        model = getattr(importlib.import_module(f"timm.models.{module}"), model_name)(
            num_classes=CLASSES, **small
        )
    else:
        model = timm.create_model(model_name, num_classes=CLASSES, **small)
    return Subject(model.train(), image_batches(count, (3, side, side)), classification_loss)
