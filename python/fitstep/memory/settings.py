"""The arguments of `compile` that are settings, and their checks before anything runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from .. import _core
from ..errors import SettingError
from .budget import Budget, Size, budgets_on, check_budgets

_MOST_EFFORT = 1_000_000


@dataclass(eq=False)
class Settings:
    """The settings of one session. Raises BudgetError or SettingError for a wrong one."""

    budget: Budget | None  # A dict only before on().
    policy: str = "auto"
    seed: int = 1
    effort: int = 8
    progress: Callable[[str, float], None] | None = None
    host_budget: Size | None = None
    disk_budget: Size | None = None
    disk_dir: str | os.PathLike[str] | None = None
    disk_checksums: bool = True
    disk_codes: bool = True
    host_codes: bool = False
    cuda_graph: bool = False

    def __post_init__(self) -> None:
        check_budgets(self.budget, self.host_budget, self.disk_budget)
        check_path("disk_dir", self.disk_dir, "the path of a folder")
        check_switch("disk_checksums", self.disk_checksums)
        check_switch("disk_codes", self.disk_codes)
        check_switch("host_codes", self.host_codes)
        check_switch("cuda_graph", self.cuda_graph)
        if self.disk_dir is not None and not self._has_disk():
            raise SettingError("disk_dir", self.disk_dir, "None without disk_budget=")
        check_choice("policy", self.policy, tuple(_core.policy_names()))
        check_int("seed", self.seed, 0, 2**64 - 1)
        check_int("effort", self.effort, 1, _MOST_EFFORT)

    def _has_disk(self) -> bool:
        of_all = self.budget if isinstance(self.budget, Mapping) else {}
        return self.disk_budget is not None or "disk" in of_all

    def on(self, device: torch.device) -> Settings:
        """These settings for a step on `device`: a budget that is a dict becomes the budgets of the
        device, the host and the disk. Raises BudgetError if it names another device."""
        found = budgets_on(device, self.budget, self.host_budget, self.disk_budget)
        return replace(self, budget=found.device, host_budget=found.host, disk_budget=found.disk)


def check_int(name: str, value: object, least: int, most: int) -> None:
    """Raises SettingError unless the value is an int in this range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise SettingError(name, value, f"an int from {least} to {most}")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raises SettingError unless the value is one of these."""
    if value not in choices:
        raise SettingError(name, value, "one of " + ", ".join(f'"{one}"' for one in choices))


def check_switch(name: str, value: object, *, may_be_none: bool = False) -> None:
    """Raises SettingError unless the value is True or False."""
    if not (isinstance(value, bool) or (may_be_none and value is None)):
        raise SettingError(name, value, "True, False or None" if may_be_none else "True or False")


def check_path(name: str, value: object, allowed: str = "the path of a file") -> None:
    """Raises SettingError unless the value is a path or None."""
    is_path = isinstance(value, str | os.PathLike) and os.fspath(value)
    if value is not None and not is_path:
        raise SettingError(name, value, allowed)


def several(name: str, given: Any, kind: type, what: str) -> list[Any]:
    """`given`, None, one object of `kind` or several, as a list. Raises SettingError for others."""
    if given is None:
        return []
    if isinstance(given, kind):
        return [given]
    allowed = f"{what}, or a list of them"
    if isinstance(given, torch.nn.Module) or not isinstance(given, Iterable):
        raise SettingError(name, given, allowed)
    found = list(given)
    for one in found:
        if not isinstance(one, kind):
            raise SettingError(name, one, allowed)
    return found
