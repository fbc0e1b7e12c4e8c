"""What pictures say about ops, storages and choices, as lines of plain text."""

from __future__ import annotations

from .. import _core
from ..base.describe import format_seconds
from .picture import SECOND_PS, BlockRow, ChoiceRow, Picture, SpanRow

# The bands of the chart, from the bottom up, and what readers call them.
BANDS = {
    "weights": "parameters and buffers",
    "states": "optimizer state",
    "weight_gradients": "gradients of parameters",
    "maps": "activations",
    "map_gradients": "gradients of activations",
    "workspace": "workspace of kernels",
}


def of_time(time_ps: int) -> str:
    """A time in its fitting unit: "12.3 ms"."""
    return format_seconds(time_ps / SECOND_PS)


def of_op(picture: Picture, op: int) -> str:
    """The op's name, and its module: "aten::addmm in layers.3"."""
    row = picture.ops[op]
    return f"{row.name} in {row.module}" if row.module else row.name


def where(picture: Picture, op: int) -> str:
    """File and line of the user's code that called the op, or ""."""
    row = picture.ops[op]
    return f"{row.file}:{row.line}" if row.file else ""


def name_of(picture: Picture, storage: int) -> str:
    """What a storage is: its own name, or for one that a step makes that of the op."""
    choice, row = picture.choices.get(storage), picture.storages[storage]
    if row.kind != "temporary" or choice is None or choice.maker < 0:
        return row.name or f"storage {storage}"
    return f"result of {of_op(picture, choice.maker)}"


def maker_of(picture: Picture, block: BlockRow) -> int:
    """The op that makes what a block holds, also if a copy brings it back; -1: none does."""
    choice = picture.choices.get(block.storage)
    return picture.op_of(block) if choice is None else choice.maker


def of_span(picture: Picture, span: SpanRow) -> list[str]:
    """Lines about a run of an op, or a copy."""
    took = f"{of_time(span.end_ps - span.begin_ps)}, from {of_time(span.begin_ps)}"
    waited = [f"the lane waited {of_time(span.stall_ps)} before it"] if span.stall_ps else []
    if span.op < 0:
        size = _core.format_bytes(picture.storages[span.storage].size_bytes)
        copied = f"{span.lane} of {name_of(picture, span.storage)}"
        return [copied, f"{size}, {took}", *waited, *why(picture, span.storage)]
    again = ["recompute: the op ran before in this step"] if span.is_again else []
    form = [f"form: {span.form}"] if span.form != "default" else []
    place = [at] if (at := where(picture, span.op)) else []
    return [of_op(picture, span.op), *place, took, *again, *form, *waited]


def of_block(picture: Picture, block: BlockRow) -> list[str]:
    """Lines about bytes of the arena: what they hold, and why for so long."""
    size, op = _core.format_bytes(block.size_bytes), picture.op_of(block)
    if block.storage < 0:
        return [f"workspace of {of_op(picture, op)}", f"{size} until its kernel frees them"]
    return [name_of(picture, block.storage), *of_storage(picture, block.storage)]


def of_storage(picture: Picture, storage: int) -> list[str]:
    """Lines about a storage: its size and kind, who makes it where, what was decided and why."""
    row, choice = picture.storages[storage], picture.choices.get(storage)
    lines = [f"{_core.format_bytes(row.size_bytes)}, {BANDS[row.byte_kind]}"]
    if choice is not None and choice.maker >= 0:
        place = where(picture, choice.maker)
        verb = "made" if row.kind == "temporary" else "written"
        lines.append(
            f"{verb} by {of_op(picture, choice.maker)}" + (f" at {place}" if place else "")
        )
    return lines + why(picture, storage)


def why(picture: Picture, storage: int) -> list[str]:
    """Lines that say what the plan decided for a storage, and the numbers behind it."""
    choice = picture.choices.get(storage)
    if choice is None:
        return []
    return [_decision(choice), *_reason(picture, choice)]


def _decision(choice: ChoiceRow) -> str:
    if choice.choice == "offload":
        tier = "the disk" if choice.is_on_disk else "the host"
        copies = f"{choice.copies} copies, {_core.format_bytes(choice.copied_bytes)}"
        return f"decision: offload to {tier} and back ({copies})"
    if choice.choice == "recompute":
        times = "once" if choice.recomputes == 1 else f"{choice.recomputes} times"
        return f"decision: drop, and recompute {times} in {of_time(choice.recompute_ps)}"
    return {
        "home": "decision: home; it stays on the device from step to step",
        "brief": "decision: none; it is used without a pause",
        "keep": "decision: keep on the device",
    }[choice.choice]


def _reason(picture: Picture, choice: ChoiceRow) -> list[str]:
    """How long it is unused, and what the alternative would take."""
    if choice.before < 0 or choice.choice in ("brief", "home"):
        return []
    between = f"after {of_op(picture, choice.before)} and before {of_op(picture, choice.after)}"
    lines = [f"unused for {of_time(choice.gap_ps)}, {between}"]
    if choice.again_ps is None:
        return [*lines, "it cannot be recomputed with the same bits"]
    if choice.choice != "recompute":
        lines.append(f"recomputing it would take {of_time(choice.again_ps)}")
    return lines
