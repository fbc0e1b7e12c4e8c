"""Trainers of other libraries: their bits, and step times beside the stock trainer.

    python benchmarks/run.py trainers [--small] [--rounds N]

Method. Each case trains a random model in one process, by turns as the library does, with 100 % and
with 60 % of plain PyTorch's peak, for some rounds; each training begins anew. A step's time is from
its first to its last callback, and in a loop from call to call. The first two steps of a training
do not count: there fitstep plans, and the optimizer makes its state. Times are medians over all
rounds. Bits are those of parameters, optimizer, generator and logs. Audits are off.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from fitstep.integrations import fit_lightning, fit_trainer
from fitstep_kit.measures.bits import Fingerprint, fingerprint
from torch import Tensor, nn

import fitstep
from benchmarks.output import Row, arguments, mib, save, show

BUDGETS = {"100 %": "100%", "60 %": "60%"}
STEPS, UNCOUNTED = 8, 2
QUIET: dict[str, Any] = {"audits": "off", "progress": False}

Trained = tuple[list[float], Fingerprint]


class Clock:
    """Seconds of each step, told by callbacks."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._start = 0.0

    def begin(self, *_: Any, **__: Any) -> None:
        self._start = time.perf_counter()

    def end(self, *_: Any, **__: Any) -> None:
        self.seconds.append(time.perf_counter() - self._start)


def transformers_trainer(budget: str | None, small: bool) -> Trained:
    from fitstep_kit.subjects import hf_trainings as hf
    from transformers import Trainer, TrainingArguments

    return _hf(budget, small, Trainer, TrainingArguments, {"train_dataset": _texts(hf, small)})


def trl_sft(budget: str | None, small: bool) -> Trained:
    import datasets
    from fitstep_kit.subjects import hf_trainings as hf
    from trl import SFTConfig, SFTTrainer

    rows = [{"input_ids": row["input_ids"].tolist()} for row in _texts(hf, small)]
    more = {"train_dataset": datasets.Dataset.from_list(rows), "processing_class": hf.tokenizer()}
    return _hf(budget, small, SFTTrainer, SFTConfig, more, bf16=False, max_length=_length(small))


def _length(small: bool) -> int:
    return 32 if small else 128


def _texts(hf: Any, small: bool) -> Any:
    return hf.text(STEPS * 8, (_length(small),))


def _hf(
    budget: str | None, small: bool, kind: Any, config: Any, more: Row, **settings: Any
) -> Trained:
    from fitstep_kit.subjects import hf_trainings as hf
    from transformers import TrainerCallback

    clock = Clock()
    hooks = {"on_step_begin": clock.begin, "on_step_end": clock.end}
    callback = type("Times", (TrainerCallback,), hooks)()
    width, layers = (32, 2) if small else (256, 4)
    with tempfile.TemporaryDirectory() as folder:
        trainer = hf.make_trainer(
            folder,
            lambda: hf.gpt2(width, layers, _length(small)),
            kind,
            config,
            {**more, "callbacks": [callback]},
            per_device_train_batch_size=8,
            **settings,
        )
        if budget is not None:
            fit_trainer(trainer, budget, **QUIET)
        trainer.train()
        return clock.seconds, hf.outcome(trainer)


def lightning_trainer(budget: str | None, small: bool) -> Trained:
    import lightning
    from fitstep_kit.subjects import lightning_trainings as li

    clock = Clock()
    hooks = {"on_train_batch_start": clock.begin, "on_train_batch_end": clock.end}
    size = 64 if small else 4096
    trainer = li.make_trainer(callbacks=[type("Times", (lightning.Callback,), hooks)()])
    if budget is not None:
        fit_lightning(trainer, budget, **QUIET)
    trainer.fit(li.Classifier(32 if small else 256, 8), li.batches(size * STEPS, size))
    return clock.seconds, li.outcome(trainer)


def accelerate_loop(budget: str | None, small: bool) -> Trained:
    from accelerate import Accelerator
    from fitstep_kit.subjects import hf_trainings as hf

    accelerator = Accelerator(cpu=True)
    model: Any = hf.gpt2(*((32, 2) if small else (256, 4)), _length(small))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)

    def train_step(tokens: Tensor) -> Tensor:
        loss = model(input_ids=tokens, labels=tokens).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    rows = torch.stack([row["input_ids"] for row in _texts(hf, small)])
    return _loop(train_step, rows.split(8), budget, model, optimizer.optimizer)


