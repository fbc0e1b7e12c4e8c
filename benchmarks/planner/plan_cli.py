"""Asks the command `fitstep` for plans, and watches how long it takes and what memory it needs."""

import json
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fitstep_kit.builds import build_folder

COMMAND = build_folder("release") / "fitstep"


@dataclass(frozen=True)
class Answer:
    """What one run of the command said and took."""

    said: dict[str, Any]  # Its JSON; empty if it did not end in time.
    seconds: float  # Of processors, all threads together.
    elapsed_s: float  # That passed meanwhile.
    memory_bytes: int

    @property
    def outcome(self) -> str:
        """Of `plan`: fits, too small, gave up; or late."""
        return str(self.said.get("outcome", "late"))


def ask(verb: str, program: Path, *options: str, limit_s: int = 3600) -> Answer:
    """One run of `fitstep VERB PROGRAM --json`. Raises for input that it refuses."""
    command = [str(COMMAND), verb, str(program), "--json", *options]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=error)
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit_s, limit_s + 5))
        memory_bytes = ended = 0
        while not ended:
            memory_bytes = max(memory_bytes, _most_resident_bytes(process.pid))
            time.sleep(0.005)
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        process.returncode = os.waitstatus_to_exitcode(status)
        elapsed_s = time.monotonic() - start
        seconds = usage.ru_utime + usage.ru_stime
        if process.returncode == -signal.SIGXCPU:
            return Answer({}, seconds, elapsed_s, memory_bytes)
        out.seek(0)
        error.seek(0)
        if process.returncode not in (0, 1):
            raise RuntimeError(f"{' '.join(command)}: {error.read().decode().strip()}")
        return Answer(json.loads(out.read()), seconds, elapsed_s, memory_bytes)


def _most_resident_bytes(process: int) -> int:
    """So far. What wait() reports would include the memory of whoever started the process."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


def policies() -> list[str]:
    """Those that this build knows."""
    command = [str(COMMAND), "plan", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"--policy[^{]*\{([^}]*)\}", text)
    if found is None:
        raise RuntimeError(f"{' '.join(command)} names no policies")
    return [name.strip() for name in found[1].split(",")]
