"""The profile on disk: measured times of operators, copies and codes. There is one JSON file for
each combination of machine, build of torch, build of fitstep and settings of kernels.

Of two processes that measure the same at the same time, the second takes over what the first has
written. So a budget that one compile names has a plan in the next compile, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from filelock import FileLock  # torch requires it.

from .. import _core
from ..base.ambient import ambient
from ..base.describe import describe
from ..errors import BudgetTooSmall, CaptureError, FitstepError
from .device import free_bytes_of, open_device, settings_of

if TYPE_CHECKING:
    from .session import Session

_FORMAT = 4
_LEAST_BLOCK_BYTES = 1 << 14
_SECONDS_FOR_LOCK = 5.0  # Then the file stays as it is.
_SECONDS_BETWEEN_WRITES = 10.0  # For programs that calls make: a write saves the whole profile.
_CODED_BYTES = 1 << 22  # Pinned bytes that measuring codes on a GPU needs.
_MOST_BLOCK_BYTES = 1 << 25
_LEAST_FILE_BYTES = 1 << 20
_MOST_FILE_BYTES = 1 << 27


def default_folder() -> Path:
    """$FITSTEP_CACHE, else $XDG_CACHE_HOME/fitstep, else ~/.cache/fitstep."""
    given = os.environ.get("FITSTEP_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fitstep"


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def build() -> tuple[int, int]:
    """Size and time of fitstep's own module: measured facts hold for this build only."""
    file = os.stat(_core.__file__)
    return file.st_size, file.st_mtime_ns


def _texts(found: object) -> dict[str, str]:
    if not isinstance(found, dict):
        return {}
    return {k: v for k, v in found.items() if isinstance(k, str) and isinstance(v, str)}


class TooLarge(BudgetTooSmall):
    """One operator alone needs more than the budget, so nothing was measured."""

    plain_peak_bytes = 0


