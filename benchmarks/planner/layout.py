"""Layouts from the command line: height beside the peak, on published and generated sets.

    python benchmarks/run.py layout [--small]

Runs the release build's `fitstep layout FILE`, one thread, with its default time limit of 10 s,
and those of minimalloc's set that name a capacity with it (`--capacity`). Published files are
looked for below `../shared/data/dsa`, next to this checkout; the others are made here from fixed
seeds (layout_cases.py). Every layout is checked a second time, here, from the offsets written.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fitstep_kit.builds import build_folder

from benchmarks.output import ROOT, Row, arguments, save, show
from benchmarks.planner.layout_cases import CASES, SMALL, Rows

COMMAND = build_folder("release") / "fitstep"
PUBLISHED = ROOT.parent / "shared" / "data" / "dsa"
TIME_LIMIT_S = 10.0


def published() -> list[tuple[str, Path, int | None]]:
    """Name, file, capacity; those with a capacity also without one."""
    found: list[tuple[str, Path, int | None]] = []
    for path in sorted(PUBLISHED.glob("*/*.csv")):
        name = f"{path.parent.name}/{path.stem}"
        capacity = re.search(r"\.(\d{6,})$", path.stem)
        if capacity:
            found.append((f"{name} capacity", path, int(capacity[1])))
        found.append((name, path, None))
    if not found:
        print(f"no published sets: {PUBLISHED} is not here")
    return found


def write(folder: Path, name: str, rows: Rows) -> Path:
    path = folder / f"{re.sub(r'[^a-z0-9]+', '_', name)}.csv"
    lines = [f"{i},{begin},{end},{size}\n" for i, (begin, end, size) in enumerate(rows)]
    path.write_text("id,lower,upper,size\n" + "".join(lines))
    return path


def fault(output: Path) -> str:
    """Of the offsets written: a sweep over time that holds the live blocks in order of address."""
    rows = [tuple(map(int, line.split(",")[1:])) for line in output.read_text().splitlines()[1:]]
    events = [(begin, 1, i) for i, (begin, end, size, _) in enumerate(rows) if begin < end and size]
    events += [(rows[i][1], 0, i) for _, _, i in events]
    live: list[tuple[int, int]] = []
    for _, is_birth, i in sorted(events):
        _, _, size, offset = rows[i]
        block = (offset, offset + size)
        place = _place(live, block)
        if not is_birth:
            del live[place]
            continue
        below, above = live[place - 1 : place], live[place : place + 1]
        if (below and below[0][1] > offset) or (above and above[0][0] < offset + size):
            return f"block {i} overlaps"
        live.insert(place, block)
    return ""


def _place(live: list[tuple[int, int]], block: tuple[int, int]) -> int:
    low, high = 0, len(live)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if live[middle] < block else (low, middle)
    return low


def measure(name: str, path: Path, capacity: int | None, folder: Path) -> Row:
    """One run of the command."""
    output = folder / "offsets.csv"
    command = [str(COMMAND), "layout", str(path), "--json", "--output", str(output)]
    if capacity is not None:
        command += ["--capacity", str(capacity)]
    start = time.monotonic()
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    wall_s = time.monotonic() - start
    if answer.returncode > 1:
        raise RuntimeError(f"{name}: exit code {answer.returncode}")
    result = json.loads(answer.stdout)
    del result["offsets"]
    result["fault"] = fault(output)
    return {"case": name, **result, "wall_s": round(wall_s, 3), "exit_code": answer.returncode}


def main() -> int:
    """1 if a layout is wrong, or a height that is known to be possible was not reached."""
    args = arguments(__doc__).parse_args()
    if not COMMAND.exists():
        print(f"{COMMAND} is missing: cmake --preset release && cmake --build --preset release")
        return 1
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = published()
        for case in SMALL if args.small else CASES:
            cases.append((f"made/{case}", write(folder, case, CASES[case]()), None))
        for case, path, capacity in cases:
            rows.append(measure(case, path, capacity, folder))
            print(json.dumps(rows[-1]), flush=True)
    table = [
        {
            "case": row["case"],
            "blocks": row["blocks"],
            "load": row["peak_bytes"],
            "height": row["height_bytes"],
            "height / load": f"{row['height_bytes'] / max(row['peak_bytes'], 1):.5f}",
            "optimal": "yes" if row["optimal"] else "not proven",
            "fits": {True: "yes", False: "NO", None: ""}[row.get("fits")],
            "seconds": f"{row['seconds']:.2f}",
            "checked": row["fault"] or "yes",
        }
        for row in rows
    ]
    show(f"layouts, one thread, at most {TIME_LIMIT_S:.0f} s each", table)
    save(Path(__file__).stem, {"rows": rows}, args.small)
    return 1 if any(row["fault"] or row["exit_code"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
