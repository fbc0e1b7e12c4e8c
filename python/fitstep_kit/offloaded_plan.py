"""A plan that evicts and prefetches, made from one that does not, without the planner.

    compute   f         g         h         b      a is used by f, then by b
    evict          |--a--|                         waits for f
    prefetch                 |--a--|               waits for the eviction and for g

What comes back lies above everything else, so that only the lanes are new. To the disk tier it is
the same by `disk_write` and `disk_read`, in codes where that is wanted.
"""

import json
from itertools import pairwise
from typing import Any

_ALIGNMENT = 64
_BLOCK = 4096  # Of the disk tier.
_LANES = ("compute", "evict", "prefetch", "disk_write", "disk_read")
_WAYS = {1: ("evict", "prefetch"), 2: ("disk_write", "disk_read")}


def offloaded(
    plan: str,
    least_bytes: int = 1,
    tiers: tuple[int, ...] = (1,),
    codes: tuple[str, ...] = ("none",),
    alignment_bytes: int = _ALIGNMENT,
) -> str:
    """The text of a plan like `plan` in which every storage of at least `least_bytes` is on one of
    `tiers` (1 for the host, 2 for the disk), which take turns, during its longest gap between two
    uses; there in one of `codes`, which take turns too. The peak in its certificate is the old one.
    """
    made: dict[str, Any] = json.loads(plan)
    checksum = made.pop("checksum")
    made |= {lane: made.get(lane, []) for lane in _LANES} | {"checksum": checksum}
    residencies, compute = made["residencies"], made["compute"]
    device = made["certificate"]["height_bytes"]
    ends = dict.fromkeys(tiers, 0)
    prefetches = []

    def aligned(size_bytes: int) -> int:
        return -(-size_bytes // alignment_bytes) * alignment_bytes

    for i, (begin, end, gone) in enumerate(sorted(_gaps(made, least_bytes))):
        tier = tiers[i % len(tiers)]
        down, up = _WAYS[tier]
        size = residencies[gone]["size_bytes"]
        below, back = len(residencies), len(residencies) + 1
        code = codes[i % len(codes)]
        coded = {} if code == "none" else {"code": code}
        residencies.append({**residencies[gone], "tier": tier, "offset_bytes": ends[tier], **coded})
        residencies.append({**residencies[gone], "offset_bytes": aligned(device)})
        ends[tier] += size if tier == 1 else -(-size // _BLOCK) * _BLOCK
        device = aligned(device) + size
        after_evict = {"lane": down, "position": len(made[down])}
        made[down].append({"copy": [gone, below], "waits": [_computed(begin)], "releases": [gone]})
        prefetch = {
            "copy": [below, back],
            "waits": [after_evict, _computed(end - 2)],
            "releases": [below],
        }
        prefetches.append((end, up, prefetch))
        for action in compute[end:]:
            for name in ("reads", "writes", "releases"):
                if name in action:
                    action[name] = [back if used == gone else used for used in action[name]]
    for end, up, prefetch in sorted(prefetches, key=lambda one: one[0]):
        wait = {"lane": up, "position": len(made[up])}
        compute[end].setdefault("waits", []).append(wait)
        made[up].append(prefetch)
    made["certificate"] |= {"height_bytes": device, "capacity_bytes": device}
    return printed(made)


def with_peak(plan: str, peak_bytes: int) -> str:
    """The same plan with another peak in its certificate."""
    made = json.loads(plan)
    made["certificate"]["peak_bytes"] = peak_bytes
    return printed(made)


def _computed(position: int) -> dict[str, Any]:
    return {"lane": "compute", "position": position}


def _gaps(plan: dict[str, Any], least_bytes: int) -> list[tuple[int, int, int]]:
    """(last use before, first use after, residency): the longest of each that leaves an op out."""
    uses: dict[int, set[int]] = {}
    for position, action in enumerate(plan["compute"]):
        for name in ("reads", "writes", "copy"):
            for used in action.get(name, []):
                uses.setdefault(used, set()).add(position)
    gaps = []
    for number, residency in enumerate(plan["residencies"]):
        is_ours = residency["tier"] == 0 and not residency.get("home", False)
        used = sorted(uses.get(number, ()))
        if not is_ours or residency["size_bytes"] < least_bytes or len(used) < 2:
            continue
        begin, end = max(pairwise(used), key=lambda gap: gap[1] - gap[0])
        if end - begin >= 2:
            gaps.append((begin, end, number))
    return gaps


def printed(plan: dict[str, Any]) -> str:
    """As the core prints it: one line per residency and action, and a checksum over all of it."""
    parts = []
    for name, value in plan.items():
        if name == "checksum" or (name.startswith("disk_") and not value):
            continue
        if name in (*_LANES, "residencies"):
            lines = ",\n".join(json.dumps(_in_order(entry), ensure_ascii=False) for entry in value)
            parts.append(f'"{name}": [\n{lines}\n]' if value else f'"{name}": [\n]')
        else:
            parts.append(f'"{name}": {json.dumps(value, ensure_ascii=False)}')
    body = "{\n" + ",\n".join(parts)
    return f'{body},\n"checksum": "{_fingerprint(body)}"\n}}\n'


def _in_order(entry: dict[str, Any]) -> dict[str, Any]:
    order = ("copy", "run", "form", "reads", "writes", "requests", "waits", "releases")
    if "storage" in entry:
        return entry
    return {name: entry[name] for name in order if name in entry}


def _fingerprint(text: str) -> str:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"
