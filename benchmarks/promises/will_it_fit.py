"""`fits` and `largest_batch`: verdicts, checked by training at the batch given and one above.

    python benchmarks/run.py will_it_fit [--small] [--case NAME ...]

Method. ResNet-50 on images of 64 pixels, a 12-layer GPT and BERT-base (sizes of transformers'
default configuration, random weights) on 32 tokens, each in a fresh process with an empty profile.
`largest_batch` names a batch for the budget; in another fresh process `fits` is asked about it.
Then `compile` has to take this batch, its step has to hold at most the budget, and `compile` has to
refuse the next batch. Seconds are those of the question alone, cold: recording, measuring every
operator, planning.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fitstep_kit.models.gpt import GPT
from fitstep_kit.models.resnet import resnet50
from fitstep_kit.subjects.equal_bits import Watched
from torch import Tensor, nn

import fitstep
from benchmarks.output import MIB, Row, arguments, command_of, kept_rows, mib, save, show

TOKENS, PIXELS, VOCAB = 32, 64, 4096
ALLOWED_SECONDS = 15.0


class Subject(NamedTuple):
    model: nn.Module
    loss: Callable[[nn.Module, Tensor, Tensor], Tensor]
    make_example: Callable[[int], tuple[Tensor, Tensor]]
    budget: int


def _classes(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x), y)


def _next_tokens(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def resnet() -> Subject:
    def example(rows: int) -> tuple[Tensor, Tensor]:
        return torch.randn(rows, 3, PIXELS, PIXELS), torch.randint(0, 1000, (rows,))

    return Subject(resnet50(), _classes, example, 330 * MIB)


def gpt() -> Subject:
    def example(rows: int) -> tuple[Tensor, Tensor]:
        tokens = torch.randint(0, VOCAB, (rows, TOKENS + 1))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    model = GPT(vocab=VOCAB, context=TOKENS, width=256, layers=12)
    return Subject(model, _next_tokens, example, 192 * MIB)


def bert() -> Subject:
    from transformers import BertConfig, BertForSequenceClassification

    def example(rows: int) -> tuple[Tensor, Tensor]:
        return torch.randint(0, 30_000, (rows, TOKENS)), torch.randint(0, 2, (rows,))

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found: Tensor = model(input_ids=x, labels=y).loss
        return found

    return Subject(BertForSequenceClassification(BertConfig()), loss, example, 1362 * MIB)


SUBJECTS = {"ResNet-50": resnet, "GPT, 12 layers": gpt, "BERT-base": bert}
SMALL = ("GPT, 12 layers",)


def training(name: str) -> tuple[Callable[[Tensor, Tensor], Tensor], Subject]:
    torch.manual_seed(0)
    subject = SUBJECTS[name]()
    optimizer = torch.optim.AdamW(subject.model.parameters())

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = subject.loss(subject.model, x, y)
        loss.backward()
        optimizer.step()
        return loss

    return step, subject


def ask_largest(name: str) -> Row:
    step, subject = training(name)
    found = fitstep.largest_batch(step, subject.make_example, subject.budget)
    print(found, file=sys.stderr)
    return {
        "budget_bytes": subject.budget, "batch": found.batch, "seconds": found.seconds,
        "measured": list(found.asked), "predicted_s": found.fits and found.fits.predicted_s,
        "is_measured_above": found.is_measured_above,
    }  # fmt: skip


def ask_fits(name: str, batch: int) -> Row:
    """The verdict of `fits`, then the truth: one step, and the next batch."""
    step, subject = training(name)
    found = fitstep.fits(step, subject.make_example(batch), subject.budget)
    print(found, file=sys.stderr)
    compiled = fitstep.compile(
        step, subject.make_example(batch), subject.budget, audits="off", progress=False
    )
    watched = Watched(compiled)
    for _ in range(2):
        watched(*subject.make_example(batch))
    held, report = watched.held_bytes(), compiled.report()
    compiled.close()
    try:
        fitstep.compile(step, subject.make_example(batch + 1), subject.budget, progress=False)
        refused: int | None = None
    except fitstep.BudgetTooSmall as error:
        refused = error.least_found_bytes or error.floor_bytes
    return {
        "fits": bool(found), "fits_seconds": found.seconds, "floor_bytes": found.floor_bytes,
        "held_bytes": held, "violations": report.violations, "next_needs_bytes": refused,
    }  # fmt: skip


def in_a_process(*options: str) -> Row:
    command = [*command_of(__file__), *options]
    with tempfile.TemporaryDirectory() as cache:  # So that every operator is measured.
        environment = {**os.environ, "FITSTEP_CACHE": cache, "HF_HUB_OFFLINE": "1"}
        answer = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, env=environment
        )
    row: Row = json.loads(answer.stdout.splitlines()[-1])
    return row


def is_kept(row: Row) -> bool:
    """Whether the verdicts were true."""
    return bool(
        row["batch"] and row["fits"] and row["violations"] == 0 and row["next_needs_bytes"]
        and row["held_bytes"] <= row["budget_bytes"]
    )  # fmt: skip


def shown(row: Row) -> Row:
    quick = max(row["seconds"], row["fits_seconds"]) <= ALLOWED_SECONDS
    return {
        "case": row["case"],
        "budget": mib(row["budget_bytes"]),
        "largest batch": row["batch"],
        "asked in": f"{row['seconds']:.1f} s",
        "measured batches": " ".join(map(str, row["measured"])),
        "fits asked in": f"{row['fits_seconds']:.1f} s",
        "held": mib(row["held_bytes"]),
        "next needs": mib(row["next_needs_bytes"]),
        "true": "yes" if is_kept(row) else "NO",
        "in 15 s": "yes" if quick else "NO",
    }


def main() -> int:
    """1 if a verdict was wrong."""
    parser = arguments(__doc__)
    parser.add_argument("--case", nargs="+", choices=SUBJECTS)
    parser.add_argument("--largest", choices=SUBJECTS, help="ask in this process, for the driver")
    parser.add_argument("--fits", choices=SUBJECTS, help="the same")
    parser.add_argument("--batch", type=int, default=0)
    args = parser.parse_args()
    if args.largest or args.fits:
        found: Any = ask_largest(args.largest) if args.largest else ask_fits(args.fits, args.batch)
        print(json.dumps(found))
        return 0
    names = args.case or (SMALL if args.small else tuple(SUBJECTS))
    rows = kept_rows("will_it_fit", names, args.small)
    for name in names:
        row = in_a_process("--largest", name)
        if not row["batch"]:
            print(f"{name}: no batch fits into {mib(row['budget_bytes'])}: choose a larger budget")
            return 1
        row |= in_a_process("--fits", name, "--batch", str(row["batch"]))
        rows.append({"case": name, **row})
    show("will it fit?", [shown(row) for row in rows])
    save(Path(__file__).stem, {"rows": rows}, args.small)
    return 0 if all(map(is_kept, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
