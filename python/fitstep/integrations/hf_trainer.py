"""fit_trainer(): a transformers Trainer, or one of TRL, whose optimizer steps keep to a budget.

    stock Trainer, once per micro-batch              with fit_trainer
    training_step    forward, backward               one compiled step: forward, backward and, for
    _clip_grad_norm                                  the last micro-batch, clipping and optimizer
    optimizer.step                                   do nothing: the step has done it

The compiled step calls the trainer's own methods, so what a subclass overrides still counts.
"""

from __future__ import annotations

import copy
from collections import UserDict
from typing import Any

from .. import api
from ..errors import FitstepError, SettingError
from ..memory.budget import Budget
from ..steps.report import Report
from ..steps.step import Step
from .hf_checks import check_arguments, check_callbacks, check_class, leave_checkpointing_to_plans
from .later import later_metrics


def fit_trainer(trainer: Any, budget: Budget | None = None, **settings: Any) -> Any:
    """Makes `trainer.train()` keep to a memory budget, with the same bits, logs and checkpoints.

    Args:
        trainer: a `transformers.Trainer`, or a trainer of TRL such as SFTTrainer, in one process.
        budget: as in `fitstep.compile`: bytes, "6GiB", or a share of plain PyTorch's peak ("60%").
            A share is of the first batch: with batches of many lengths, give a size.
        settings: more arguments of `fitstep.compile`, for example `disk_budget` or `max_variants`.
            With `keep_grads=True` callbacks find gradients in `on_optimizer_step`.

    Returns the trainer. Its attribute `fitstep` has `step` (a fitstep.Step while `train()` runs,
    else None) and `report` (a fitstep.Report of the last training, or None). Calling fit_trainer
    again replaces budget and settings from the next `train()` on. Gradient checkpointing is turned
    off, because plans decide what to recompute.

    Raises, here or in `train()` before the first step:
        SettingError: a setting of the trainer is not possible (deepspeed, torch_compile, ...).
        FitstepError: a callback reads gradients that are gone when it is called, or has
            on_pre_optimizer_step(); the optimizer steps where the compiled step has not run.
        CaptureError, BudgetTooSmall and others: as `fitstep.compile`.
    """
    unknown = {"function", "example", "model", "optimizer"} & set(settings)
    if unknown:
        raise SettingError(unknown.pop(), "...", "left out: the trainer knows it")
    known = vars(trainer).get("fitstep") if hasattr(trainer, "__dict__") else None
    if isinstance(known, FittedTrainer):
        known.set(budget, settings)
    else:
        check_class(trainer)
        trainer.fitstep = FittedTrainer(trainer, budget, settings)
    return trainer


