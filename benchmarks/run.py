"""Measures what the README claims (`make bench`).

    python benchmarks/run.py [NAME ...] [--small] [OPTION ...]

Names: same_bits memory speed step_time peers peak_promise exact_peak capture layout disk faults
constancy prediction audits, all of them by default; and plan and traces (`make bench-plan`),
plan_compare, verify (`make bench-verify`), densities and reproduce (`make reproduce`), untaken,
pools, codes, host_codes, qwen2, will_it_fit, trainers (needs tools/requirements-trainers.txt), and
beyond_ram, which takes up to an hour. Each is a script of a folder here. Its command, its raw
output and the machine go to results/NAME.txt, its figures to NAME.json.
With --small everything runs in a few minutes and nothing is written. Options that this script does
not know go to the benchmarks.
"""

import json
import os
import subprocess
import sys
import time

from output import RESULTS, ROOT, arguments, command_of, machine

NAMES = (
    "same_bits", "memory", "speed", "step_time", "peers", "peak_promise", "exact_peak", "capture",
    "layout", "disk", "faults", "constancy", "prediction", "audits",
)  # fmt: skip
MORE = (
    "plan", "plan_compare", "traces", "verify", "densities", "reproduce", "untaken", "pools",
    "codes", "host_codes", "qwen2", "trainers", "will_it_fit", "beyond_ram",
)  # fmt: skip


def run(name: str, options: list[str], keep: bool) -> int:
    """Runs one benchmark, shows its output while it comes, and keeps it."""
    measured_on = machine()
    (script,) = ROOT.glob(f"benchmarks/*/{name}.py")
    command = [*command_of(script), *options]
    shown = " ".join(["python", *command[1:]])
    print(f"$ {shown}", flush=True)
    start = time.monotonic()
    output: list[str] = []
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            output.append(line)
    seconds = time.monotonic() - start
    ending = f"exit code {process.returncode} after {seconds:.0f} s\n"
    print(ending)
    if keep:
        RESULTS.mkdir(exist_ok=True)
        head = f"$ {shown}\n{json.dumps(measured_on)}\n\n"
        text = head + "".join(output) + ending
        (RESULTS / f"{name}.txt").write_text(text.replace(f"{ROOT}/", ""))
    return process.returncode


def main() -> int:
    """The number of benchmarks that failed."""
    parser = arguments(__doc__)
    known = NAMES + MORE
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(known))
    args, of_benchmarks = parser.parse_known_args()
    unknown = sorted({*args.names} - {*known})
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(known)}")
    options = [*(["--small"] if args.small else []), *of_benchmarks]
    return sum(run(name, options, not args.small) != 0 for name in args.names or NAMES)


if __name__ == "__main__":
    sys.exit(main())
