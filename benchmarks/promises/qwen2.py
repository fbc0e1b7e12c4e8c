"""Qwen 2 with 494 million parameters: the bits of plain PyTorch, at 100 % and in 3 GiB with a disk.

    python benchmarks/run.py qwen2 [--small] [--folder FOLDER]

Method. 24 layers, 14 heads, 2 key and value heads, width 896, vocabulary 151,936, random weights;
batch 1 x 256, AdamW, 3 steps. Plain PyTorch and each budget have a process of their own; all hash
every parameter and the losses. Audits are off, so that nothing but the programs makes the bits and
the memory. Grown is the most by which anonymous resident memory was above that before `compile`,
with the model there already.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from fitstep_kit.measures.bits import fingerprint
from fitstep_kit.measures.resident import ResidentPeak
from torch import Tensor

import fitstep
from benchmarks.output import Row, arguments, command_of, mib, save, show

GIB = 1 << 30
STEPS = 3
WAYS = {"plain": None, "100 %": "100%", "3 GiB, disk": 3 * GIB}
SMALL_WAYS = {"plain": None, "100 %": "100%", "60 %, disk": "60%"}


def run(budget: Any, folder: str, small: bool) -> Row:
    """What one process does."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes: dict[str, int] = {"vocab_size": 151_936, "hidden_size": 896, "intermediate_size": 4864}
    sizes |= {"num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2}
    if small:
        sizes |= {"vocab_size": 500, "hidden_size": 112, "intermediate_size": 300}
        sizes |= {"num_hidden_layers": 3}
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**sizes, tie_word_embeddings=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, sizes["vocab_size"], (STEPS, 1, 256))

    def train_step(tokens: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        return loss

    row: Row = {"parameters": sum(p.numel() for p in model.parameters())}
    watch = ResidentPeak()
    watch.start()
    start = time.perf_counter()
    step: Any = train_step
    if budget is not None:
        below: Any = {} if budget == "100%" else {"disk_budget": "300%", "disk_dir": folder}
        step = fitstep.compile(
            train_step, (tokens[0],), budget, audits="off", progress=False, **below
        )
        row["compile_s"] = time.perf_counter() - start
    losses, seconds = [], []
    for one in tokens:
        start = time.perf_counter()
        losses.append(float(step(one).detach()))
        seconds.append(time.perf_counter() - start)
    row |= {"losses": losses, "step_s": seconds[-1], "grown_bytes": watch.finish()}
    if budget is not None:
        report = step.report()
        row |= {"budget_bytes": report.budget_bytes, "plain_peak_bytes": report.plain_peak_bytes}
    row["hash"] = fingerprint(model=model)
    return row


def in_process(name: str, budget: Any, folder: str, small: bool) -> Row:
    """The answer of a process of its own."""
    job = json.dumps({"budget": budget, "folder": folder, "small": small})
    command = [*command_of(__file__), "--job", job]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {"case": name, **json.loads(answer.stdout.splitlines()[-1])}


def main() -> int:
    """1 if the bits differ."""
    parser = arguments(__doc__)
    parser.add_argument("--folder", type=Path, help="of the disk tier; a temporary one by default")
    parser.add_argument("--job", help="of the processes that this one starts")
    args = parser.parse_args()
    if args.job:
        print(json.dumps(run(**json.loads(args.job))))
        return 0
    rows = []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for name, budget in (SMALL_WAYS if args.small else WAYS).items():
            rows.append(in_process(name, budget, folder, args.small))
            print(json.dumps({k: v for k, v in rows[-1].items() if k != "hash"}), flush=True)
    plain = rows[0]
    for row in rows:
        row["same_bits"] = (row["hash"], row["losses"]) == (plain["hash"], plain["losses"])
    table = [
        {
            "case": row["case"],
            "parameters": f"{row['parameters'] / 1e6:.0f} M",
            "budget": mib(row.get("budget_bytes")),
            "grown": mib(row["grown_bytes"]),
            "compile": f"{row['compile_s']:.0f} s" if "compile_s" in row else "-",
            "third step": f"{row['step_s']:.1f} s",
            "same bits": "yes" if row["same_bits"] else "NO",
        }
        for row in rows
    ]
    show("qwen2", table)
    save("qwen2", {"rows": rows}, args.small)
    return int(not all(row["same_bits"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
