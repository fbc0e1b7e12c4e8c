"""Budgets as users write them, in bytes. _core.split_budget() says what the arena gets of one.

"6GiB", 6442450944     bytes
"60%", 0.6             a share of plain PyTorch's peak
{0: "20GiB", "cpu": "64GiB", "disk": "100GiB"}    one for each kind of memory
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import torch

from .. import _core
from ..errors import BudgetError

Size = int | float | str
Budget = Size | Mapping[Any, Size]

_MOST_SHARE = 10.0  # 1000 %, as in _core.parse_budget().
_KEYS = 'GPU numbers (0 or "cuda:0"), "cpu" and "disk"'


def written(name: str, budget: Budget | None) -> _core.WrittenBudget:
    """Parses bytes (an int), "6GiB", or a share of the plain peak ("75%" or the float 0.75). None
    is a budget of 0 bytes.

    Raises BudgetError for anything else; `name` is the argument in its message.
    """
    if budget is None:
        return _core.WrittenBudget()
    given = f"{name}={budget!r}"
    try:
        return _core.parse_budget(_text_of(name, budget), given)
    except _core.CoreError as error:
        raise BudgetError(error.args[1], todo=_todo(name)) from None


def _todo(name: str) -> str:
    return (
        f'write bytes as an int, {name}="6GiB", or {name}="75%" or 0.75 of what plain PyTorch needs'
    )


def _text_of(name: str, budget: object) -> str:
    """What _core.parse_budget() reads."""
    given = f"{name}={budget!r}"
    if isinstance(budget, str):
        return budget
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real):
        raise BudgetError(f"{given} is not a budget", todo=_todo(name))
    if isinstance(budget, numbers.Integral):
        return str(int(budget))
    share = float(budget)
    if 0 < share <= _MOST_SHARE:
        return f"{Decimal(repr(share)) * 100:f}%"
    todo = _todo(name)
    if math.isfinite(share) and share > _MOST_SHARE:
        todo = f"write bytes as an int: {name}={round(share)}, or {name}={share:.10g}/100 for a "
        todo += "share in percent"
    raise BudgetError(
        f"{given} is a float, and a float is a share of what plain PyTorch needs, from above 0 to "
        f"{_MOST_SHARE:g}",
        todo=todo,
    )


@dataclass(frozen=True)
class Budgets:
    """The three budgets of a step, for one device."""

    device: Size | None = None
    host: Size | None = None
    disk: Size | None = None


def check_budgets(budget: Budget | None, host: Size | None, disk: Size | None) -> None:
    """Raises BudgetError unless each of them is one, before the device of the step is known."""
    if not isinstance(budget, Mapping):
        written("budget", budget)
    else:
        _check_keys(budget)
        for key, size in budget.items():
            name = f"budget[{_shown(key)}]"
            if size is None:
                raise BudgetError(f"{name}=None is not a budget", todo=_todo(name))
            written(name, size)
        for name, given in (("host_budget", host), ("disk_budget", disk)):
            if given is not None:
                raise BudgetError(
                    f"budget={dict(budget)!r} is for all kinds of memory, and {name}={given!r} is "
                    "given beside it",
                    todo=f"write {name}= into the dict, or budget= without a dict",
                )
    written("host_budget", host)
    written("disk_budget", disk)


def _check_keys(budget: Mapping[Any, Size]) -> None:
    gpus = [key for key in budget if _gpu_of(key) is not None]
    unknown = [key for key in budget if key not in gpus and str(key) not in ("cpu", "disk")]
    if unknown or not budget:
        what = f"has the unknown key {_shown(unknown[0])}" if unknown else "is empty"
        raise BudgetError(f"budget={dict(budget)!r} {what}", todo=f"the keys are {_KEYS}")
    if len(gpus) > 1:
        shown = ", ".join(map(_shown, gpus))
        raise BudgetError(
            f"budget={dict(budget)!r} names more than one GPU ({shown})",
            todo="name the model's GPU only: a compiled step runs on one",
        )


def _gpu_of(key: object) -> str | None:
    """ "cuda:0" for 0, "cuda:0" and torch.device("cuda", 0); "cuda" for any GPU; None for what is
    no GPU."""
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        return f"cuda:{int(key)}" if int(key) >= 0 else None
    text = str(key) if isinstance(key, str | torch.device) else ""
    return text if re.fullmatch(r"cuda(:\d+)?", text) else None


def _shown(key: object) -> str:
    return repr(str(key)) if isinstance(key, torch.device) else repr(key)


def budgets_on(
    device: torch.device, budget: Budget | None, host: Size | None, disk: Size | None
) -> Budgets:
    """The budgets for a step on `device`. REQUIRES: check_budgets() has not raised.

    Raises BudgetError if a dict names another device than the step's.
    """
    if not isinstance(budget, Mapping):
        return Budgets(budget, host, disk)
    of_gpu = {gpu: size for key, size in budget.items() if (gpu := _gpu_of(key)) is not None}
    others = {str(key): size for key, size in budget.items() if _gpu_of(key) is None}
    if device.type == "cpu":
        if of_gpu:
            raise BudgetError(
                f"budget={dict(budget)!r} names a GPU, but the model is on the CPU",
                todo='write budget={"cpu": "4GiB"}, or move the model to the GPU first',
            )
        return Budgets(others.get("cpu"), None, others.get("disk"))
    here = f"cuda:{device.index or 0}"
    if not of_gpu.keys() <= {here, "cuda"}:
        raise BudgetError(
            f"budget={dict(budget)!r} names {next(iter(of_gpu))}, but the model is on {here}",
            todo=f"write budget={{{device.index or 0}: ...}}, or move the model",
        )
    return Budgets(next(iter(of_gpu.values()), None), others.get("cpu"), others.get("disk"))


def is_same(name: str, a: Budget | None, b: Budget | None) -> bool:
    """Whether two budgets are written with the same number of bytes, or the same share."""
    first, second = written(name, a), written(name, b)
    return (first.bytes, first.percent) == (second.bytes, second.percent)


def asked_bytes(budget: Budget | None, plain_peak_bytes: int, outside_bytes: int) -> int:
    """Bytes of the device's budget. None is what plain PyTorch needs. A share and None do not count
    `outside_bytes` (what a GPU holds beside tensors) yet, so it is added; a size does."""
    if budget is None:
        return plain_peak_bytes + outside_bytes
    asked = written("budget", budget)
    return asked.of(plain_peak_bytes) + (0 if asked.bytes else outside_bytes)


def slack_of(budget_bytes: int) -> int:
    """Bytes that a growing budget gets beyond need, so that the next growth comes later."""
    return budget_bytes // 64 + (64 << 10)
