"""fitstep trains any PyTorch model inside a memory budget that you choose.

    step = fitstep.compile(train_step, example=(x, y), budget="6GiB")
    for x, y in loader:
        loss = step(x, y)        # same numbers as plain PyTorch, bit for bit, in 6 GiB
    print(step.report())

`compile` previews one training step, plans where every tensor lies at every moment, verifies the
plan, and returns a step that runs by this plan. If `compile` raises, it has changed nothing.

When to change which argument of `compile`:

    budget          the step runs out of memory, or a larger batch must fit: lower it
    host_budget     BudgetTooSmall, or recomputing is too slow: pass RAM that is free
    disk_budget     RAM is short too; with disk_dir="/folder/on/a/fast/drive"
    disk_checksums  False if the drive is trusted and the CPU is the bottleneck
    disk_codes      False if the CPU has no time to compress copies to the disk
    host_codes      True if the host tier needs too much RAM; steps may get slower
    cuda_graph      True if a GPU waits for Python between many small kernels
    keep_grads      True if code behind the step reads p.grad
    model           fitstep does not find a module by itself; optimizer= likewise
    max_variants    more than 32 shapes or branches take turns: raise it
    audits          "off" for measurements of time; "all" to look for a wrong bit
    effort          lower it if compile takes too long; raise it for faster steps
    seed            to get another plan of the same quality
    plan            a file from step.plan.save(path) must be used, not a new plan
    policy          to compare with plans that only recompute, only offload, or do neither
    progress        False if the progress line disturbs a log
"""

from .api import Curve, CurvePoint, compile, curve  # noqa: A004
from .errors import (
    AuditError,
    BudgetError,
    BudgetTooSmall,
    CaptureError,
    DiskError,
    FitstepError,
    PlanFileError,
    SettingError,
    StepFailed,
)
from .follow.pure import declare_pure
from .steps.report import Report
from .steps.step import Step

__all__ = [
    "AuditError",
    "BudgetError",
    "BudgetTooSmall",
    "CaptureError",
    "Curve",
    "CurvePoint",
    "DiskError",
    "FitstepError",
    "PlanFileError",
    "Report",
    "SettingError",
    "Step",
    "StepFailed",
    "compile",
    "curve",
    "declare_pure",
]
__version__ = "0.1.0"
