"""The tiers below the arena: how many bytes plans may use there, and what copies cost.

host    RAM beside the budget: host_budget bytes
disk    files in disk_dir: disk_budget bytes. One file is for evicted tensors; another is for homes,
        if they do not fit into the arena and there is no host tier. The staging area for copies to
        the files takes 1 % of the budget.

If homes are on disk, plans call the file of homes the host tier: it holds nothing else, and its
copies are as fast as the disk's.
"""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from .. import _core
from ..errors import BudgetError, DiskError, SettingError
from .budget import Budget, is_same, written
from .settings import Settings

_SWITCHES = {"disk_checksums": True, "disk_codes": True, "host_codes": False, "cuda_graph": False}


class Links(Protocol):
    """What measures copies between tiers: a ProfileCache."""

    def host_link(self, host_budget_bytes: int) -> str: ...

    def disk_link(self, disk_budget_bytes: int, file: dict[str, Any]) -> str: ...

    def codecs(self, piece_bytes: int) -> str: ...


@dataclass(eq=False)
class Below:
    """The tiers of one session."""

    host_budget_bytes: int = 0  # 0: there is no host tier.
    host_link: str = ""  # What _core.Device.measure_link() returned.
    disk_budget_bytes: int = 0  # 0: there is no disk tier.
    disk_link: str = ""  # What _core.measure_disk_link() returned.
    disk_dir: str = ""
    disk_checksums: bool = True
    codecs: str = ""  # What Device.measure_codecs() returned; "" if no copy may be compressed.
    disk_codes: bool = False  # Whether copies to the disk may be compressed.
    host_codes: bool = False  # Whether copies to the host may be compressed.
    disk_homes_bytes: int = 0  # Part of the disk budget that homes take.
    # Traffic in all steps up to the last look(). Copies of homes on disk count as the disk's.
    evicted_bytes: int = 0
    prefetched_bytes: int = 0
    host_pageable: str = ""  # Why a GPU's host tier is not pinned; "" if it is.
    disk_written_bytes: int = 0
    disk_read_bytes: int = 0
    is_direct: bool | None = None  # Whether copies bypass the page cache; None without a file.

    @staticmethod
    def of(settings: Settings, plain_peak_bytes: int, links: Links, budget_bytes: int) -> Below:
        """The tiers that the settings ask for, with measured links. Raises SettingError for
        host_codes without host_budget, DiskError if no file can be created in disk_dir."""
        below = Below(
            written("host_budget", settings.host_budget).of(plain_peak_bytes),
            disk_budget_bytes=written("disk_budget", settings.disk_budget).of(plain_peak_bytes),
            disk_checksums=settings.disk_checksums,
        )
        below.host_codes = settings.host_codes
        if below.host_codes and not below.host_budget_bytes:
            raise SettingError("host_codes", True, "False without host_budget=")
        if settings.disk_budget is not None:  # Its bytes may be 0: a share of a plain peak of 0.
            below.disk_dir = os.path.abspath(settings.disk_dir or tempfile.gettempdir())
        if below.disk_budget_bytes:
            below._measure_disk(budget_bytes, links)
            below.disk_codes = settings.disk_codes
        if below.host_budget_bytes or below.disk_budget_bytes:
            most = max(below.host_budget_bytes, below.disk_budget_bytes)
            below.host_link = links.host_link(below.host_budget_bytes or most)
        if below.disk_codes:
            below.codecs = links.codecs(below.file(budget_bytes)["piece_bytes"])
        elif below.host_codes:
            below.codecs = links.codecs(_core.HOST_PIECE_BYTES)
        return below

    def _measure_disk(self, budget_bytes: int, links: Links) -> None:
        try:
            with tempfile.TemporaryFile(dir=self.disk_dir):
                pass
            self.disk_link = links.disk_link(self.disk_budget_bytes, self.file(budget_bytes))
        except OSError as error:
            problem = f"cannot create a file in disk_dir={self.disk_dir!r}: {error.strerror}"
            raise unusable(problem) from None
        except _core.CoreError as error:
            raise unusable(str(error.args[1])) from None

    @property
    def has_disk(self) -> bool:
        return self.disk_budget_bytes > 0

    @property
    def has_homes_on_disk(self) -> bool:
        return self.disk_homes_bytes > 0

    @property
    def pieces(self) -> int:
        """How many pieces of staging copies to files and back need."""
        evicted = _core.STAGING_OF_EVICTED if self.has_disk else 0
        return evicted + (_core.STAGING_OF_HOMES if self.has_homes_on_disk else 0)

    def file(self, budget_bytes: int) -> dict[str, Any]:
        """The options of the disk tier's file."""
        return {
            "folder": self.disk_dir,
            "piece_bytes": _core.piece_bytes(budget_bytes),
            "has_checksums": self.disk_checksums,
        }

    @property
    def codes_on_host(self) -> bool:
        """Whether copies to the host may be compressed."""
        return self.host_codes and not self.has_homes_on_disk

    def machine(self) -> _core.Machine:
        """The machine that plans are for, without homes on disk."""
        return _core.machine(
            threads=torch.get_num_threads(),
            host_bytes=self.host_budget_bytes,
            host_link=self.host_link,
            disk_bytes=self.disk_budget_bytes,
            disk_link=self.disk_link,
            codecs=self.codecs,
        )

    def open_homes(self, device: Any, budget_bytes: int, options: dict[str, Any]) -> Any:
        """_core.Homes with these tiers. Raises DiskError if the disk has no room for homes."""
        options |= {
            "host_bytes": self.host_budget_bytes or self.disk_homes_bytes,
            "has_homes_on_disk": self.has_homes_on_disk,
            "disk_bytes": self.disk_budget_bytes - self.disk_homes_bytes,
            "disk": self.file(budget_bytes),
        }
        try:
            with contextlib.suppress(_core.CoreError):
                return _core.Homes(device, options)
            gc.collect()  # Frees the arenas of dropped steps, which are in reference cycles.
            return _core.Homes(device, options)
        except _core.CoreError as error:
            if not self.has_homes_on_disk:
                raise
            raise unusable(str(error.args[1])) from None

    def reserve(self, homes: Any, plans: list[Any]) -> None:
        """Reserves the file's blocks for the largest plan. Raises DiskError if the disk is full."""
        needed = max((plan.offloaded()["disk_bytes"] for plan in plans), default=0)
        if not 0 < needed <= self.disk_budget_bytes - self.disk_homes_bytes:
            return  # The verifier refuses a plan that needs more.
        try:
            homes.reserve_disk(needed)
        except _core.CoreError as error:
            raise unusable(str(error.args[1])) from None

    def tiers_of(self, offloaded: dict[str, int]) -> dict[str, int]:
        """What a plan copies and holds on each tier, in the user's words: homes on disk count as
        the disk's."""
        if not self.has_homes_on_disk:
            return offloaded
        return {
            "evicted_bytes": 0,
            "prefetched_bytes": 0,
            "host_bytes": 0,
            "disk_written_bytes": offloaded["disk_written_bytes"] + offloaded["evicted_bytes"],
            "disk_read_bytes": offloaded["disk_read_bytes"] + offloaded["prefetched_bytes"],
            "disk_bytes": offloaded["disk_bytes"] + self.disk_homes_bytes,
        }

    def look(self, homes: Any) -> None:
        """Reads the traffic counters."""
        self.host_pageable = homes.why_pageable()
        if not self.has_homes_on_disk:
            self.evicted_bytes, self.prefetched_bytes = homes.host_traffic()
        traffic = homes.disk_traffic()
        if traffic is not None:
            self.disk_written_bytes, self.disk_read_bytes, self.is_direct = traffic


