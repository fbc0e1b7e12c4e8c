"""What fit_trainer refuses, each with one sentence that says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import torch
from fitstep.integrations import fit_trainer
from fitstep_kit.subjects.hf_trainings import make_trainer
from transformers import TrainerCallback, TrainingArguments

import fitstep

SETTINGS: dict[str, tuple[str, Any, str]] = {
    "deepspeed": ("deepspeed", "zero3.json", "trains in one process"),
    "fsdp": ("fsdp", ["full_shard"], "trains in one process"),
    "two GPUs": ("_n_gpu", 2, 'CUDA_VISIBLE_DEVICES="0" before you start Python'),
    "torch_compile": ("torch_compile", True, "compiled code runs eager"),
    "auto_find_batch_size": ("auto_find_batch_size", True, "a budget takes the place"),
    "LOMO": ("optim", "lomo", 'such as "adamw_torch"'),
}


@pytest.mark.parametrize("case", SETTINGS.values(), ids=SETTINGS)
def test_a_setting_is_refused(case: tuple[str, Any, str], tmp_path: Path) -> None:
    name, value, todo = case
    trainer = make_trainer(tmp_path)
    trainer.args.n_gpu  # noqa: B018 - counts once.
    object.__setattr__(trainer.args, name, value)
    with pytest.raises(fitstep.SettingError, match=todo) as found:
        fit_trainer(trainer)
    assert str(found.value).startswith(f"TrainingArguments.{name.lstrip('_')}=")


def test_a_setting_that_changes_later_is_refused_by_train(tmp_path: Path) -> None:
    trainer = fit_trainer(make_trainer(tmp_path))
    trainer.args.auto_find_batch_size = True
    with pytest.raises(fitstep.SettingError, match="auto_find_batch_size=True is not possible"):
        trainer.train()


def test_several_processes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(tmp_path)
    monkeypatch.setattr(TrainingArguments, "world_size", 2)
    with pytest.raises(fitstep.SettingError, match="not with torchrun"):
        fit_trainer(trainer)


class BeforeStep(TrainerCallback):  # type: ignore[misc]
    def on_pre_optimizer_step(self, *_: Any, model: Any = None, **__: Any) -> None:
        """Reads gradients."""


class Adding(TrainerCallback):  # type: ignore[misc]
    """Adds BeforeStep when the training has begun."""

    trainer: Any = None

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.trainer.add_callback(BeforeStep())


class AfterStep(TrainerCallback):  # type: ignore[misc]
    reads = True
    calls = 0

    def on_optimizer_step(self, *_: Any, model: Any = None, **__: Any) -> None:
        self.calls += 1
        if self.reads:
            print([p.grad for p in model.parameters()])


def test_a_callback_in_front_of_the_optimizer_is_refused(tmp_path: Path) -> None:
    match = r"the callback \w+ has(.|\n)*behind super\(\).training_step\(\)"
    with pytest.raises(fitstep.FitstepError, match=match):
        fit_trainer(make_trainer(tmp_path, more={"callbacks": [BeforeStep()]}))
    late, of_one = TrainerCallback(), Adding()
    late.on_pre_optimizer_step = BeforeStep().on_pre_optimizer_step
    for callback in (late, of_one):
        trainer = fit_trainer(make_trainer(tmp_path))
        of_one.trainer = trainer
        trainer.add_callback(callback)
        with pytest.raises(fitstep.FitstepError, match=match):
            trainer.train()
        assert trainer.state.global_step == 0


def test_a_callback_that_reads_gradients_behind_the_step_is_refused(tmp_path: Path) -> None:
    callback = AfterStep()
    trainer = fit_trainer(make_trainer(tmp_path, max_steps=2, more={"callbacks": [callback]}))
    with pytest.raises(fitstep.FitstepError, match="pass keep_grads=True"):
        trainer.train()
    callback.reads = False
    trainer.train()
    assert callback.calls == 3


def test_a_training_step_that_is_replaced_later_is_refused(tmp_path: Path) -> None:
    trainer = fit_trainer(make_trainer(tmp_path))
    own = type(trainer).training_step
    trainer.training_step = lambda *args, **kwargs: own(trainer, *args, **kwargs)
    with pytest.raises(fitstep.FitstepError, match="do so before fit_trainer"):
        trainer.train()


def test_what_is_no_trainer_is_refused() -> None:
    with pytest.raises(fitstep.SettingError, match="trainer='SimpleNamespace' is not possible"):
        fit_trainer(SimpleNamespace())
    with pytest.raises(fitstep.SettingError, match="left out: the trainer knows it"):
        fit_trainer(SimpleNamespace(), example=3)


def test_an_optimizer_that_calls_its_closure_is_refused(tmp_path: Path) -> None:
    model = make_trainer(tmp_path).model
    trainer = make_trainer(
        tmp_path,
        lambda: model,
        more={"optimizers": (torch.optim.LBFGS(model.parameters()), None)},
    )
    with pytest.raises(fitstep.SettingError, match="LBFGS"):
        fit_trainer(trainer)


def test_a_budget_that_is_too_small_changes_nothing(tmp_path: Path) -> None:
    trainer = fit_trainer(make_trainer(tmp_path), budget="1KiB")
    before = {name: one.clone() for name, one in trainer.model.state_dict().items()}
    with pytest.raises(fitstep.BudgetTooSmall):
        trainer.train()
    after = trainer.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert trainer.fitstep.step is None


def test_importing_fitstep_imports_no_trainer() -> None:
    code = "import sys, fitstep, fitstep.integrations; "
    code += "print([m for m in ('transformers', 'lightning', 'accelerate') if m in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "[]\n"
