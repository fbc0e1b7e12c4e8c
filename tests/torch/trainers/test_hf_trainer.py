"""A Trainer with fit_trainer leaves the bits and the logs of the stock Trainer."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from fitstep.integrations import fit_trainer
from fitstep_kit.measures.bits import differences
from fitstep_kit.subjects.hf_trainings import (
    RESUMED,
    gpt2,
    logs,
    make_trainer,
    outcome,
    padded,
    resume,
    text,
    unchanged,
)
from transformers import (
    BatchEncoding,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    set_seed,
)

RAGGED = (16, 8, 16, 12, 8, 16, 12, 8)
EVALUATED = {"eval_strategy": "steps", "eval_steps": 2}


class OwnLoss(Trainer):  # type: ignore[misc]
    """A subclass that people write: its own loss, step, optimizer, and a count of calls."""

    calls = 0

    def create_optimizer(self, model: Any = None) -> Any:
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        return self.optimizer

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        self.calls += 1
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = torch.nn.functional.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())
        return (loss, outputs) if return_outputs else loss

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        loss = super().training_step(*args, **kwargs)
        for parameter in self.model.parameters():
            parameter.grad.mul_(0.5)
        return loss


def summed(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    """A compute_loss_func."""
    flat = outputs.logits.flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(flat, labels.flatten(), reduction="sum")
    return loss / num_items_in_batch


def lora() -> Any:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["c_attn"], lora_dropout=0.1, fan_in_fan_out=True)
    return peft.get_peft_model(gpt2(), config)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation of 5, ragged last": {"gradient_accumulation_steps": 5},
    "small norm, cosine, warmup": {
        "max_grad_norm": 0.1,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 2,
    },
    "no clipping": {"max_grad_norm": 0.0},
    "bf16": {"bf16": True},
    "dynamic padding": {"more": {"train_dataset": text(8, RAGGED), "data_collator": padded}},
    "lengths grouped": {
        "more": {"train_dataset": text(8, RAGGED), "data_collator": padded},
        "train_sampling_strategy": "group_by_length",
    },
    "label smoothing": {"label_smoothing_factor": 0.1},
    "evaluation": {**EVALUATED, "more": {"eval_dataset": text(4, seed=1)}},
    "own methods": {"kind": OwnLoss, "gradient_accumulation_steps": 2},
    "compute_loss_func": {"more": {"compute_loss_func": summed}, "gradient_accumulation_steps": 2},
    "LoRA": {"model": lora},
    "NEFTune": {"neftune_noise_alpha": 5.0},
    "sgd, logs of two steps": {"optim": "sgd", "logging_steps": 2},
    "adafactor": {"optim": "adafactor"},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_training_has_the_bits_of_the_stock_trainer(case: dict[str, Any], tmp_path: Path) -> None:
    stock = make_trainer(tmp_path, **case)
    stock.train()
    ours = fit_trainer(make_trainer(tmp_path, **case), budget="100%")
    ours.train()
    assert differences(outcome(ours), outcome(stock)) == []
    assert ours.fitstep.step is None
    assert ours.fitstep.report is not None


def test_a_small_budget_is_kept(tmp_path: Path) -> None:
    def make() -> Any:
        return make_trainer(
            tmp_path,
            lambda: gpt2(width=64, length=64),
            per_device_train_batch_size=8,
            max_steps=2,
            more={"train_dataset": text(16, (64,))},
        )

    stock = make()
    stock.train()
    ours = fit_trainer(make(), budget="60%", audits="all")
    ours.train()
    assert differences(outcome(ours), outcome(stock)) == []
    report = ours.fitstep.report
    assert report.budget_bytes <= 0.6 * report.plain_peak_bytes + 1
    assert report.violations == 0


def test_a_scaler_skips_steps_and_the_scheduler_waits(tmp_path: Path) -> None:
    """fp16, as on a GPU: the first step overflows. On a CPU the Trainer makes no scaler."""

    def scaled(trainer: Any) -> Any:
        accelerator = trainer.accelerator
        accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=2)
        accelerator.native_amp = True
        accelerator.state._mixed_precision = "fp16"
        return trainer

    made = {"max_steps": 5, "optim": "adamw_torch"}  # A fused AdamW is called nevertheless.
    stock = scaled(make_trainer(tmp_path, **made))
    stock.train()
    ours = fit_trainer(scaled(make_trainer(tmp_path, **made)))
    ours.train()
    assert differences(outcome(ours), outcome(stock)) == []
    assert ours.accelerator.scaler.get_scale() == stock.accelerator.scaler.get_scale()
    assert stock.lr_scheduler.last_epoch < 5


def stopped_and_resumed(folder: Path, fit: Callable[[Any], Any]) -> Any:
    stopped = make_trainer(folder, **RESUMED, max_steps=2)
    fit(stopped).train()
    process = multiprocessing.get_context("spawn").Process(target=resume, args=(folder, fit))
    process.start()
    process.join()
    assert process.exitcode == 0
    return torch.load(folder / "bits")


def test_a_training_that_another_process_resumes_has_the_bits_of_the_stock_trainer(
    tmp_path: Path,
) -> None:
    stock = stopped_and_resumed(tmp_path / "stock", unchanged)
    ours = stopped_and_resumed(tmp_path / "ours", fit_trainer)
    assert differences(ours, stock) == []


def test_the_best_model_comes_back_and_a_training_stops_early(tmp_path: Path) -> None:
    def train(folder: Path, fit: Callable[[Any], Any]) -> Any:
        trainer = make_trainer(
            folder,
            **{**EVALUATED, "save_strategy": "steps", "save_steps": 2},
            load_best_model_at_end=True,
            metric_for_best_model="loss",
            greater_is_better=True,  # So the first is the best.
            more={
                "eval_dataset": text(4, seed=1),
                "callbacks": [EarlyStoppingCallback(1, early_stopping_threshold=10.0)],
            },
        )
        fit(trainer).train()
        return trainer

    stock = train(tmp_path / "stock", lambda trainer: trainer)
    ours = train(tmp_path / "ours", fit_trainer)
    assert differences(outcome(ours), outcome(stock)) == []
    assert stock.state.global_step < 6


def test_train_and_fit_trainer_can_be_called_again(tmp_path: Path) -> None:
    """As a notebook does, when a cell runs twice."""
    stock = make_trainer(tmp_path, max_steps=2)
    stock.train()
    stock.train()
    ours = make_trainer(tmp_path, max_steps=2)
    fit_trainer(ours, budget="100%").train()
    fit_trainer(ours, budget="200%").train()
    assert differences(outcome(ours), outcome(stock)) == []


def test_gradient_checkpointing_is_left_to_plans(tmp_path: Path) -> None:
    stock = make_trainer(tmp_path, activation_checkpointing=True, max_steps=2)
    stock.train()
    ours = make_trainer(tmp_path, activation_checkpointing=True, max_steps=2)
    with pytest.warns(UserWarning, match="turned gradient checkpointing off"):
        fit_trainer(ours)
    ours.train()
    assert differences(outcome(ours), outcome(stock)) == []
    assert not ours.model.is_gradient_checkpointing


class TwoUpdates(Trainer):  # type: ignore[misc]
    """Updates twice for each batch: once on its own, once as every Trainer."""

    def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        super().training_step(model, dict(inputs), *args, **kwargs)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return super().training_step(model, dict(inputs), *args, **kwargs)


class OfAttributes(Trainer):  # type: ignore[misc]
    def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        return model(input_ids=inputs.input_ids, labels=inputs.labels).loss


class OfTuples(Trainer):  # type: ignore[misc]
    def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        tokens, labels = inputs
        return model(input_ids=tokens, labels=labels).loss


def encoded(rows: list[Any]) -> Any:
    tokens = torch.stack([row["input_ids"] for row in rows])
    return BatchEncoding({"input_ids": tokens, "labels": tokens})


def paired(rows: list[Any]) -> Any:
    tokens = torch.stack([row["input_ids"] for row in rows])
    return tokens, tokens.clone()


@pytest.mark.parametrize(
    ("kind", "collator"), [(TwoUpdates, None), (OfAttributes, encoded), (OfTuples, paired)]
)
def test_a_trainer_with_its_own_step_or_batches_has_the_stock_bits(
    kind: type[Any], collator: Any, tmp_path: Path
) -> None:
    more = {"data_collator": collator}
    stock = make_trainer(tmp_path, kind=kind, max_steps=3, more=more)
    stock.train()
    ours = fit_trainer(make_trainer(tmp_path, kind=kind, max_steps=3, more=more))
    ours.train()
    assert differences(outcome(ours), outcome(stock)) == []


def test_a_class_that_is_patched_later_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = make_trainer(tmp_path, max_steps=3)
    ours = fit_trainer(make_trainer(tmp_path, max_steps=3))
    own = Trainer.training_step

    def halved(self: Any, model: Any, *args: Any) -> Any:
        loss = own(self, model, *args)
        for parameter in model.parameters():
            parameter.grad.mul_(0.5)
        return loss

    monkeypatch.setattr(Trainer, "training_step", halved)
    for trainer in (stock, ours):
        set_seed(3)
        trainer.train()
    assert differences(outcome(ours), outcome(stock)) == []


class Norms(TrainerCallback):  # type: ignore[misc]
    def __init__(self) -> None:
        self.norms: list[float] = []

    def on_optimizer_step(self, *_: Any, model: Any = None, **__: Any) -> None:
        self.norms.append(float(sum(p.grad.abs().sum() for p in model.parameters())))


def test_kept_gradients_are_those_of_the_stock_trainer(tmp_path: Path) -> None:
    stock, ours = Norms(), Norms()
    make_trainer(tmp_path, max_steps=3, more={"callbacks": [stock]}).train()
    fitted = make_trainer(tmp_path, max_steps=3, more={"callbacks": [ours]})
    fit_trainer(fitted, keep_grads=True).train()
    assert ours.norms == stock.norms


def test_a_loss_that_is_nan_is_logged_as_by_the_stock_trainer(tmp_path: Path) -> None:
    class Broken(Trainer):  # type: ignore[misc]
        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            loss = super().compute_loss(*args, **kwargs)
            return loss * float("nan") if self.state.global_step == 1 else loss

    stock = make_trainer(tmp_path, kind=Broken, max_steps=3, max_grad_norm=0.0)
    stock.train()
    ours = fit_trainer(make_trainer(tmp_path, kind=Broken, max_steps=3, max_grad_norm=0.0))
    ours.train()
    assert repr(logs(ours)) == repr(logs(stock))
