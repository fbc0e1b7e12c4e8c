"""What fit_trainer refuses or changes before a transformers Trainer trains."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

from ..errors import FitstepError, SettingError


def _no_step() -> None:
    """Stands for the step of an optimizer that the Trainer has not made yet."""


def check_class(trainer: Any) -> None:
    needed = ("_inner_training_loop", "create_scheduler", "training_step", "_clip_grad_norm")
    missing = [
        name for name in (*needed, "_get_grad_norm", "accelerator") if not hasattr(trainer, name)
    ]
    if missing:
        raise SettingError(
            "trainer",
            type(trainer).__name__,
            f"a transformers.Trainer of version 5 that is ready to train; this has no {missing[0]}",
        )


def check_arguments(trainer: Any) -> None:
    """Raises SettingError for a setting with which a step of one process cannot train."""
    args, plugins = trainer.args, trainer.accelerator.state
    gpus = args.n_gpu
    is_layerwise = any(word in str(args.optim).lower() for word in ("layerwise", "lomo"))
    needs = inspect.signature(getattr(trainer.optimizer, "step", _no_step)).parameters
    one_process = "fitstep trains in one process and plans its memory itself"
    refused: tuple[tuple[bool, str, Any, str], ...] = (
        (
            bool(args.deepspeed) or getattr(plugins, "deepspeed_plugin", None) is not None,
            *("TrainingArguments.deepspeed", args.deepspeed, f"None: {one_process}"),
        ),
        (
            bool(args.fsdp) or getattr(plugins, "fsdp_plugin", None) is not None,
            *("TrainingArguments.fsdp", args.fsdp, f"None: {one_process}"),
        ),
        (
            gpus > 1,
            *("TrainingArguments.n_gpu", gpus),
            "1, because the Trainer would copy the model to each GPU that it sees: set "
            'CUDA_VISIBLE_DEVICES="0" before you start Python',
        ),
        (
            args.world_size > 1,
            *("TrainingArguments.world_size", args.world_size),
            "1: start the script with `python`, not with torchrun or accelerate launch",
        ),
        (
            bool(args.torch_compile),
            *("TrainingArguments.torch_compile", True),
            "False: fitstep plans the operators that PyTorch calls, and compiled code runs eager",
        ),
        (
            bool(args.auto_find_batch_size),
            *("TrainingArguments.auto_find_batch_size", True),
            "False: a budget takes the place of trying batch sizes until one does not crash",
        ),
        (
            "closure" in needs and needs["closure"].default is inspect.Parameter.empty,
            *("optimizers", type(trainer.optimizer).__name__),
            "an optimizer whose step() needs no closure, such as AdamW",
        ),
        (
            is_layerwise,
            *("TrainingArguments.optim", str(args.optim)),
            'an optimizer with a step of its own, such as "adamw_torch": this one updates '
            "parameters within backward()",
        ),
    )
    for is_so, name, value, allowed in refused:
        if is_so:
            raise SettingError(name, value, allowed)


def check_callbacks(trainer: Any) -> None:
    """Raises FitstepError for a callback that is called too late to find what it needs."""
    for callback in trainer.callback_handler.callbacks:
        if _has_own(callback, "on_pre_optimizer_step"):
            raise FitstepError(
                f"the callback {type(callback).__name__} has on_pre_optimizer_step(), which would "
                "be called when the compiled step has already changed the parameters",
                todo="move its code behind super().training_step() in a subclass of your Trainer, "
                "where gradients are there; or into on_optimizer_step(), with keep_grads=True",
            )


def _has_own(callback: Any, name: str) -> bool:
    """Whether the user or a library gives the callback this method."""
    made_by = getattr(callback, name, None)
    return getattr(made_by, "__module__", "") != "transformers.trainer_callback"


def leave_checkpointing_to_plans(trainer: Any) -> None:
    """Turns gradient checkpointing off, in the arguments and in the model."""
    args, model = trainer.args, trainer.model
    names = ("activation_checkpointing", "gradient_checkpointing")
    found = [name for name in names if getattr(args, name, None)]
    is_on = getattr(model, "is_activation_checkpointing", False)
    for name in found:
        setattr(args, name, False)
    if is_on:
        model.activation_checkpointing_disable()
    if found or is_on:
        warnings.warn(
            "fit_trainer has turned gradient checkpointing off: plans decide what to recompute",
            stacklevel=4,
        )
