"""fitstep trains any PyTorch model inside a memory budget that you choose.

    step = fitstep.compile(train_step, example=(x, y), budget="6GiB")
    for x, y in loader:
        loss = step(x, y)        # same numbers as plain PyTorch, bit for bit, in 6 GiB
    print(step.report())

`compile` previews one training step, plans where every tensor lies at every moment, verifies the
plan, and returns a step that runs by this plan. If `compile` raises, it has changed nothing.

`help(fitstep.compile)` says what each argument means, and docs/reference/settings.md when to change
it. Most trainings need `budget` alone.
"""

from .versions import add_modules

add_modules(__path__)  # Before all that imports `_core`. Raises ImportError for another torch.

from .api import compile, curve, fits, largest_batch, step  # noqa: A004
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
from .questions.batches import LargestBatch
from .questions.curve import Curve, CurvePoint
from .questions.fits import Fits
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
    "Fits",
    "FitstepError",
    "LargestBatch",
    "PlanFileError",
    "Report",
    "SettingError",
    "Step",
    "StepFailed",
    "compile",
    "curve",
    "declare_pure",
    "fits",
    "largest_batch",
    "step",
]
__version__ = "0.1.0"
