"""The cases: which model is trained with which optimizer, and what else its step does.

A case builds a Trainee from a fixed seed, so two builds are two copies of equal bits. A Trainee
knows nothing of fitstep: `drive` runs one training step with the functions it is handed, which are
its own (plain PyTorch) or the compiled ones.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer, lr_scheduler

from fitstep_kit import models
from fitstep_kit.subjects.our_subjects import BATCHES, SUBJECTS, Batch, Subject, image_batches

Step = Callable[..., Tensor]


@dataclass
class Function:
    """One function that plain PyTorch runs and fitstep compiles."""

    call: Step
    example: Batch
    training: bool = True  # Whether the models are in training mode when it is called.


@dataclass
class Trainee:
    """A model in training."""

    functions: list[Function]
    drive: Callable[[int, Sequence[Step]], list[Tensor]]  # One training step; its losses.
    state: dict[str, Any]  # Everything whose bits count, besides losses and the generator.
    models: list[nn.Module]


@dataclass(frozen=True)
class Recipe:
    """What a case consists of."""

    model: str = "mlp"
    optimizer: str = "adamw"
    schedule: str = ""  # A key of SCHEDULES.
    scheduled_inside: bool = False
    clip: bool = False
    autocast: bool = False
    ema: bool = False
    micro_batches: str = ""  # "inside" one function, or "across" two compiled ones.
    resume: str = ""  # "before" the first compiled step, or "between" two of them.
    short_batch: bool = False  # Every fourth batch has half the rows.
    validation: bool = False  # A no-grad function of the same model after every second step.


OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "sgd_decay": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=2e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=2e-3),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=2e-3, fused=True),
    "nadam": lambda p: torch.optim.NAdam(p, lr=2e-3),
    "radam": lambda p: torch.optim.RAdam(p, lr=2e-3),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3),
    "adamax": lambda p: torch.optim.Adamax(p, lr=2e-3),
}

SCHEDULES: dict[str, Callable[[Optimizer], lr_scheduler.LRScheduler]] = {
    "step": lambda o: lr_scheduler.StepLR(o, step_size=3, gamma=0.5),
    "onecycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=5e-3, total_steps=64),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda i: 1.0 / (1 + i)),
}


@dataclass
class _Build:
    """The parts that a case's step functions close over."""

    recipe: Recipe
    subject: Subject
    optimizer: Optimizer
    scheduler: lr_scheduler.LRScheduler | None = None
    average: nn.Module | None = None
    saved: list[dict[str, Any]] = field(default_factory=list)


def build(recipe: Recipe, tiny: bool) -> Trainee:
    """A fresh copy, and the generator seeded: two builds in a row have equal bits."""
    torch.manual_seed(0)
    if recipe.model == "dcgan":
        trainee = _build_dcgan(tiny)
    else:
        trainee = _build_trainee(recipe, _subject(recipe.model, tiny))
    torch.manual_seed(1)
    return trainee


def _subject(name: str, tiny: bool) -> Subject:
    if name.startswith("hf_"):
        from fitstep_kit.subjects.hf_subjects import (
            HF_SUBJECTS,  # Needs transformers, which takes seconds to import.
        )

        return HF_SUBJECTS[name](tiny)
    return SUBJECTS[name](tiny)


def _build_trainee(recipe: Recipe, subject: Subject) -> Trainee:
    optimizer = OPTIMIZERS[recipe.optimizer](subject.model.parameters())
    parts = _Build(recipe, subject, optimizer)
    if recipe.schedule:
        parts.scheduler = SCHEDULES[recipe.schedule](optimizer)
    if recipe.ema:
        parts.average = deepcopy(subject.model).requires_grad_(False)
    if recipe.resume == "before":
        _resume_from_another_run(parts)
    functions = _functions(parts)
    state = {"model": subject.model, "optimizer": optimizer}
    optional = {"scheduler": parts.scheduler, "average": parts.average}
    state |= {name: value for name, value in optional.items() if value is not None}
    return Trainee(functions, _driver(parts), state, [subject.model])


