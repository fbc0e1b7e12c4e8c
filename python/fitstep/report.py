"""Predicted against measured, for every variant of a compiled step."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from . import _core

if TYPE_CHECKING:
    from .programs import Programs
    from .session import Session
    from .variants import Variant

_CODED_LINES = 5


class SavedText:
    """A program or a plan, for saving it to a file."""

    def __init__(self, what: str, text: Callable[[], str]) -> None:
        self._what = what
        self._text = text

    def save(self, path: str | Path) -> None:
        """Writes the text form; `fitstep show` and `fitstep verify` read it without PyTorch."""
        Path(path).write_text(self._text(), encoding="utf-8")

    def __str__(self) -> str:
        return self._text()

    def __repr__(self) -> str:
        return f"<fitstep {self._what}>"


@dataclass
class CodedCopy:
    """A value that was copied to a tier below in a code, in the last step that did so."""

    name: str
    tier: str  # "host" or "disk".
    code: str  # "zero_value" or "zstd".
    size_bytes: int
    written_bytes: int  # To the disk in whole blocks; read back, too.


@dataclass
class PackedValue:
    """A value that is held in fewer bytes of the arena from its last whole use until it is read."""

    name: str
    code: str  # The operator that packs it: what the bytes are is in its documentation.
    size_bytes: int
    packed_bytes: int


@dataclass
class VariantReport:
    """One variant. Bytes unless said otherwise; seconds are of one step."""

    label: str
    ops: int
    kept_ops: int  # Run once; their results stay until nobody reads them any more.
    recomputed_ops: int  # Runs beyond the first.
    packed: list[PackedValue]  # Held in fewer bytes while nobody needs all of them.
    evicted_bytes: int  # Copied to the host tier in one step, in codes where these are used,
    prefetched_bytes: int  # and from there, decoded.
    host_tier_bytes: int  # What the host tier must hold for it.
    disk_written_bytes: int  # Copied to the disk tier in one step, in codes where these are used,
    disk_read_bytes: int  # and from there, decoded.
    disk_tier_bytes: int  # What the disk tier must hold for it.
    coded_copies: list[CodedCopy]  # Those to tiers below that are made in a code.
    floor_bytes: int
    peak_bytes: int
    height_bytes: int
    external_bytes: int
    total_bytes: int  # What the step holds: height, inputs, outputs, constants, reserve.
    predicted_s: float
    bound_s: float
    bound: str
    runs: int
    measured_s: float | None  # Median of the last 1,000 runs; on a GPU from step to step.
    moves: str = ""  # What the policy did.
    graph_runs: int = 0  # Of the runs, those that went to the GPU as one graph.
    graph_refusal: str = ""  # Why others did not, where that was asked for.
    left_out: list[str] = field(default_factory=list)  # Ways whose test failed, and how.


@dataclass
class Report:
    """What `step.report()` returns. `print` it, or take `to_json()`."""

    budget_bytes: int
    plain_peak_bytes: int
    home_bytes: int
    reserve_bytes: int
    outside_bytes: int  # What a GPU holds beside tensors, which counts in the budget.
    host_bytes: int  # Allowed beside the arena, for the optimizers' own numbers.
    host_budget_bytes: int  # Of the host tier, beside the budget; 0 without one.
    evicted_bytes: int  # Copied to the host tier in all steps,
    prefetched_bytes: int  # and from there.
    host_pageable: str  # Why a GPU's host tier is not page-locked: copies are slower; "" if it is.
    disk_budget_bytes: int  # Of the disk tier; 0 without one.
    disk_homes_bytes: int  # Of that, for homes.
    disk_dir: str
    disk_is_direct: bool | None  # Whether copies go past the page cache; None before there are any.
    disk_written_bytes: int  # In all steps, in whole blocks: what wears the drive.
    disk_read_bytes: int
    staging_bytes: int  # Of the budget, for what is on its way to the disk tier and back.
    floor_bytes: int  # No budget below this can work.
    unforeseen_requests: int
    unforeseen_bytes: int
    violations: int
    misplaced_results: int
    audited_calls: int  # Of the calls, those that plain PyTorch has made too, with equal bits,
    audit_s: float  # what that took beside them,
    audit_left_out: str  # and why the last one that was due was left out; "" if it was not.
    variants: list[VariantReport] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        size = _core.format_bytes
        share = 100 * self.budget_bytes / max(self.plain_peak_bytes, 1)
        lines = [
            f"budget {size(self.budget_bytes)} ({share:.0f} % of the plain peak "
            f"{size(self.plain_peak_bytes)}), floor {size(self.floor_bytes)}",
            f"homes {size(self.home_bytes)}, reserve {size(self.reserve_bytes)}, host "
            f"{size(self.host_bytes)}; unforeseen requests {self.unforeseen_requests}, violations "
            f"{self.violations}, results copied into place {self.misplaced_results}",
        ]
        if self.audited_calls or self.audit_left_out:
            why = f"; left out: {self.audit_left_out}" if self.audit_left_out else ""
            lines.append(
                f"audits {self.audited_calls} calls equal to plain PyTorch's bit by bit, in "
                f"{self.audit_s:.3g} s{why}"
            )
        if self.outside_bytes:
            lines.append(f"GPU    {size(self.outside_bytes)} of the budget beside tensors")
        if self.host_budget_bytes:
            lines.append(
                f"host   evicted {size(self.evicted_bytes)}, prefetched "
                f"{size(self.prefetched_bytes)} so far"
                + (f"; pageable: {self.host_pageable}" if self.host_pageable else "")
            )
        if self.disk_budget_bytes:
            how = {None: "", True: ", past the page cache", False: ", through the page cache"}
            lines.append(
                f"disk   written {size(self.disk_written_bytes)}, read "
                f"{size(self.disk_read_bytes)} so far in {self.disk_dir}"
                f"{how[self.disk_is_direct]}; staging {size(self.staging_bytes)}"
                + (f", homes {size(self.disk_homes_bytes)}" if self.disk_homes_bytes else "")
            )
        for one in self.variants:
            measured = "not run" if one.measured_s is None else f"{one.measured_s * 1e3:.3g} ms"
            lines.append(
                f"{one.label}: {one.ops} ops, {one.kept_ops} kept, "
                f"{one.recomputed_ops} recomputed; {one.runs} runs"
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
                why = f"; others one by one: {one.graph_refusal}" if one.graph_refusal else ""
                lines.append(f"  graph  {one.graph_runs} runs went to the GPU as one{why}")
            lines += [f"  unused {why}" for why in one.left_out]
            lines += [
                f"  bytes  peak {size(one.peak_bytes)}, height {size(one.height_bytes)}, "
                f"inputs and outputs {size(one.external_bytes)}, in all {size(one.total_bytes)}",
                f"  time   predicted {one.predicted_s * 1e3:.3g} ms, measured {measured}, "
                f"bound {one.bound_s * 1e3:.3g} ms ({one.bound})",
            ]
        return "\n".join(lines)


def _coded_lines(copies: list[CodedCopy]) -> list[str]:
    """What each code saved, the most first."""
    if not copies:
        return []
    size = _core.format_bytes
    whole, written = sum(c.size_bytes for c in copies), sum(c.written_bytes for c in copies)
    tiers = " and ".join(sorted({f"the {c.tier}" for c in copies}))
    return [
        f"  codes  {len(copies)} values, {size(written)} written to {tiers} of {size(whole)}",
        *_most_saved([(c.name, c.code, c.size_bytes, c.written_bytes) for c in copies]),
    ]


def _packed_lines(values: list[PackedValue]) -> list[str]:
    """The same of what is held in fewer bytes in the arena."""
    if not values:
        return []
    saved = _core.format_bytes(sum(v.size_bytes - v.packed_bytes for v in values))
    return [
        f"  packed {len(values)} values, {saved} less while they wait",
        *_most_saved([(v.name, v.code, v.size_bytes, v.packed_bytes) for v in values]),
    ]


def _most_saved(values: list[tuple[str, str, int, int]]) -> list[str]:
    """A line each for those (name, code, bytes, bytes in the code) that save most."""
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
    """Of one variant."""
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
    """Collects what is known now."""
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
        host_bytes=parts.host_bytes,
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
    )