def diffusers_loop(budget: str | None, small: bool) -> Trained:
    from accelerate import Accelerator
    from diffusers import DDPMScheduler, UNet2DModel

    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    unet: Any = UNet2DModel(
        sample_size=16,
        block_out_channels=(16, 32) if small else (32, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
        attention_head_dim=8,
    )
    schedule = DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
    unet, optimizer = accelerator.prepare(unet, optimizer)

    def train_step(images: Tensor) -> Tensor:
        noise = torch.randn_like(images)
        times = torch.randint(0, 100, (len(images),))
        noisy = schedule.add_noise(images, noise, times)
        loss = nn.functional.mse_loss(unet(noisy, times).sample, noise)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    images = torch.randn(STEPS * 8, 3, 16, 16)
    return _loop(train_step, images.split(8), budget, unet, optimizer.optimizer)


def _loop(
    train_step: Callable[[Tensor], Tensor],
    batches: tuple[Tensor, ...],
    budget: str | None,
    model: nn.Module,
    optimizer: Any,
) -> Trained:
    torch.manual_seed(1)
    clock, losses = Clock(), []
    step: Any = train_step
    if budget is not None:
        step = fitstep.compile(train_step, (batches[0],), budget, **QUIET)
    for batch in batches:
        clock.begin()
        losses.append(step(batch).item())
        clock.end()
    bits = fingerprint(
        model=model,
        optimizer=optimizer.state_dict(),
        losses=losses,
        generator=torch.get_rng_state(),
    )
    if budget is not None:
        step.close()
    return clock.seconds, bits


CASES: dict[str, tuple[Callable[[str | None, bool], Trained], int]] = {  # And the user's lines.
    "transformers Trainer": (transformers_trainer, 2),
    "TRL SFTTrainer": (trl_sft, 2),
    "Lightning Trainer": (lightning_trainer, 2),
    "accelerate loop": (accelerate_loop, 2),
    "diffusers loop": (diffusers_loop, 2),
}


def measure(name: str, rounds: int, small: bool) -> Row:
    train, lines = CASES[name]
    ways: dict[str, str | None] = {"stock": None, **BUDGETS}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    bits: dict[str, list[Fingerprint]] = {way: [] for way in ways}
    least: dict[str, int | None] = {}  # Bytes of the least budget, of ways that have no plan.
    for _ in range(rounds):
        for way, budget in ways.items():
            if way in least:
                continue
            try:
                took, left = train(budget, small)
            except fitstep.BudgetTooSmall as error:
                least[way] = error.least_found_bytes
                continue
            seconds[way] += took[UNCOUNTED:]
            bits[way].append(left)
    stock = bits["stock"][0]
    medians = {way: statistics.median(took) for way, took in seconds.items() if took}
    return {
        "case": name,
        "lines": lines,
        "steps": len(seconds["stock"]),
        "same_bits": all(left == stock for one in bits.values() for left in one),
        "step_s": medians,
        "ratio": {way: medians[way] / medians["stock"] for way in BUDGETS if way in medians},
        "least_bytes": least,
    }


def _time(row: Row, way: str) -> str:
    if way in row["step_s"]:
        return f"{row['step_s'][way] * 1e3:.1f} ms"
    return f"no plan below {mib(row['least_bytes'][way])}"


def main() -> int:
    """1 if the bits differ."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("names", nargs="*", help=", ".join(CASES))
    args = parser.parse_args()
    rows = []
    for name in args.names or CASES:
        rows.append(measure(name, 1 if args.small else args.rounds, args.small))
        print(rows[-1], flush=True)
    table = [
        {
            "case": row["case"],
            "lines": row["lines"],
            "same bits": "yes" if row["same_bits"] else "NO",
            "stock": f"{row['step_s']['stock'] * 1e3:.1f} ms",
            **{way: _time(row, way) for way in BUDGETS},
            **{f"{way} / stock": f"{row['ratio'].get(way, 0):.2f}" for way in BUDGETS},
        }
        for row in rows
    ]
    show("trainers", table)
    save("trainers", {"rows": rows}, args.small)
    return int(not all(row["same_bits"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
