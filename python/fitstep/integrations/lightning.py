"""fit_lightning(): a Lightning Trainer whose optimizer steps keep to a budget.

    stock Trainer, once per batch                    with fit_lightning
    _AutomaticOptimization.run                       one compiled step, which calls the same run():
      training_step, backward, hooks, clipping,      all hooks of the module and of callbacks are
      optimizer.step                                 called where they are called in Lightning

A module with manual optimization works in the same way: its training_step() is the step.
"""

from __future__ import annotations

from typing import Any

from torch.nn.modules.batchnorm import _BatchNorm

from .. import api
from ..errors import SettingError
from ..memory.budget import Budget
from ..steps.report import Report
from ..steps.step import Step


def fit_lightning(trainer: Any, budget: Budget | None = None, **settings: Any) -> Any:
    """Makes `trainer.fit(...)` keep to a memory budget, with the same bits, logs and checkpoints.

    Args:
        trainer: a `lightning.Trainer` (or `pytorch_lightning.Trainer`) on one device.
        budget: as in `fitstep.compile`: bytes, "6GiB", or a share of plain PyTorch's peak ("60%").
            A share is of the first batch: with batches of many lengths, give a size.
        settings: more arguments of `fitstep.compile`, for example `disk_budget` or `max_variants`.
            With `keep_grads=True` hooks behind the step find gradients, too.

    Returns the trainer. Its attribute `fitstep` has `step` (a fitstep.Step while `fit()` runs, else
    None) and `report` (a fitstep.Report of the last training, or None). Calling fit_lightning again
    replaces budget and settings from the next `fit()` on.

    Raises, here or in `fit()` before the first step:
        SettingError: a setting of the trainer is not possible (more than one device, a strategy
            such as DDP, FSDP or DeepSpeed).
        FitstepError: a hook behind the step reads gradients, which are gone then.
        CaptureError, BudgetTooSmall and others: as `fitstep.compile`.
    """
    unknown = {"function", "example", "model", "optimizer"} & set(settings)
    if unknown:
        raise SettingError(unknown.pop(), "...", "left out: the trainer knows it")
    if not hasattr(getattr(trainer, "fit_loop", None), "epoch_loop"):
        allowed = "a lightning.Trainer; with Fabric call fitstep.compile in your loop"
        raise SettingError("trainer", type(trainer).__name__, allowed)
    _check_strategy(trainer)
    known = vars(trainer).get("fitstep")
    if isinstance(known, FittedLoop):
        known.settings = {"budget": budget, **settings}
    else:
        trainer.fitstep = FittedLoop(trainer, {"budget": budget, **settings})
    return trainer


class FittedLoop:
    """What `trainer.fitstep` is: it stands between Lightning's loop and its optimization."""

    step: Step | None = None  # While the trainer trains.
    report: Report | None = None  # Of the last training.

    def __init__(self, trainer: Any, settings: dict[str, Any]) -> None:
        self._trainer = trainer
        self.settings = settings
        self._is_last: bool | None = None  # Of an accumulation; None outside the step.
        fit, epoch = trainer.fit_loop, trainer.fit_loop.epoch_loop
        self._run, fit.run = fit.run, self._fit
        self._should_accumulate = fit._should_accumulate
        fit._should_accumulate = self._accumulates
        automatic, manual = epoch.automatic_optimization, epoch.manual_optimization
        self._run_automatic, automatic.run = automatic.run, self._automatic
        self._run_manual, manual.run = manual.run, self._manual

    def _fit(self, *args: Any, **kwargs: Any) -> Any:
        _check_strategy(self._trainer)
        _check_parts(self._trainer, self.settings.get("keep_grads", False))
        try:
            return self._run(*args, **kwargs)
        finally:
            if self.step is not None:
                self.report = self.step.report()
                self.step.close()
            self.step = None

    def _accumulates(self) -> bool:
        """Whether the optimizer waits for more batches. In the step its argument decides, so that
        `compile` previews a whole step, although an accumulation has just begun."""
        return bool(self._should_accumulate()) if self._is_last is None else not self._is_last

    def _automatic(self, optimizer: Any, batch_idx: int, kwargs: Any) -> Any:
        # The batch that needs most: it adds to gradients, then the optimizer steps.
        most = int(self._trainer.accumulate_grad_batches > 1), True
        now = batch_idx, not self._should_accumulate()
        return self._call(self._automatic_step, dict(kwargs), most, now)

    def _manual(self, kwargs: Any) -> Any:
        return self._call(self._manual_step, dict(kwargs), (), ())

    def _call(self, function: Any, kwargs: dict[str, Any], most: Any, now: Any) -> Any:
        trainer = self._trainer
        if self.step is None:
            self.step = api.compile(
                function,
                (kwargs, *most),
                model=trainer.lightning_module,
                optimizer=list(trainer.optimizers),
                **self.settings,
            )
        return self.step(kwargs, *now)

    def _automatic_step(self, kwargs: dict[str, Any], batch_idx: int, is_last: bool) -> Any:
        self._is_last = is_last
        try:
            return self._run_automatic(self._trainer.optimizers[0], batch_idx, kwargs)
        finally:
            self._is_last = None

    def _manual_step(self, kwargs: dict[str, Any]) -> Any:
        return self._run_manual(kwargs)


def _check_strategy(trainer: Any) -> None:
    """Raises SettingError for a training with more than one process or device."""
    strategy = type(trainer.strategy).__name__
    if trainer.world_size > 1 or trainer.num_devices > 1:
        raise SettingError(
            *("Trainer.devices", trainer.num_devices),
            "1, with num_nodes=1: fitstep trains in one process on one device",
        )
    if strategy != "SingleDeviceStrategy":
        raise SettingError(
            *("Trainer.strategy", strategy),
            '"auto" with devices=1: fitstep trains in one process and plans its memory itself',
        )


def _check_parts(trainer: Any, keeps_grads: bool) -> None:
    """Raises SettingError for parts of Lightning that would fail later."""
    if getattr(trainer, "_detect_anomaly", False):
        raise SettingError(
            *("Trainer.detect_anomaly", True),
            "False: it reads every gradient as soon as it is made, and a preview makes none",
        )
    profiler = type(trainer.profiler).__name__
    if profiler == "AdvancedProfiler":
        raise SettingError(
            *("Trainer.profiler", profiler),
            '"simple", because this one counts every call of Python, also of previews',
        )
    averages = any(type(one).__name__ == "StochasticWeightAveraging" for one in trainer.callbacks)
    modules = trainer.lightning_module.modules()
    if averages and not keeps_grads and any(isinstance(one, _BatchNorm) for one in modules):
        raise SettingError(
            *("keep_grads", False),
            "True for StochasticWeightAveraging with batch norm: its last epoch steps with the "
            "gradients of the epoch before",
        )