def _functions(parts: _Build) -> list[Function]:
    example = parts.subject.batches[0]
    micro = tuple(tensor[: len(tensor) // 4] for tensor in example)
    if parts.recipe.micro_batches == "across":
        return [Function(_accumulate(parts), micro), Function(_update(parts, share=0.25), micro)]
    functions = [Function(_update(parts), example)]
    if parts.recipe.validation:
        functions.append(Function(_validate(parts), example, training=False))
    return functions


def _loss(parts: _Build) -> Step:
    model, loss_of = parts.subject.model, parts.subject.loss
    if not parts.recipe.autocast:
        return lambda *batch: loss_of(model, *batch)

    def in_autocast(*batch: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss_of(model, *batch)

    return in_autocast


def _accumulate(parts: _Build) -> Step:
    loss_of = _loss(parts)

    def accumulate(*batch: Tensor) -> Tensor:
        loss = loss_of(*batch) * 0.25
        loss.backward()
        return loss

    return accumulate


def _update(parts: _Build, share: float = 1.0) -> Step:
    """The training step, with whatever the recipe asks for inside it."""
    recipe, model, optimizer = parts.recipe, parts.subject.model, parts.optimizer
    scheduler = parts.scheduler if recipe.scheduled_inside else None
    average, loss_of = parts.average, _loss(parts)
    chunks = 4 if recipe.micro_batches == "inside" else 1

    def train_step(*batch: Tensor) -> Tensor:
        if share == 1.0:
            optimizer.zero_grad()
        total = torch.zeros(())
        for part in zip(*(tensor.chunk(chunks) for tensor in batch), strict=True):
            loss = loss_of(*part) * (share / chunks)
            loss.backward()
            total = total + loss.detach()
        if recipe.clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        if average is not None:
            with torch.no_grad():
                for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                    slow.mul_(0.9).add_(fast, alpha=0.1)
        if share != 1.0:
            optimizer.zero_grad()
        return total

    return train_step


def _validate(parts: _Build) -> Step:
    loss_of = _loss(parts)

    def validate(*batch: Tensor) -> Tensor:
        with torch.no_grad():
            return loss_of(*batch)

    return validate


def _driver(parts: _Build) -> Callable[[int, Sequence[Step]], list[Tensor]]:
    recipe, model = parts.recipe, parts.subject.model

    def drive(index: int, functions: Sequence[Step]) -> list[Tensor]:
        if recipe.resume == "between":
            _save_or_load(parts, index)
        batch = parts.subject.batches[index % BATCHES]
        if recipe.short_batch and index % 4 == 3:
            batch = tuple(tensor[: len(tensor) // 2].contiguous() for tensor in batch)
        if recipe.micro_batches == "across":
            quarters = list(zip(*(tensor.chunk(4) for tensor in batch), strict=True))
            losses = [functions[0](*quarter) for quarter in quarters[:3]]
            losses.append(functions[1](*quarters[3]))
        else:
            losses = [functions[0](*batch)]
        if parts.scheduler is not None and not recipe.scheduled_inside:
            parts.scheduler.step()
        if recipe.validation and index % 2 == 1:
            model.eval()
            losses.append(functions[1](*batch))
            model.train()
        return losses

    return drive


def _save_or_load(parts: _Build, index: int) -> None:
    """Keeps the state at step 2 and goes back to it at step 5."""
    if index == 2:
        parts.saved = [deepcopy(parts.subject.model.state_dict())]
        parts.saved.append(deepcopy(parts.optimizer.state_dict()))
    if index == 5:
        parts.subject.model.load_state_dict(parts.saved[0])
        parts.optimizer.load_state_dict(parts.saved[1])


def _resume_from_another_run(parts: _Build) -> None:
    """Loads what two plain steps of a copy left behind."""
    copy = deepcopy(parts.subject.model)
    optimizer = OPTIMIZERS[parts.recipe.optimizer](copy.parameters())
    for batch in parts.subject.batches[:2]:
        optimizer.zero_grad()
        parts.subject.loss(copy, *batch).backward()
        optimizer.step()
    parts.subject.model.load_state_dict(copy.state_dict())
    parts.optimizer.load_state_dict(optimizer.state_dict())


def _build_dcgan(tiny: bool) -> Trainee:
    """Two functions that share both networks; the noise is drawn inside them."""
    noise, width, stages, count = (8, 8, 1, 32) if tiny else (100, 32, 3, 32)
    generator = models.Generator(noise, width, stages)
    discriminator = models.Discriminator(width, stages)
    batches = image_batches(count, 8 << stages, 10, torch.contiguous_format)
    for_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for_discriminator = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    loss_of = nn.BCEWithLogitsLoss()

    def train_discriminator(real: Tensor) -> Tensor:
        for_discriminator.zero_grad()
        with torch.no_grad():
            made = generator(torch.randn(len(real), noise))
        on_real, on_made = discriminator(real), discriminator(made)
        loss: Tensor = loss_of(on_real, torch.ones_like(on_real))
        loss = loss + loss_of(on_made, torch.zeros_like(on_made))
        loss.backward()
        for_discriminator.step()
        return loss

    def train_generator(real: Tensor) -> Tensor:
        for_generator.zero_grad()
        logits = discriminator(generator(torch.randn(len(real), noise)))
        loss: Tensor = loss_of(logits, torch.ones_like(logits))
        loss.backward()
        for_generator.step()
        for_discriminator.zero_grad()  # The generator's loss left gradients there.
        return loss

    def drive(index: int, functions: Sequence[Step]) -> list[Tensor]:
        real = batches[index % BATCHES][0]
        return [function(real) for function in functions]

    example = (batches[0][0],)
    return Trainee(
        [Function(train_discriminator, example), Function(train_generator, example)],
        drive,
        {
            "generator_net": generator,
            "discriminator": discriminator,
            "for_generator": for_generator,
            "for_discriminator": for_discriminator,
        },
        [generator, discriminator],
    )


def _case_table() -> dict[str, Recipe]:
    image, text = "sgd_momentum", "adamw"
    convolutional = ("vgg16", "resnet18", "resnet50_nchw", "resnet50_channels_last", "unet")
    cases = {name: Recipe(name, image) for name in (*convolutional, "hf_vit", "hf_resnet")}
    language = ("mlp", "gpt", "gpt_checkpointed", "lstm", "hf_gpt2", "hf_bert", "hf_llama", "hf_t5")
    cases |= {name: Recipe(name, text) for name in language}
    cases["dcgan"] = Recipe("dcgan")
    cases |= {f"optimizer_{name}": Recipe("resnet18", name) for name in OPTIMIZERS}
    for name in SCHEDULES:
        cases[f"{name}_outside"] = Recipe("gpt", schedule=name)
        cases[f"{name}_inside"] = Recipe("gpt", schedule=name, scheduled_inside=True)
    cases["clip"] = Recipe("gpt", clip=True)
    cases["autocast_gpt"] = Recipe("gpt", autocast=True)
    cases["autocast_resnet"] = Recipe("resnet18", image, autocast=True)
    cases["ema"] = Recipe("resnet18", image, ema=True)
    cases["micro_inside"] = Recipe("gpt", clip=True, micro_batches="inside")
    cases["micro_across"] = Recipe("gpt", micro_batches="across")
    cases["resume_before"] = Recipe("gpt", resume="before")
    cases["resume_between"] = Recipe("resnet18", text, resume="between")
    cases["short_batch"] = Recipe("resnet18", image, short_batch=True)
    cases["validation"] = Recipe("resnet18", image, validation=True)
    return cases


CASES = _case_table()
