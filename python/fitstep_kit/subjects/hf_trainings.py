"""Small trainings with the Trainer of transformers: random models, made-up text, no download."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from fitstep_kit.measures.bits import Fingerprint, fingerprint

Row = dict[str, Tensor]
VOCAB = 60
_TIMES = ("runtime", "per_second", "epoch_time")  # Logs that say how long it took.


def text(rows: int = 12, lengths: tuple[int, ...] = (16,), seed: int = 0) -> list[Row]:
    """Rows of random tokens, as a data set of a language model; lengths take turns."""
    drawn = torch.Generator().manual_seed(seed)
    made = []
    for i in range(rows):
        tokens = torch.randint(1, VOCAB, (lengths[i % len(lengths)],), generator=drawn)
        mask = torch.ones_like(tokens)
        made.append({"input_ids": tokens, "attention_mask": mask, "labels": tokens.clone()})
    return made


def padded(rows: list[Row]) -> Row:
    """A collator that pads each batch to its longest row."""
    fill = {"input_ids": 0, "attention_mask": 0, "labels": -100}
    return {
        name: nn.utils.rnn.pad_sequence([row[name] for row in rows], True, value)
        for name, value in fill.items()
    }


def gpt2(width: int = 32, layers: int = 2, length: int = 32) -> nn.Module:
    """With dropout, so that a training draws random numbers; equal weights each time."""
    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=layers,
        n_head=2,
        n_embd=width,
        vocab_size=VOCAB,
        n_positions=length,
        bos_token_id=0,
        eos_token_id=0,
    )
    model: nn.Module = GPT2LMHeadModel(config)
    return model


def make_trainer(
    folder: object,
    model: Callable[[], nn.Module] = gpt2,
    kind: type[Any] = Trainer,
    arguments: type[Any] = TrainingArguments,
    more: dict[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """A trainer that is ready to train on a CPU. `settings` are TrainingArguments, `more` are
    arguments of the trainer's class."""
    usual = {
        "output_dir": str(folder),
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        "save_strategy": "no",
        "logging_steps": 1,
        "num_train_epochs": 1,
        "per_device_train_batch_size": 2,
        "learning_rate": 1e-3,
        "seed": 3,
    }
    given = {"train_dataset": text(), **(more or {})}
    return kind(model=model(), args=arguments(**(usual | settings)), **given)


def logs(trainer: Any) -> list[dict[str, Any]]:
    """What the trainer has logged, except how long it took."""
    return [
        {name: value for name, value in row.items() if not name.endswith(_TIMES)}
        for row in trainer.state.log_history
    ]


def outcome(trainer: Any) -> Fingerprint:
    """The bits of all that a training leaves: parameters, optimizer and scheduler, generator, logs
    of loss, learning rate and norm of the gradients."""
    return fingerprint(
        model=trainer.model,
        optimizer=trainer.optimizer.state_dict(),
        scheduler=trainer.lr_scheduler.state_dict(),
        generator=torch.get_rng_state(),
        logs=logs(trainer),
    )


RESUMED: dict[str, Any] = {
    "save_strategy": "steps",
    "save_steps": 2,
    "gradient_accumulation_steps": 2,
    "lr_scheduler_type": "constant",
}


def unchanged(trainer: Any) -> Any:
    """The stock trainer."""
    return trainer


def resume(folder: Path, fit: Callable[[Any], Any]) -> None:
    """Goes on from the checkpoint in `folder`, for one more step, and leaves the bits there. `fit`
    gets the trainer first. For a new process."""
    trainer = make_trainer(folder, **RESUMED, max_steps=3)
    fit(trainer).train(resume_from_checkpoint=True)
    torch.save(outcome(trainer), folder / "bits")


def tokenizer() -> Any:
    """Splits at spaces: "w2 w3". Trainers of TRL want one."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"<pad>": 0, "<eos>": 1, **{f"w{i}": i for i in range(2, VOCAB)}}
    split = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    split.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=split, pad_token="<pad>", eos_token="<eos>")
