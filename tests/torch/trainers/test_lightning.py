"""A Lightning Trainer with fit_lightning leaves the bits and the logs of the stock Trainer."""

# ruff: noqa: E402 - a missing library skips the file before it is imported.
from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

lightning = pytest.importorskip("lightning")

import torch
from fitstep.integrations import fit_lightning
from fitstep_kit.measures.bits import differences
from fitstep_kit.subjects.lightning_trainings import (
    Classifier,
    ManualClassifier,
    batches,
    make_trainer,
    outcome,
)
from lightning.pytorch.callbacks import StochasticWeightAveraging
from lightning.pytorch.profilers import AdvancedProfiler
from lightning.pytorch.utilities import grad_norm

import fitstep

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class HookedClassifier(Classifier):
    """Reads gradients in a hook, has its own optimizer_step(), and counts calls."""

    steps = 0

    def on_before_optimizer_step(self, _optimizer: Any) -> None:
        self.log("norm", sum(p.grad.norm() for p in self.parameters()))

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        self.steps += 1
        super().optimizer_step(*args, **kwargs)


CASES: dict[str, tuple[type[Classifier], dict[str, Any]]] = {
    "automatic": (Classifier, {"max_epochs": 2}),
    "accumulation of 5, ragged last": (
        Classifier,
        {"accumulate_grad_batches": 5, "gradient_clip_val": 0.5},
    ),
    "bf16": (Classifier, {"precision": "bf16-mixed"}),
    "hooks": (HookedClassifier, {}),
    "manual": (ManualClassifier, {"max_steps": 5}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_training_has_the_bits_of_the_stock_trainer(
    case: tuple[type[Classifier], dict[str, Any]],
) -> None:
    kind, settings = case
    stock = make_trainer(**settings)
    stock.fit(kind(), batches(), batches())
    ours = fit_lightning(make_trainer(**settings), budget="100%")
    ours.fit(kind(), batches(), batches())
    assert differences(outcome(ours), outcome(stock)) == []
    assert ours.fitstep.step is None
    assert ours.fitstep.report is not None


def test_a_small_budget_is_kept() -> None:
    stock = make_trainer()
    stock.fit(Classifier(width=64, depth=8), batches(rows=2048, size=1024))
    ours = fit_lightning(make_trainer(), budget="60%", audits="all")
    ours.fit(Classifier(width=64, depth=8), batches(rows=2048, size=1024))
    assert differences(outcome(ours), outcome(stock)) == []
    report = ours.fitstep.report
    assert report.budget_bytes <= 0.6 * report.plain_peak_bytes + 1
    assert report.violations == 0


def test_a_training_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    def train(folder: Path, fit: Any) -> Any:
        first = fit(make_trainer(max_epochs=1))
        first.fit(Classifier(), batches())
        first.save_checkpoint(folder / "one.ckpt")
        again = fit(make_trainer(max_epochs=2))
        again.fit(Classifier(), batches(), ckpt_path=folder / "one.ckpt", weights_only=False)
        return again

    (tmp_path / "stock").mkdir()
    (tmp_path / "ours").mkdir()
    stock = train(tmp_path / "stock", lambda trainer: trainer)
    ours = train(tmp_path / "ours", fit_lightning)
    assert differences(outcome(ours), outcome(stock)) == []


def test_fit_and_fit_lightning_can_be_called_again() -> None:
    """As a notebook does, when a cell runs twice."""

    def train(fit: Any) -> Any:
        trainer, model = make_trainer(max_epochs=1), Classifier()
        fit(trainer).fit(model, batches())
        trainer.fit_loop.max_epochs = 2
        fit(trainer).fit(model, batches())
        return trainer

    stock, ours = train(lambda trainer: trainer), train(fit_lightning)
    assert differences(outcome(ours), outcome(stock)) == []


class AtBatchEnd(lightning.Callback):  # type: ignore[misc]
    def __init__(self) -> None:
        self.norms: list[float] = []

    def on_train_batch_end(self, _trainer: Any, module: Any, *_: Any) -> None:
        self.norms += [float(p.grad.norm()) for p in module.parameters() if p.grad is not None]


class AtBatchStart(AtBatchEnd):
    def on_train_batch_start(self, *args: Any) -> None:
        self.on_train_batch_end(*args)


class OfLightning(lightning.Callback):  # type: ignore[misc]
    def on_train_epoch_end(self, _trainer: Any, module: Any) -> None:
        grad_norm(module, 2)


@pytest.mark.parametrize("callback", [AtBatchEnd, AtBatchStart, OfLightning])
def test_a_hook_that_reads_gradients_behind_the_step_is_refused(callback: type[Any]) -> None:
    trainer = fit_lightning(make_trainer(callbacks=[callback()]))
    with pytest.raises(fitstep.FitstepError, match="pass keep_grads=True"):
        trainer.fit(Classifier(), batches())


class Normed(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)


def test_parts_of_lightning_that_would_fail_later_are_refused_at_once() -> None:
    average = StochasticWeightAveraging(swa_lrs=0.1)
    with pytest.raises(fitstep.SettingError, match="with batch norm"):
        fit_lightning(make_trainer(callbacks=[average])).fit(Normed(), batches())
    profiled = make_trainer(profiler=AdvancedProfiler(dirpath=".", filename="profile"))
    with pytest.raises(fitstep.SettingError, match="AdvancedProfiler"):
        fit_lightning(profiled).fit(Classifier(), batches())
    with pytest.raises(fitstep.SettingError, match=r"Trainer.detect_anomaly= has to be False"):
        fit_lightning(make_trainer(detect_anomaly=True)).fit(Classifier(), batches())


def test_kept_gradients_are_those_of_the_stock_trainer() -> None:
    stock, ours = AtBatchEnd(), AtBatchEnd()
    make_trainer(callbacks=[stock]).fit(Classifier(), batches())
    fit_lightning(make_trainer(callbacks=[ours]), keep_grads=True).fit(Classifier(), batches())
    assert ours.norms == stock.norms
    assert ours.norms


def test_other_strategies_and_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    parallel = make_trainer(strategy="ddp", devices=2)
    with pytest.raises(fitstep.SettingError, match=r"Trainer.devices=2 is not possible"):
        fit_lightning(parallel)
    with pytest.raises(fitstep.SettingError, match='"auto" with devices=1'):
        fit_lightning(make_trainer(strategy="ddp", devices=1))
    with pytest.raises(fitstep.SettingError, match=r"a lightning\.Trainer"):
        fit_lightning(SimpleNamespace())


def test_an_optimizer_that_calls_its_closure_often_has_the_stock_bits() -> None:
    class Quasi(Classifier):
        def configure_optimizers(self) -> Any:
            return torch.optim.LBFGS(self.parameters(), max_iter=3)

    stock = make_trainer(max_steps=2)
    stock.fit(Quasi(), batches())
    ours = fit_lightning(make_trainer(max_steps=2))
    ours.fit(Quasi(), batches())
    assert differences(outcome(ours), outcome(stock)) == []
