"""The report as a page, and files for other viewers: what of a report goes where.

`report` is always a Report, which imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _core
from ..base.describe import format_seconds
from ..errors import FitstepError
from ..pictures.page import Part, page_of
from ..pictures.picture import Pictured

if TYPE_CHECKING:
    from ..memory.planning import Planning

_MOST_PARTS = 4  # Programs with charts on one page ...
_MOST_OPS = 12_000  # ... and their ops together, so that the page opens quickly.


def pictured_of(variants: list[Any], planning: Planning) -> list[Pictured]:
    """The programs of a step with their plans, in the order of the variants."""
    machine = planning.below.machine()
    if planning.below.has_homes_on_disk:
        machine = _core.with_homes_on_disk(machine, planning.below.disk_homes_bytes)
    return [Pictured(v.label, v.step, v.planned.plan, machine) for v in variants]


def chosen(report: Any, pictured: list[Pictured], variant: int | None) -> Pictured:
    """The program with a number in `report.variants`; None: the one that ran most."""
    _check_any(report, pictured)
    if variant is None:
        return pictured[_by_runs(report)[0]]
    if not isinstance(variant, int) or not 0 <= variant < len(pictured):
        raise FitstepError(
            f"variant={variant!r} is no program of this step",
            todo=f"pass None, or a number from 0 to {len(pictured) - 1}: a place in "
            "report.variants",
        )
    return pictured[variant]


def html_of(report: Any, pictured: list[Pictured], curve: Any = None) -> str:
    """The page. `curve` is what `fitstep.curve` returned, or None."""
    _check_any(report, pictured)
    points = [] if curve is None else [(p.budget_bytes, p.predicted_s) for p in curve.points]
    return page_of(
        "fitstep report",
        _facts(report),
        _rows(report),
        _parts(report, pictured),
        str(report),
        report.budget_bytes,
        points,
    )


def _check_any(report: Any, pictured: list[Pictured]) -> None:
    if not report.variants:
        raise FitstepError(
            "the step has no program now, so there is nothing to draw",
            todo="call the step first; a step without operators has no program",
        )
    if not pictured:
        raise FitstepError(
            "this report is a copy or was unpickled, so it has no plans to draw",
            todo="call step.report() in the process that trains, and draw what it returns",
        )


def _by_runs(report: Any) -> list[int]:
    """The places of the variants: those that ran most first, then the newest."""
    places = range(len(report.variants))
    return sorted(places, key=lambda at: (-report.variants[at].runs, -at))


def _parts(report: Any, pictured: list[Pictured]) -> list[Part]:
    parts: list[Part] = []
    ops = 0
    for at in _by_runs(report)[:_MOST_PARTS]:
        one = report.variants[at]
        ops += one.ops + one.recomputed_ops
        if parts and ops > _MOST_OPS:
            break
        parts.append(
            Part(
                pictured=pictured[at],
                total_bytes=one.total_bytes,
                outside_bytes=one.total_bytes - one.height_bytes,
                external_bytes=one.external_bytes,
                floor_bytes=report.floor_bytes,
                plain_peak_bytes=pictured[at].step.plain_peak_bytes(),
                predicted_s=one.predicted_s,
                measured_s=one.measured_s,
            )
        )
    return parts


def _facts(report: Any) -> list[tuple[str, str]]:
    size, share = _core.format_bytes, 100 * report.budget_bytes / max(report.plain_peak_bytes, 1)
    facts = [
        ("budget", size(report.budget_bytes)),
        ("of plain PyTorch's peak", f"{share:.0f} %"),
        ("peak of plain PyTorch", size(report.plain_peak_bytes)),
        ("floor: no budget below works", size(report.floor_bytes)),
        ("held by the largest program", size(max(one.total_bytes for one in report.variants))),
    ]
    if report.host_budget_bytes:
        facts.append(("host budget", size(report.host_budget_bytes)))
    if report.disk_budget_bytes:
        facts.append(("disk budget", size(report.disk_budget_bytes)))
    have = "call has" if report.audited_calls == 1 else "calls have"
    audited = f"audited {have} plain PyTorch's bits"
    return [*facts, (audited, str(report.audited_calls))] if report.audited_calls else facts


def _rows(report: Any) -> list[list[str]]:
    heads = ["program", "runs", "ops", "recomputed", "peak", "height", "total", "predicted"]
    rows = [[*heads, "measured", "bound"]]
    return rows + [_row(one) for one in report.variants]


def _row(one: Any) -> list[str]:
    size = _core.format_bytes
    times = [one.predicted_s, one.measured_s, one.bound_s]
    texts = ["not run" if time is None else format_seconds(time) for time in times]
    counts = [str(number) for number in (one.runs, one.ops, one.recomputed_ops)]
    sizes = [size(number) for number in (one.peak_bytes, one.height_bytes, one.total_bytes)]
    return [one.label, *counts, *sizes, *texts]
