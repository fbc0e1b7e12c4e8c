"""Picture: what one plan does in one simulated step, as rows.

_core.picture(plan, program, machine) --> ops, storages, spans of lanes, blocks of bytes, choices
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from .. import _core

COMPUTE = "compute"
SECOND_PS = 10**12


class OpRow(NamedTuple):
    """An op of the program."""

    name: str
    kind: str
    module: str
    file: str
    line: int
    plain_ps: int  # Time of the form that plain PyTorch runs.
    is_optional: bool  # Packs a value; plain PyTorch does not run it.


class StorageRow(NamedTuple):
    """A storage of the program."""

    name: str
    size_bytes: int
    kind: str  # As in program files, for example "parameter".
    byte_kind: str  # The band of the chart, one of `words.BANDS`.


class SpanRow(NamedTuple):
    """A run of an op or a copy; times from the start of the step."""

    lane: str
    position: int
    begin_ps: int
    end_ps: int
    stall_ps: int  # The lane waited so long before it.
    op: int  # -1: a copy.
    form: str
    storage: int  # What a copy copies; -1: no copy.
    is_again: bool  # A recompute.


class BlockRow(NamedTuple):
    """Bytes of the arena that a storage or a kernel's scratch holds for some time."""

    storage: int  # -1: scratch.
    begun_lane: str
    begun_position: int  # -1: held before the step.
    ended_lane: str
    ended_position: int  # -1: held after the step.
    offset_bytes: int
    size_bytes: int
    begin_ps: int
    end_ps: int
    opened: int  # Places in the order of all openings and closings.
    closed: int


class ChoiceRow(NamedTuple):
    """What the plan decided for a storage."""

    storage: int
    choice: str  # "home", "brief", "keep", "recompute" or "offload".
    maker: int  # The op that makes it; -1: none.
    gap_ps: int  # Longest time between two uses.
    before: int  # The ops around this gap; -1: no gap.
    after: int
    again_ps: int | None  # Time to recompute it; None: not possible.
    recomputes: int
    recompute_ps: int
    copies: int
    copied_bytes: int
    is_on_disk: bool


@dataclass(eq=False)
class Pictured:
    """One program of a step, with the plan that runs it and the machine it was made for."""

    label: str
    step: _core.StepProgram
    plan: _core.Plan
    machine: _core.Machine

    @cached_property
    def picture(self) -> Picture:
        return Picture.of(self.plan, self.step, self.machine)

    def trace(self) -> str:
        """JSON in the Trace Event Format, for Perfetto."""
        return _core.trace(self.plan, self.step, self.machine)

    def simpler(self, policy: str, seed: int = 1) -> Picture | None:
        """The picture of another policy's plan, with all tensors on the device and no limit of
        bytes; None without one. Predicted only: this plan never runs."""
        plan = _core.plan_by(self.step, policy, seed)
        return Picture.of(plan, self.step, _core.Machine(1)) if plan is not None else None


@dataclass(eq=False)
class Picture:
    """All rows of one simulated step."""

    total_ps: int
    peak_bytes: int  # The most bytes of the arena that are live at once.
    height_bytes: int  # The arena that the plan needs.
    ops: list[OpRow]
    storages: list[StorageRow]
    spans: list[SpanRow]  # In order of begin.
    blocks: list[BlockRow]  # Homes first, then in order of `opened`.
    choices: dict[int, ChoiceRow]  # By storage.
    compute_use: dict[str, int]  # Picoseconds of the compute lane by purpose.
    plain_bytes: list[int]  # What plain PyTorch holds at most during each op.
    spans_at: dict[tuple[str, int], SpanRow]

    @staticmethod
    def of(plan: _core.Plan, step: _core.StepProgram, machine: _core.Machine) -> Picture:
        rows: dict[str, Any] = _core.picture(plan, step, machine)
        spans = [SpanRow(*row) for row in rows["spans"]]
        return Picture(
            total_ps=rows["total_ps"],
            peak_bytes=rows["peak_bytes"],
            height_bytes=plan.certificate()["height_bytes"],
            ops=[OpRow(*row) for row in rows["ops"]],
            storages=[StorageRow(*row) for row in rows["storages"]],
            spans=spans,
            blocks=[BlockRow(*row) for row in rows["blocks"]],
            choices={row[0]: ChoiceRow(*row) for row in rows["choices"]},
            compute_use=rows["compute_use"],
            plain_bytes=rows["plain_bytes"],
            spans_at={(span.lane, span.position): span for span in spans},
        )

    def op_of(self, block: BlockRow) -> int:
        """The op whose run begins a block; -1: a copy does, or it was there before the step."""
        span = self.spans_at.get((block.begun_lane, block.begun_position))
        return -1 if span is None else span.op

    def band_of(self, block: BlockRow) -> str:
        """The band of the chart in which a block's bytes are."""
        return "workspace" if block.storage < 0 else self.storages[block.storage].byte_kind

    @property
    def plain_ps(self) -> int:
        """Predicted time of plain PyTorch: every op once, with the same measured times."""
        return sum(op.plain_ps for op in self.ops if not op.is_optional)
