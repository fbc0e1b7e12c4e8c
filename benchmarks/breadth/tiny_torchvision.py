"""One tiny random model of every family of torchvision: classes, segments and clips."""

import importlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.breadth.subject import (
    CLASSES,
    STEPS,
    Batch,
    Subject,
    classification_loss,
    generator,
    image_batches,
)

_SWIN = {
    "patch_size": [4, 4], "embed_dim": 24, "depths": [1, 1, 2, 1], "num_heads": [1, 2, 4, 8],
    "window_size": [7, 7], "stochastic_depth_prob": 0.2,
}  # fmt: skip
# Family -> function, or class where the function fixes the sizes; side of its images; sizes.
IMAGES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "alexnet": ("alexnet", 64, {}),
    "convnext": ("convnext_tiny", 64, {}),
    "densenet": ("DenseNet", 64, {"growth_rate": 8, "block_config": (2, 2, 2, 2)}),
    "efficientnet": ("efficientnet_b0", 64, {}),
    "efficientnet_v2": ("efficientnet_v2_s", 64, {}),
    "googlenet": ("googlenet", 96, {"init_weights": False}),
    "inception": ("inception_v3", 299, {"init_weights": False}),
    "maxvit": ("MaxVit", 64, {"input_size": (64, 64), "stem_channels": 16, "partition_size": 2,
                              "block_channels": [16, 16, 32, 32], "block_layers": [1, 1, 1, 1],
                              "head_dim": 8, "stochastic_depth_prob": 0.2}),
    "mnasnet": ("mnasnet0_5", 64, {}),
    "mobilenetv2": ("mobilenet_v2", 64, {"width_mult": 0.25}),
    "mobilenetv3": ("mobilenet_v3_small", 64, {"width_mult": 0.5}),
    "regnet": ("regnet_y_400mf", 64, {}),
    "resnet": ("resnet18", 64, {}),
    "resnext": ("ResNet", 64, {"layers": [1, 1, 1, 1], "groups": 32, "width_per_group": 4}),
    "shufflenetv2": ("shufflenet_v2_x0_5", 64, {}),
    "squeezenet": ("squeezenet1_1", 64, {}),
    "swin": ("SwinTransformer", 64, _SWIN),
    "swin_v2": ("SwinTransformer", 64, {**_SWIN, "window_size": [8, 8]}),
    "vgg": ("vgg11_bn", 64, {}),
    "vision_transformer": ("VisionTransformer", 64, {
        "image_size": 64, "patch_size": 16, "hidden_dim": 48, "num_heads": 3, "num_layers": 2,
        "mlp_dim": 96}),
    "wide_resnet": ("ResNet", 64, {"layers": [1, 1, 1, 1], "width_per_group": 128}),
}  # fmt: skip
SEGMENTS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "deeplabv3": ("deeplabv3_mobilenet_v3_large", 64, {"aux_loss": True}),
    "fcn": ("fcn_resnet50", 64, {"aux_loss": True}),
    "lraspp": ("lraspp_mobilenet_v3_large", 64, {}),
}
CLIPS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "mc3": ("mc3_18", 32, {}),
    "mvit_v1": ("MViT", 32, {"residual_pool": False, "residual_with_cls_embed": True,
                             "rel_pos_embed": False, "proj_after_attn": False}),
    "mvit_v2": ("MViT", 32, {"residual_pool": True, "residual_with_cls_embed": False,
                             "rel_pos_embed": True, "proj_after_attn": True}),
    "r2plus1d": ("r2plus1d_18", 32, {}),
    "r3d": ("r3d_18", 32, {}),
    "s3d": ("s3d", 96, {}),
    "swin3d": ("SwinTransformer3d", 64, {**_SWIN, "patch_size": [2, 4, 4],
                                         "window_size": [8, 7, 7]}),
}  # fmt: skip
FRAMES = 16
KINDS = {"torchvision": IMAGES, "torchvision_segments": SEGMENTS, "torchvision_clips": CLIPS}
_ONE = "batch norm of a single value"
SKIPPED = {"torchvision_segments/deeplabv3/b1": _ONE, "torchvision/inception/b1": _ONE}


def import_torchvision() -> None:
    """Imports torchvision, also one whose compiled half does not load, as beside a CPU's torch.

    Without its compiled half torchvision fails to register two operators that nobody has defined.
    No subject uses the two.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in ("nms", "qnms"):
            schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            _DEFINED.define(f"{name}{schema}")
        importlib.import_module("torchvision")


def names() -> list[str]:
    """KIND/FAMILY."""
    return [f"{kind}/{family}" for kind, families in KINDS.items() for family in families]


def build(name: str, count: int) -> Subject:
    """A subject whose batches have `count` rows."""
    import_torchvision()
    from torchvision import models

    kind, family = name.split("/")
    function, side, small = KINDS[kind][family]
    if function == "MViT":
        small = {**small, **_mvit(side)}
    if family == "swin_v2":
        v2 = models.swin_transformer
        small = {**small, "block": v2.SwinTransformerBlockV2, "downsample_layer": v2.PatchMergingV2}
    if function == "ResNet":
        small = {**small, "block": models.resnet.Bottleneck}
    if kind == "torchvision_segments":
        small = {**small, "weights_backbone": None}
    of = models.video if kind == "torchvision_clips" else models
    make = getattr(of.segmentation if kind == "torchvision_segments" else of, function)
    model = make(num_classes=CLASSES, **small).train()
    if family in _WIDE:  # Nearly all of their parameters are in these layers.
        model.classifier = nn.Sequential(
            nn.Linear(_WIDE[family], 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, CLASSES)
        )
    if family == "s3d":
        model.avgpool = nn.AvgPool3d((2, 3, 3), stride=1)  # As large as the images leave.
    if kind == "torchvision_segments":
        return Subject(model, _segment_batches(count, side), _segment_loss)
    shape = (3, FRAMES, side, side) if kind == "torchvision_clips" else (3, side, side)
    loss = _with_helpers if family in _HELPED else classification_loss
    return Subject(model, image_batches(count, shape), loss)


def _mvit(side: int) -> dict[str, Any]:
    """Three blocks: the first as wide as its input, the second pools, the third keeps."""
    from torchvision.models.video.mvit import MSBlockConfig

    blocks = [
        MSBlockConfig(1, 16, 16, [], [3, 3, 3], [], [1, 4, 4]),
        MSBlockConfig(2, 16, 32, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 2, 2]),
        MSBlockConfig(2, 32, 32, [], [3, 3, 3], [], [1, 2, 2]),
    ]
    return {"spatial_size": (side, side), "temporal_size": FRAMES, "block_setting": blocks}


def _segment_batches(count: int, side: int) -> list[Batch]:
    random = generator()
    return [
        (
            torch.randn(count, 3, side, side, generator=random),
            torch.randint(0, CLASSES, (count, side, side), generator=random),
        )
        for _ in range(STEPS)
    ]


def _segment_loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    scores = model(images)
    loss = functional.cross_entropy(scores["out"], labels)
    if "aux" in scores:
        loss = loss + 0.5 * functional.cross_entropy(scores["aux"], labels)
    return loss


_WIDE = {"alexnet": 256 * 6 * 6, "vgg": 512 * 7 * 7}
# Their heads in the middle of the network are trained, too.
_HELPED = ("googlenet", "inception")


def _with_helpers(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    scores, *helpers = (each for each in model(images) if each is not None)
    loss = functional.cross_entropy(scores, labels)
    for helper in helpers:
        loss = loss + 0.4 * functional.cross_entropy(helper, labels)
    return loss


_DEFINED = torch.library.Library("torchvision", "FRAGMENT")
