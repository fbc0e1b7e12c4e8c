"""What audits cost over 1,000 steps, the comparison of the first steps among them.

    python benchmarks/run.py audits [--small]

Method. Three trainings in 100 % of plain PyTorch's peak with audits="auto", each call timed from
outside. The cost is what the audited calls took above the median of the others, as a share of all
1,000 calls; so it holds the kernels of plain PyTorch, the copies and the comparisons. A call counts
as audited if the report counts one more behind it; the report's own sum stands beside.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from fitstep_kit.models import GPT, MLP, resnet18
from torch import Tensor, nn

import fitstep
from benchmarks.output import Row, arguments, save, show

STEPS = 1000
ALLOWED = 0.01


def training(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., Tensor]:
    """The step that most people write."""

    def train_step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return train_step


def mlp() -> Any:
    """Small: most of a step is Python's."""
    model = MLP((256, 256, 256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batch = torch.randn(64, 256), torch.randint(0, 10, (64,))
    return training(model, optimizer), batch


def gpt() -> Any:
    """AdamW's state is most of what a segment writes, and so of what an audit copies."""
    model = GPT(vocab=256, context=64, width=128, layers=4, heads=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    row = torch.randint(0, 256, (8, 65))
    return training(model, optimizer), (row[:, :-1].contiguous(), row[:, 1:].contiguous())


def convolutions() -> Any:
    """Batch norm's statistics are written, too."""
    model = resnet18(width=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batch = torch.randn(8, 3, 64, 64), torch.randint(0, 1000, (8,))
    return training(model, optimizer), batch


CASES = {"mlp": mlp, "gpt": gpt, "resnet18": convolutions}


def measure(case: str, steps: int) -> Row:
    """One training."""
    torch.manual_seed(0)
    train_step, batch = CASES[case]()
    step = fitstep.compile(train_step, batch, "100%", audits="auto", progress=False)
    audited, others = [], []
    for _ in range(steps):
        before = step.audits.audited_calls
        start = time.perf_counter()
        step(*batch)
        seconds = time.perf_counter() - start
        (audited if step.audits.audited_calls > before else others).append(seconds)
    report = step.report()
    step.close()
    usual = statistics.median(others)
    extra = sum(audited) - usual * len(audited)
    return {
        "case": case,
        "steps": steps,
        "audited": len(audited),
        "left_out": report.audit_left_out,
        "usual_step_s": usual,
        "cost_s": extra,
        "reported_s": report.audit_s,
        "share": extra / (sum(audited) + sum(others)),
    }


def main() -> int:
    """1 if audits took more than is allowed, or there were none."""
    args = arguments(__doc__).parse_args()
    rows = [measure(case, 20 if args.small else STEPS) for case in CASES]
    table = [
        {
            "case": row["case"],
            "steps": row["steps"],
            "audited": row["audited"],
            "usual step": f"{1000 * row['usual_step_s']:.2f} ms",
            "audits took": f"{row['cost_s']:.3f} s",
            "as reported": f"{row['reported_s']:.3f} s",
            "of all steps": f"{row['share']:.2%} (below {ALLOWED:.0%})",
        }
        for row in rows
    ]
    show("audits", table)
    save("audits", {"rows": rows}, args.small)
    if any(not row["audited"] for row in rows):
        return 1
    return 0 if args.small else int(any(row["share"] >= ALLOWED for row in rows))


if __name__ == "__main__":
    sys.exit(main())