def check_joins(given: Settings, of: Settings, below: Below, budget_bytes: int) -> None:
    """Raises BudgetError if a budget, folder or switch is given that the open arena has not."""
    _check_one("budget", given.budget, of.budget, budget_bytes)
    _check_one("host_budget", given.host_budget, of.host_budget, below.host_budget_bytes)
    _check_one("disk_budget", given.disk_budget, of.disk_budget, below.disk_budget_bytes)
    if given.disk_dir is not None and os.path.abspath(given.disk_dir) != below.disk_dir:
        raise BudgetError(
            f"disk_dir={os.fspath(given.disk_dir)!r}, but this model has an earlier compiled step "
            f"with disk_dir={below.disk_dir!r}",
            todo="leave disk_dir= out, pass the same one, or close() the earlier step first",
        )
    _check_switches(given, of)


def _check_switches(given: Settings, of: Settings) -> None:
    """Raises BudgetError for a switch that is neither its default nor that of the arena."""
    for name, default in _SWITCHES.items():
        asked, has = getattr(given, name), getattr(of, name)
        if asked not in (default, has):
            raise BudgetError(
                f"{name}={asked}, but this model has an earlier compiled step with {name}={has}",
                todo=f"leave {name}= out, or close() the earlier step first",
            )


def _check_one(
    name: str, given: Budget | None, of_session: Budget | None, of_session_bytes: int
) -> None:
    if given is None or (of_session is not None and is_same(name, given, of_session)):
        return
    asked = written(name, given)
    if asked.bytes and asked.bytes == of_session_bytes:
        return
    raise BudgetError(
        f"{name}={given!r}, but this model has an earlier compiled step with {name}="
        f"{_core.format_bytes(of_session_bytes)}",
        todo=f"leave {name}= out, pass the same one, or close() the earlier step first",
    )


def unusable(problem: str) -> DiskError:
    """The DiskError for a `disk_dir` that cannot hold the file."""
    return DiskError(
        problem,
        todo="pass another disk_dir=, make room there, or leave disk_budget= out; nothing was "
        "changed",
    )
