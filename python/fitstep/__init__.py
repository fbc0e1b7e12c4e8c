"""fitstep trains any PyTorch model inside a memory budget that you choose.

    step = fitstep.compile(train_step, example=(x, y), budget="6GiB")
    for x, y in loader:
        loss = step(x, y)        # same numbers as plain PyTorch, bit for bit, in 6 GiB
    print(step.report())

`compile` captures one training step, plans where every byte is at every moment, proves the plan,
and returns a step that runs it from C++; or it raises and has changed nothing.
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
from .pure import declare_pure
from .report import Report
from .step import Step

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
