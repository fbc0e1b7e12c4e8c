"""The disk tier: what its file takes in and gives back, what checksums cost, what stays in memory.

    python benchmarks/run.py disk [--small] [--folder FOLDER]

Method. Rounds with and without checksums take turns, so that what else the machine does meets both;
each writes 128 MiB in blocks of 4 MiB, reads them back, then does both at once, by the code that
plans run on (pieces of 1 MiB, two threads each way), then all of it beside work of two threads.
Figures are medians over the rounds. The page cache is "Cached" of /proc/meminfo, before the first
round and after the last: everybody's, so a growth far below the bytes that were moved shows that
they did not go there.
"""

import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.output import MIB, Row, arguments, mib, save, show
from fitstep import _core

FILE_BYTES = 128 * MIB
BLOCK_BYTES = 4 * MIB
ROUNDS = 9
THREADS = 2  # Of the work that runs beside the copies.


def cached_bytes() -> int:
    """What the system's page cache holds."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Cached:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/meminfo has no Cached; this needs Linux")


def measured(folder: str, file_bytes: int, *, has_checksums: bool) -> Row:
    file = {"folder": folder, "piece_bytes": MIB, "has_checksums": has_checksums}
    link = json.loads(_core.measure_disk_link(THREADS, file, file_bytes, BLOCK_BYTES))["links"][0]
    found: Row = {
        f"{way} {how}, GB/s": link[of][f"{how}_bytes_per_s"] / 1e9
        for way, of in (("write", "evict"), ("read", "prefetch"))
        for how in ("alone", "both")
    }
    found["slowdown of work beside"] = link["compute_slowdown"]
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    args = parser.parse_args()
    file_bytes, rounds = (8 * MIB, 3) if args.small else (FILE_BYTES, ROUNDS)
    before = cached_bytes()
    found: dict[bool, list[Row]] = {True: [], False: []}
    for _ in range(rounds):
        for has_checksums in found:
            found[has_checksums].append(
                measured(args.folder, file_bytes, has_checksums=has_checksums)
            )
    grown = cached_bytes() - before
    medians = {
        has_checksums: {name: statistics.median(row[name] for row in rows) for name in rows[0]}
        for has_checksums, rows in found.items()
    }
    table: list[Row] = [
        {
            "case": name,
            "with checksums": round(medians[True][name], 3),
            "without": round(medians[False][name], 3),
            "with / without": round(medians[True][name] / medians[False][name], 2),
        }
        for name in medians[True]
    ]
    moved = 2 * rounds * 7 * file_bytes  # And what was moved beside work.
    show(f"the file of a disk tier in {args.folder}", table)
    print(f"page cache: {mib(grown)} more, after more than {mib(moved)} were moved")
    save("disk", {"rows": table, "grown_bytes": grown, "moved_bytes": moved}, args.small)


if __name__ == "__main__":
    main()