class ProfileCache:
    """Measurements of operators, kept from process to process.

    A damaged file, or one in another format, is ignored: everything in it can be measured again.
    No program is measured that has an operator larger than the free memory, or, if
    `keeps_to_budget`, than the budget.
    """

    keeps_to_budget = False

    def __init__(self, device: torch.device | None = None, folder: Path | None = None) -> None:
        self._torch_device = device
        self._under = {ambient(): self}
        self.device: Any = open_device(device or torch.device("cpu"))
        self.profile: Any = _core.Profile()
        self.progress: Callable[[str, float], None] | None = None
        key = "\n".join(
            str(part)
            for part in (
                _FORMAT,
                build(),
                _processor(),
                torch.__version__,
                torch.__config__.show(),
                ambient(),
                torch.backends.cpu.get_cpu_capability(),
                os.environ.get("ONEDNN_MAX_CPU_ISA"),
                os.environ.get("MKL_CBWR"),
                *settings_of(device or torch.device("cpu")),
            )
        )
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        self.path = (folder or default_folder()) / f"profile-{name}.json"
        self._known, self._host_links, self._disk_links, self._codecs = self._read()
        self._written = time.monotonic()
        self.profile.load(self._known)

    def under(self, settings: tuple[object, ...]) -> ProfileCache:
        """The cache for `settings`, which torch has now."""
        found = self._under.get(settings)
        if found is None:
            found = self._under[settings] = ProfileCache(self._torch_device)
            found._under, found.keeps_to_budget = self._under, self.keeps_to_budget
        return found

    def _read(self) -> tuple[dict[str, str], ...]:
        """The file's measurements of operators, host copies, disk copies and codes."""
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}, {}, {}, {}
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            return {}, {}, {}, {}
        links = [
            {of: link for of, link in _texts(content.get(name)).items() if _core.is_link(link)}
            for name in ("host_links", "disk_links")
        ]
        codecs = _texts(content.get("codecs"))
        codecs = {of: text for of, text in codecs.items() if _core.has_codecs(text)}
        return _texts(content.get("calls")), links[0], links[1], codecs

    def host_link(self, host_budget_bytes: int) -> str:
        """The measured cost of copies to the host tier, as text for the planner.

        Measuring takes five blocks, which together fit into the host budget.
        """
        eighth = max(host_budget_bytes // 8, _LEAST_BLOCK_BYTES)
        block_bytes = min(1 << (eighth.bit_length() - 1), _MOST_BLOCK_BYTES)
        threads = torch.get_num_threads()
        of = f"{block_bytes}, beside {threads} threads"
        known = self._host_links.get(of)
        if known is None:
            known = str(self.device.measure_link(threads, block_bytes))
            if not self.device.can_lock(block_bytes):  # Another process may be able to.
                return known
            self._host_links[of] = known
            self._share()
        return self._host_links[of]

    def disk_link(self, disk_budget_bytes: int, file: dict[str, Any]) -> str:
        """The measured cost of copies to the disk tier, as text for the planner.

        `file`: the options of the tier's file. Measuring takes a quarter of the disk budget, about
        a second, and at most 1 GiB of writes. Raises CoreError or OSError if the drive fails.
        """
        eighth = max(disk_budget_bytes // 8, _LEAST_FILE_BYTES)
        file_bytes = min(1 << (eighth.bit_length() - 1), _MOST_FILE_BYTES)
        block_bytes = min(file_bytes // 4, _MOST_BLOCK_BYTES // 8)
        drive = os.stat(file["folder"]).st_dev
        threads = torch.get_num_threads()
        of = f"drive {drive}, {file_bytes} {file['piece_bytes']}, {file['has_checksums']}"
        of += f", beside {threads} threads"
        known = self._disk_links.get(of)
        if known is None:
            known = _core.measure_disk_link(threads, file, file_bytes, block_bytes)
            self._disk_links[of] = known
            self._share()
        return self._disk_links[of]

    def codecs(self, piece_bytes: int) -> str:
        """The measured cost of codes (compression), as text for the planner. Measuring takes a
        fraction of a second."""
        threads = torch.get_num_threads()
        of = f"{piece_bytes} bytes, beside {threads} threads"
        known = self._codecs.get(of)
        if known is None:
            known = str(self.device.measure_codecs(threads, piece_bytes))
            if not self.device.can_lock(_CODED_BYTES):
                return known
            self._codecs[of] = known
            self._share()
        return self._codecs[of]

    def lower(self, recorder: Any, session: Session) -> Any:
        """The StepProgram of a recording, after measuring its operators in memory that the
        session's arena has free between steps. Raises CaptureError; TooLarge for an operator that
        is larger than the budget and the free memory; FitstepError for one that is larger than the
        free memory alone."""

        def show(done: int, every: int) -> None:
            if self.progress is not None:
                self.progress("profiling", done / max(every, 1))

        with contextlib.suppress(_core.CoreError):  # session.lower() raises it.
            self._check_sizes(_core.lower(recorder), session)
        try:
            return session.lower(recorder, self.profile, show)
        except _core.CoreError as error:
            raise CaptureError(
                str(error.args[1]),
                todo="replace this operator, which cannot be part of a step, or report it",
            ) from None

    def _check_sizes(self, step: Any, session: Session) -> None:
        planning, peak_bytes = session.planning, step.plain_peak_bytes()
        op, size_bytes = step.largest_access()
        is_open = session.arena.is_open  # Then it measures in the arena, and nowhere else.
        budget_bytes = planning.budget_bytes if is_open else planning.asked_bytes(peak_bytes)
        free_bytes = max(free_bytes_of(planning.device), budget_bytes if is_open else 0)
        if size_bytes <= (min(budget_bytes, free_bytes) if self.keeps_to_budget else free_bytes):
            return
        culprit = describe(step, (op, size_bytes))
        if size_bytes > budget_bytes:
            large = TooLarge(budget_bytes, size_bytes, None, [culprit])
            large.plain_peak_bytes = peak_bytes
            raise large
        raise FitstepError(
            f"{culprit} at once, more than the {_core.format_bytes(free_bytes)} of memory that are "
            "free, so fitstep cannot measure it",
            todo="free memory, or make the batch smaller",
        )

    def write(self, *, at_once: bool = True) -> bool:
        """Writes what is new to disk, of all settings; without `at_once` at most every 10 s. If the
        folder is not writable, the next process measures again.

        Returns whether another process had measured the same operators in between: the profile has
        its times now, so what was lowered with the old ones must be lowered again.
        """
        took_over = [one._write_new(at_once) for one in self._under.values()]  # Each writes.
        return any(took_over)

    def _write_new(self, at_once: bool) -> bool:
        is_time = at_once or time.monotonic() - self._written >= _SECONDS_BETWEEN_WRITES
        return is_time and self.profile.save() != self._known and self._share()

    def _share(self) -> bool:
        """Adds what is new to the file, and takes over what the file had before. Returns whether
        that changes what the profile says of an operator."""
        before = self.profile.save()
        self._known, self._written = before, time.monotonic()
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_suffix(".lock"), timeout=_SECONDS_FOR_LOCK):
                calls, host_links, disk_links, codecs = self._read()
                self.profile.load(calls)
                self._known = self.profile.save()  # Without what it could not read.
                self._host_links |= host_links
                self._disk_links |= disk_links
                self._codecs |= codecs
                self._write()
        return any(self._known[call] != measured for call, measured in before.items())

    def _write(self) -> None:
        content = {
            "format": _FORMAT,
            "calls": self._known,
            "host_links": self._host_links,
            "disk_links": self._disk_links,
            "codecs": self._codecs,
        }
        handle, name = tempfile.mkstemp(dir=self.path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(name, self.path)