class FittedTrainer:
    """What `trainer.fitstep` is: it stands between a Trainer's loop and its methods."""

    step: Step | None = None  # While the trainer trains.
    report: Report | None = None  # Of the last training.

    def __init__(self, trainer: Any, budget: Budget | None, settings: dict[str, Any]) -> None:
        self._trainer = trainer
        self._set_before: dict[str, Any] = {}  # Methods that somebody has set on this trainer.
        self._model: Any = None
        self._norm: Any = None  # Of the gradients in the last optimizer step.
        self._step_optimizer: Any = None
        self._is_inside = False  # The compiled step runs.
        self._has_stepped = False  # It has done what the Trainer's loop is about to do.
        self._is_first = True  # The next micro-batch begins an accumulation.
        self.set(budget, settings)
        for name, ours in (
            ("_inner_training_loop", self._train),
            ("create_scheduler", self._create_scheduler),
            ("training_step", self._training_step),
            ("_clip_grad_norm", self._last_norm),
            ("_get_grad_norm", self._last_norm),
        ):
            if name in vars(trainer):
                self._set_before[name] = vars(trainer)[name]
            setattr(trainer, name, ours)

    def set(self, budget: Budget | None, settings: dict[str, Any]) -> None:
        """Budget and settings of the next training."""
        check_arguments(self._trainer)
        check_callbacks(self._trainer)
        leave_checkpointing_to_plans(self._trainer)
        self._settings = {"budget": budget, **settings}

    def _train(self, *args: Any, **kwargs: Any) -> Any:
        check_arguments(self._trainer)
        check_callbacks(self._trainer)
        self._end()  # Of a training that auto_find_batch_size or a user has left half-way.
        try:
            return self._own("_inner_training_loop", *args, **kwargs)
        finally:
            self._end()

    def _own(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Calls the trainer's own method, as its class has it now."""
        if name in self._set_before:
            return self._set_before[name](*args, **kwargs)
        return getattr(type(self._trainer), name)(self._trainer, *args, **kwargs)

    def _end(self) -> None:
        if self._step_optimizer is not None:
            self._trainer.optimizer.step = self._step_optimizer
            self._step_optimizer = None
        if self.step is not None:
            self.report = self.step.report()
            self.step.close()
        self.step = self._norm = self._model = None
        self._is_first, self._has_stepped = True, False

    def _create_scheduler(self, *args: Any, **kwargs: Any) -> Any:
        """The last that the Trainer does with its optimizer before the first step."""
        scheduler = self._own("create_scheduler", *args, **kwargs)
        optimizer = self._trainer.optimizer
        if self._step_optimizer is None:

            def step(*args: Any, **kwargs: Any) -> Any:
                return self._optimizer_step(*args, **kwargs)

            step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
            self._step_optimizer, optimizer.step = optimizer.step, step
        return scheduler

    def _optimizer_step(self, *args: Any, **kwargs: Any) -> Any:
        """Takes the place of `optimizer.step`: does nothing in the Trainer's loop."""
        if self._is_inside:  # The trainer's own training_step() calls it.
            return self._step_optimizer(*args, **kwargs)
        if not self._has_stepped:
            raise FitstepError(
                "the trainer's optimizer.step() is called, but no compiled step has run before",
                todo="call it within training_step() alone; and if you replace "
                "trainer.training_step, do so before fit_trainer",
            )
        self._has_stepped = False
        return None

    def _training_step(self, model: Any, inputs: Any, num_items: Any = None) -> Any:
        trainer = self._trainer
        is_last = bool(trainer.accelerator.sync_gradients)
        if is_last:
            check_callbacks(trainer)  # Another callback may have added one.
        made, values = _taken_apart(inputs)
        with later_metrics(trainer):
            if self.step is None:
                self._model = model
                # The micro-batch that needs most: it adds to gradients, then the optimizer steps.
                starts = trainer.args.gradient_accumulation_steps == 1
                self.step = api.compile(
                    self._micro_step,
                    (made, values, num_items, starts, True),
                    model=model,
                    optimizer=trainer.optimizer.optimizer,
                    **self._settings,
                )
            loss, self._norm = self.step(made, values, num_items, self._is_first, is_last)
        self._is_first = self._has_stepped = is_last
        return loss

    def _micro_step(
        self, made: Any, values: Any, num_items: Any, is_first: bool, is_last: bool
    ) -> Any:
        self._is_inside = True
        try:
            return self._run_micro_step(made(values), num_items, is_first, is_last)
        finally:
            self._is_inside = False

    def _run_micro_step(self, inputs: Any, num_items: Any, is_first: bool, is_last: bool) -> Any:
        """One micro-batch, and the optimizer's step after the last of an accumulation."""
        trainer, own, norm = self._trainer, self._own, None
        trainer.accelerator.gradient_state._set_sync_gradients(is_last)
        if is_first:  # Gradients that `keep_grads` has kept.
            self._model.zero_grad()
        loss = own("training_step", self._model, inputs, num_items)
        if is_last:
            if trainer.args.max_grad_norm > 0:
                norm = own("_clip_grad_norm", self._model)
            norm = own("_get_grad_norm", self._model, grad_norm=norm)
            self._step_optimizer()
        return loss, norm

    def _last_norm(self, *_args: Any, **_kwargs: Any) -> Any:
        return self._norm


class _Batch:
    """Makes a batch of its values: of the same class, with the same attributes."""

    def __init__(self, like: UserDict[str, Any]) -> None:
        self._like = like

    def __call__(self, values: dict[str, Any]) -> Any:
        made = copy.copy(self._like)
        made.data = dict(values)
        return made


def _taken_apart(inputs: Any) -> tuple[Any, Any]:
    """A batch as plain values, in which fitstep finds tensors, and what makes it whole again."""
    if isinstance(inputs, UserDict):  # transformers.BatchEncoding.
        empty = copy.copy(inputs)
        empty.data = {}
        return _Batch(empty), dict(inputs.data)
    return _as_it_is, inputs


def _as_it_is(batch: Any) -> Any:
    return batch
