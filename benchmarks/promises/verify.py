"""The verifier on two hundred good plans, corrupted one thing at a time: reported, or harmless.

    python benchmarks/run.py verify [--small]

Runs the long form of tests/property/corruption_count_test.cpp from the core's build: where a plan
is too large to look at every state, 1,000 orders that hold lanes back are tried on whatever the
verifier accepts. With --small the usual form, with 24 orders.
"""

import os
import re
import subprocess
import sys

from fitstep_kit.builds import build_folder

from benchmarks.output import Row, arguments, save

COMMAND = build_folder("core") / "property_test"
FILTER = "--gtest_filter=CorruptionCount.*"
COLUMNS = ("corruptions", "harmful", "reported", "strict", "harmless", "not_seen_harmful")
LINE = re.compile(r"(\w+(?: \w+)*) +" + r" +".join([r"(\d+)"] * len(COLUMNS)) + r" +(.*)")


def main() -> int:
    """The tests' exit code: 0 where nothing harmful was accepted and every reason fits."""
    args = arguments(__doc__).parse_args()
    if not COMMAND.exists():
        print(f"{COMMAND} is missing: cmake --preset core && cmake --build --preset core")
        return 1
    env = {name: value for name, value in os.environ.items() if name != "FITSTEP_LONG"}
    if not args.small:
        env["FITSTEP_LONG"] = "1"
    rows: list[Row] = []
    plans = ""
    with subprocess.Popen(
        [str(COMMAND), FILTER], env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if " plans, " in line:
                plans = line.strip()
            if match := LINE.fullmatch(line.rstrip("\n").ljust(120)):
                counts = dict(zip(COLUMNS, map(int, match.groups()[1:-1]), strict=True))
                rows.append(
                    {"plans": plans, "kind": match[1], **counts, "reasons": match[8].strip()}
                )
    save("verify", {"rows": rows}, args.small)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
