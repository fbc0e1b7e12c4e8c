"""step.report(): memory, time and copies of every variant of a compiled step."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from dataclasses import InitVar, asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _core
from ..base.describe import counted, format_seconds
from ..errors import FitstepError
from ..pictures.page import as_frame
from ..pictures.snapshot import save_memory_snapshot
from .pages import chosen, html_of, pictured_of

if TYPE_CHECKING:
    from ..follow.variants import Variant
    from ..memory.session import Session
    from ..pictures.picture import Pictured
    from .programs import Programs

_CODED_LINES = 5


class SavedText:
    """The text form of a program or a plan, which `save` writes to a file."""

    def __init__(self, what: str, text: Callable[[], str]) -> None:
        self._what = what
        self._text = text

    def save(self, path: str | Path) -> None:
        """Writes the text. `fitstep show` and `fitstep verify` read the file without PyTorch."""
        Path(path).write_text(self._text(), encoding="utf-8")

    def __str__(self) -> str:
        return self._text()

    def __repr__(self) -> str:
        return f"<fitstep {self._what}>"


@dataclass
class CodedCopy:
    """A compressed copy to the host or the disk, as of the last step that made one."""

    name: str
    tier: str  # "host" or "disk".
    code: str  # "zero_value" or "zstd".
    size_bytes: int
    written_bytes: int  # Compressed; to the disk in whole blocks. As many are read back.


@dataclass
class PackedValue:
    """A saved tensor that the arena holds packed until the backward pass reads it."""

    name: str
    code: str  # Name of the operator that packs it.
    size_bytes: int
    packed_bytes: int


@dataclass
class VariantReport:
    """One variant. `..._bytes` and `..._s` (seconds) are of one step."""

    label: str
    ops: int
    kept_ops: int  # Ops that run once in a step; nothing recomputes their results.
    recomputed_ops: int  # Runs of ops beyond the first.
    packed: list[PackedValue]  # Saved tensors that the arena holds packed.
    evicted_bytes: int  # Copied to the host tier, after compression.
    prefetched_bytes: int  # Copied back from there, after decompression.
    host_tier_bytes: int  # Size that the host tier must have for this plan.
    disk_written_bytes: int  # Copied to the disk tier, after compression.
    disk_read_bytes: int  # Copied back from there, after decompression.
    disk_tier_bytes: int  # Size that the disk tier must have for this plan.
    coded_copies: list[CodedCopy]  # Copies to the host or the disk that are compressed.
    floor_bytes: int  # Proven: no plan of this variant has an arena below this.
    peak_bytes: int  # The most that live storages of the arena have at once.
    height_bytes: int  # The arena that the plan needs; above the peak where gaps stay free.
    external_bytes: int  # Inputs, outputs and constants, which are outside the arena.
    total_bytes: int  # Held by the step: height, external, reserve, small tensors, staging, GPU.
    predicted_s: float
    bound_s: float  # Proven: no plan with the same moves is predicted faster.
    bound: str  # Which bound `bound_s` is.
    runs: int
    measured_s: float | None  # Median of the last 1,000 runs; on a GPU from step to step.
    moves: str = ""  # What the policy did, for example "recompute".
    graph_runs: int = 0  # Runs that the GPU got as one CUDA graph.
    graph_refusal: str = ""  # With cuda_graph=True: why other runs were not one graph.
    left_out: list[str] = field(default_factory=list)  # Forms of ops that could not run, and why.


@dataclass
class Report:
    """What `step.report()` returns. `print` it, draw it by `to_html(path)`, or call `to_json()`. In
    a notebook, a cell that ends with it shows the page."""

    budget_bytes: int
    plain_peak_bytes: int  # What plain PyTorch needs.
    home_bytes: int  # In the arena: parameters, buffers and optimizer state, between steps too.
    reserve_bytes: int  # In the arena: for requests of kernels that the profile did not see.
    outside_bytes: int  # Part of the budget: what a GPU holds beside tensors.
    small_tensor_bytes: int  # Part of the budget, beside the arena: for optimizers' own numbers.
    host_budget_bytes: int  # The host tier, beside the budget; 0 without one.
    evicted_bytes: int  # Copied to the host tier in all steps.
    prefetched_bytes: int  # Copied back from there in all steps.
    host_pageable: str  # Why a GPU's host tier is not pinned, so copies are slower; "" if it is.
    disk_budget_bytes: int  # The disk tier, beside the budget; 0 without one.
    disk_homes_bytes: int  # Part of the disk budget: parameters and state that live there.
    disk_dir: str
    disk_is_direct: bool | None  # Whether copies bypass the page cache; None before the first copy.
    disk_written_bytes: int  # In all steps, in whole blocks: the wear of the drive.
    disk_read_bytes: int  # In all steps.
    staging_bytes: int  # Part of the budget: for copies on their way to the disk tier and back.
    floor_bytes: int  # Proven: no budget below this works.
    unforeseen_requests: int  # Requests of kernels that the profile did not see.
    unforeseen_bytes: int
    violations: int  # Requests of kernels that ordinary memory served.
    misplaced_results: int  # Results of kernels that were copied to their planned addresses.
    audited_calls: int  # Calls that plain PyTorch computed too, with equal bits.
    audit_s: float  # Seconds that audits took beside these calls.
    audit_left_out: str  # Why the last audit that was due was skipped; "" if it was not.
    variants: list[VariantReport] = field(default_factory=list)
    pictured: InitVar[Sequence[Pictured]] = ()  # The programs and plans, for pictures.

    def __post_init__(self, pictured: Sequence[Pictured]) -> None:
        self._pictured = list(pictured)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pictured": []}  # Plans stay in the process that trains.

    def to_json(self) -> str:
        """All numbers, as JSON."""
        return json.dumps(asdict(self), indent=2)

    def to_html(self, path: str | Path, *, curve: Any = None) -> None:
        """Writes the report as one HTML file with charts, which needs no network.

        `curve`: what `fitstep.curve` returned for this step; its plans are drawn beside this one.
        Raises FitstepError if the package bokeh is missing or the step has no program, OSError if
        the file cannot be written.
        """
        page = html_of(self, self._pictured, curve)
        Path(path).write_text(page, encoding="utf-8")

    def save_memory_snapshot(self, path: str | Path, variant: int | None = None) -> None:
        """Writes the plan in the form of `torch.cuda.memory._dump_snapshot`, for
        https://pytorch.org/memory_viz. All of it is predicted.

        `variant`: a place in `variants`; None: the program that ran most. Raises FitstepError if
        there is none, OSError if the file cannot be written.
        """
        save_memory_snapshot(path, chosen(self, self._pictured, variant))

    def save_trace(self, path: str | Path, variant: int | None = None) -> None:
        """Writes the simulated step as a trace for https://ui.perfetto.dev: one track for each
        lane, and the bytes on the device. Arguments and errors as of `save_memory_snapshot`."""
        text = chosen(self, self._pictured, variant).trace()
        Path(path).write_text(text, encoding="utf-8")

    def _repr_html_(self) -> str:
        """What notebooks show: the page in a frame, or the text where it cannot be drawn."""
        try:
            return as_frame(html_of(self, self._pictured))
        except FitstepError as error:
            note = "\n".join(str(part) for part in error.args)
            return f"<pre>{html.escape(str(self))}\n\n{html.escape(note)}</pre>"

    def __str__(self) -> str:
        size = _core.format_bytes
        share = 100 * self.budget_bytes / max(self.plain_peak_bytes, 1)
        lines = [
            f"budget {size(self.budget_bytes)} ({share:.0f} % of the plain peak "
            f"{size(self.plain_peak_bytes)}), floor {size(self.floor_bytes)}",
            f"homes {size(self.home_bytes)}, reserve {size(self.reserve_bytes)}, small "
            f"tensors {size(self.small_tensor_bytes)}; unforeseen requests "
            f"{self.unforeseen_requests}, violations {self.violations}, results copied to their "
            f"planned addresses {self.misplaced_results}",
        ]
        if self.audited_calls or self.audit_left_out:
            why = f"; left out: {self.audit_left_out}" if self.audit_left_out else ""
            have = "has" if self.audited_calls == 1 else "have"
            lines.append(
                f"audits {counted(self.audited_calls, 'call')} {have} plain PyTorch's bits, "
                f"checked in {self.audit_s:.3g} s{why}"
            )
        if self.outside_bytes:
            lines.append(f"GPU    holds {size(self.outside_bytes)} beside tensors, in the budget")
        if self.host_budget_bytes:
            lines.append(
                f"host   evicted {size(self.evicted_bytes)}, prefetched "
                f"{size(self.prefetched_bytes)} so far"
                + (f"; pageable: {self.host_pageable}" if self.host_pageable else "")
            )
        if self.disk_budget_bytes:
            how = {None: "", True: " (no page cache)", False: " (through the page cache)"}
            lines.append(
                f"disk   written {size(self.disk_written_bytes)}, read "
                f"{size(self.disk_read_bytes)} so far in {self.disk_dir}"
                f"{how[self.disk_is_direct]}; staging {size(self.staging_bytes)}"
                + (f", homes {size(self.disk_homes_bytes)}" if self.disk_homes_bytes else "")
            )
        for one in self.variants:
            measured = "not run" if one.measured_s is None else format_seconds(one.measured_s)
            lines.append(
                f"{one.label}: {one.ops} ops, {one.kept_ops} kept, "
                f"{one.recomputed_ops} recomputed; {counted(one.runs, 'run')}"
            )
            if one.moves:
                lines.append(f"  plan   {one.moves}")
            lines += _packed_lines(one.packed)
            if self.host_budget_bytes:
                lines.append(
                    f"  host   evicted {size(one.evicted_bytes)}, prefetched "
                    f"{size(one.prefetched_bytes)}, at most {size(one.host_tier_bytes)} of "
                    f"{size(self.host_budget_bytes)} held there"
                )
            if self.disk_budget_bytes:
                lines.append(
                    f"  disk   written {size(one.disk_written_bytes)}, read "
                    f"{size(one.disk_read_bytes)}, at most {size(one.disk_tier_bytes)} of "
                    f"{size(self.disk_budget_bytes)} held there"
                )
            lines += _coded_lines(one.coded_copies)
            if one.graph_runs or one.graph_refusal:
                why = f"; the others op by op: {one.graph_refusal}" if one.graph_refusal else ""
                lines.append(f"  graph  {counted(one.graph_runs, 'run')} as one CUDA graph{why}")
            lines += [f"  unused {why}" for why in one.left_out]
            lines += [
                f"  bytes  peak {size(one.peak_bytes)}, height {size(one.height_bytes)}, "
                f"inputs and outputs {size(one.external_bytes)}, total {size(one.total_bytes)}",
                f"  time   predicted {format_seconds(one.predicted_s)}, measured {measured}, "
                f"bound {format_seconds(one.bound_s)} ({one.bound})",
            ]
        return "\n".join(lines)


def _coded_lines(copies: list[CodedCopy]) -> list[str]:
    """What compression of copies saved, the largest saving first."""
    if not copies:
        return []
    size = _core.format_bytes
    whole, written = sum(c.size_bytes for c in copies), sum(c.written_bytes for c in copies)
    tiers = " and ".join(sorted({f"the {c.tier}" for c in copies}))
    return [
        f"  codes  {counted(len(copies), 'value')}, {size(written)} written to {tiers} of "
        f"{size(whole)}",
        *_most_saved([(c.name, c.code, c.size_bytes, c.written_bytes) for c in copies]),
    ]


def _packed_lines(values: list[PackedValue]) -> list[str]:
    """What packing in the arena saved, the largest saving first."""
    if not values:
        return []
    saved = _core.format_bytes(sum(v.size_bytes - v.packed_bytes for v in values))
    return [
        f"  packed {counted(len(values), 'value')}, {saved} less until they are read",
        *_most_saved([(v.name, v.code, v.size_bytes, v.packed_bytes) for v in values]),
    ]


def _most_saved(values: list[tuple[str, str, int, int]]) -> list[str]:
    """One line for each (name, code, bytes, bytes in the code) of the largest savings."""
    size = _core.format_bytes
    most = sorted(values, key=lambda value: value[3] - value[2])
    lines = [
        f"         {name}: {size(coded)} of {size(whole)} ({code})"
        for name, code, whole, coded in most[:_CODED_LINES]
    ]
    if len(most) > _CODED_LINES:
        lines.append(f"         and {len(most) - _CODED_LINES} more")
    return lines


def _variant_report(variant: Variant, session: Session) -> VariantReport:
    planned, measured = variant.planned, variant.measured
    assert planned is not None
    certificate = planned.plan.certificate()
    external = planned.external_bytes
    kept, recomputed = planned.plan.run_counts(variant.step)
    offloaded = session.planning.below.tiers_of(planned.plan.offloaded())
    packed = [PackedValue(*value) for value in planned.plan.packed(variant.step)]
    core = planned.variant
    graph = core.graph() if core is not None else None
    coded = [CodedCopy(*copy) for copy in core.coded_copies()] if core is not None else []
    saved = {"host": 0, "disk": 0}
    for copy in coded:
        saved[copy.tier] += copy.size_bytes - copy.written_bytes
    return VariantReport(
        label=variant.label,
        ops=variant.step.op_count() - variant.step.optional_op_count() + len(packed),
        kept_ops=kept,
        recomputed_ops=recomputed,
        packed=packed,
        evicted_bytes=offloaded["evicted_bytes"] - saved["host"],
        prefetched_bytes=offloaded["prefetched_bytes"],
        host_tier_bytes=offloaded["host_bytes"],
        disk_written_bytes=offloaded["disk_written_bytes"] - saved["disk"],
        disk_read_bytes=offloaded["disk_read_bytes"],
        disk_tier_bytes=offloaded["disk_bytes"],
        coded_copies=coded,
        floor_bytes=certificate["floor_bytes"],
        peak_bytes=certificate["peak_bytes"],
        height_bytes=certificate["height_bytes"],
        external_bytes=external,
        total_bytes=certificate["height_bytes"] + external + session.planning.around_bytes,
        predicted_s=certificate["predicted_s"],
        bound_s=certificate["bound_s"],
        bound=certificate["bound"],
        runs=measured.runs if measured else 0,
        measured_s=measured.typical_s() if measured else None,
        moves=certificate["moves"],
        graph_runs=graph[0] if graph else 0,
        graph_refusal=graph[1] if graph else "",
        left_out=variant.step.left_out(),
    )


def make_report(programs: Programs) -> Report:
    session, audits = programs.session, programs.audits
    counters = session.counters()
    reports: list[VariantReport] = []
    misplaced = 0
    planning = session.planning
    around, below = planning.around_bytes, planning.below
    session.look_below()
    parts = planning.split()
    for variant in programs.variants:
        assert variant.planned is not None
        core = variant.planned.variant
        misplaced += core.misplaced() if core is not None else 0
        reports.append(_variant_report(variant, session))
    return Report(
        budget_bytes=planning.budget_bytes,
        plain_peak_bytes=programs.plain_peak_bytes,
        home_bytes=session.bottom_bytes,
        reserve_bytes=parts.reserve_bytes,
        outside_bytes=planning.outside_bytes,
        small_tensor_bytes=parts.small_tensor_bytes,
        host_budget_bytes=below.host_budget_bytes,
        evicted_bytes=below.evicted_bytes,
        prefetched_bytes=below.prefetched_bytes,
        host_pageable=below.host_pageable,
        disk_budget_bytes=below.disk_budget_bytes,
        disk_homes_bytes=below.disk_homes_bytes,
        disk_dir=below.disk_dir,
        disk_is_direct=below.is_direct,
        disk_written_bytes=below.disk_written_bytes,
        disk_read_bytes=below.disk_read_bytes,
        staging_bytes=parts.staging_bytes,
        floor_bytes=max((r.floor_bytes + r.external_bytes for r in reports), default=0) + around,
        unforeseen_requests=counters["unforeseen"],
        unforeseen_bytes=counters["unforeseen_bytes"],
        violations=counters["violations"],
        misplaced_results=misplaced,
        audited_calls=audits.audited_calls,
        audit_s=audits.seconds,
        audit_left_out=audits.why_not,
        variants=reports,
        pictured=pictured_of(programs.variants, planning),
    )
