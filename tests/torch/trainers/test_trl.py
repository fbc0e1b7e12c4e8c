"""TRL's trainers with fit_trainer leave the bits and the logs of the stock trainers."""

# ruff: noqa: E402 - a missing library skips the file before it is imported.
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

import torch
from fitstep.integrations import fit_trainer
from fitstep.integrations.later import Later
from fitstep_kit.measures.bits import differences
from fitstep_kit.subjects.hf_trainings import gpt2, make_trainer, outcome, text, tokenizer


def tokens(lengths: tuple[int, ...]) -> Any:
    rows = [{"input_ids": row["input_ids"].tolist()} for row in text(8, lengths)]
    return datasets.Dataset.from_list(rows)


def preferences() -> Any:
    rows = [
        {"prompt": f"w{i} w9", "chosen": f" w{i + 4} w7 w{i + 2}", "rejected": f" w{i + 1} w3"}
        for i in range(2, 8)
    ]
    return datasets.Dataset.from_list(rows)


def sft(
    folder: Path,
    lengths: tuple[int, ...] = (12, 16, 9),
    kind: type[Any] = trl.SFTTrainer,
    **settings: Any,
) -> Any:
    more = {"train_dataset": tokens(lengths), "processing_class": tokenizer()}
    usual = {"bf16": False, "max_length": 16}
    return make_trainer(folder, gpt2, kind, trl.SFTConfig, more, **(usual | settings))


def dpo(folder: Path) -> Any:
    more = {
        "train_dataset": preferences(),
        "processing_class": tokenizer(),
        "ref_model": gpt2(),
    }
    return make_trainer(folder, gpt2, trl.DPOTrainer, trl.DPOConfig, more, bf16=False)


CASES: dict[str, dict[str, Any]] = {
    "padded": {},
    "accumulation of 3, ragged last": {"gradient_accumulation_steps": 3},
    "packed": {"packing": True, "max_length": 8},
    "bf16": {"bf16": True},
}


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_sft_has_the_bits_and_metrics_of_the_stock_trainer(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    stock = sft(tmp_path, **settings)
    stock.train()
    ours = fit_trainer(sft(tmp_path, **settings))
    ours.train()
    assert differences(outcome(ours), outcome(stock)) == []
    assert {"entropy", "mean_token_accuracy", "num_tokens"} <= set(stock.state.log_history[0])


def test_metrics_of_sft_keep_no_activations(tmp_path: Path) -> None:
    """They ask for values before backward(), and would split the step there."""
    trainer = fit_trainer(sft(tmp_path, (16,), max_steps=3))
    programs: list[int] = []
    end = trainer.fitstep._end

    def count_and_end() -> None:
        if trainer.fitstep.step is not None:
            programs.append(len(trainer.fitstep.step.variants))
        end()

    trainer.fitstep._end = count_and_end
    trainer.train()
    assert programs == [2]  # The first step, which makes AdamW's state, and the others.


def test_dpo_has_the_bits_and_metrics_of_the_stock_trainer(tmp_path: Path) -> None:
    stock = dpo(tmp_path)
    stock.train()
    ours = fit_trainer(dpo(tmp_path))
    ours.train()
    assert differences(outcome(ours), outcome(stock)) == []
    assert "rewards/chosen" in stock.state.log_history[0]


class OwnLoss(trl.SFTTrainer):  # type: ignore[misc,name-defined]
    """Its loss depends on a gathered value that is not positive."""

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        padding = self.accelerator.gather((inputs["input_ids"] < 0).sum())
        return loss * 2 if padding > 0 or padding else loss


class OfLogs(trl.SFTTrainer):  # type: ignore[misc,name-defined]
    """Its loss depends on what TRL has just logged."""

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        logged = self._metrics["train"]
        if logged["mean_token_accuracy"][-1] > 0:
            loss = loss * 2
        return loss * (1 + logged["entropy"][-1]) if f"{logged['entropy'][-1]:.3f}" else loss


@pytest.mark.parametrize("kind", [OwnLoss, OfLogs])
def test_a_loss_that_depends_on_values_which_trl_has_gathered_or_logged_is_right(
    kind: type[Any], tmp_path: Path
) -> None:
    stock = sft(tmp_path, (16,), kind=kind, max_steps=3)
    stock.train()
    ours = fit_trainer(sft(tmp_path, (16,), kind=kind, max_steps=3))
    ours.train()
    assert differences(outcome(ours), outcome(stock)) == []


def test_only_trl_is_told_that_a_later_number_is_positive() -> None:
    assert not later(0.0) > 0
    assert later(1.0) > 0


def later(value: float) -> Later:
    return Later(lambda: torch.tensor(value))


def test_a_later_number_is_what_trl_computes() -> None:
    correct, total = later(3.0), later(4.0)
    share = (correct.sum() / total.sum()).item() if total > 0 else 0.0
    assert isinstance(share, Later)
    assert share.value() == 0.75
    assert (10 + later(4.0).sum().item() // 2).value() == 12


def test_a_share_of_nothing_is_zero_as_in_trl() -> None:
    nothing = later(0.0)
    of_trl = {"__name__": "trl.trainer.sft_trainer", "nothing": nothing, "correct": later(0.0)}
    share = eval("(correct / nothing).item() if nothing > 0 else 0.0", of_trl)
    assert share.value() == 0.0
    assert not nothing and nothing == 0.0
