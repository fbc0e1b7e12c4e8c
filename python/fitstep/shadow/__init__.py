"""Shadow optimizers: the numbers that an optimizer puts into a step, computed on the host.

`ShadowOptimizer` says what the next step's numbers are, `match` finds their places in a captured
program, `optimizer_regions` and `recorded_schedulers` see during capture what is called when, and
`HostSide` does all of it before each run.
"""

from .host import HostSide, OptimizerCall, SchedulerCall, recorded_host_side
from .match import LiteralPatch, NumberPatch, Patches, Slots, TapeOp, match, storages_of
from .optimizer import Formula, Mask, ShadowOptimizer, ShadowRun, grad_mask
from .regions import optimizer_regions
from .schedulers import recorded_schedulers
from .tape import Signature

__all__ = [
    "Formula",
    "HostSide",
    "LiteralPatch",
    "Mask",
    "NumberPatch",
    "OptimizerCall",
    "Patches",
    "SchedulerCall",
    "ShadowOptimizer",
    "ShadowRun",
    "Signature",
    "Slots",
    "TapeOp",
    "grad_mask",
    "match",
    "optimizer_regions",
    "recorded_host_side",
    "recorded_schedulers",
    "storages_of",
]
