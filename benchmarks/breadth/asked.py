"""The driver's end of a worker: starts it, asks it, and notices that it died or hangs."""

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.output import ROOT, command_of

WORKER = Path(__file__).with_name("worker.py")
ENV = {
    "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT / "python")),
    "PYTHONHASHSEED": "0",  # The order of sets must be the same in both processes.
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}
SUBJECTS_PER_PROCESS = 25  # What libraries cache stays small.


class Worker:
    """A process that is started when asked, and again after it died."""

    def __init__(self, how: str, timeout_s: float) -> None:
        self._how = how
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = 0

    def ask(self, name: str) -> Any:
        """What the worker answers; `raised` if there is no answer."""
        if self._asked == SUBJECTS_PER_PROCESS:
            self.stop()
        process = self._started()
        assert process.stdin is not None
        self._asked += 1
        process.stdin.write(f"{name}\n".encode())
        process.stdin.flush()
        line = self._line(process)
        if line:
            return json.loads(line)
        code = process.poll()
        self.stop()
        if code is None:
            return {"raised": f"not done after {self._timeout_s:.0f} s"}
        return {"raised": f"the process died with code {process.wait()}"}

    def stop(self) -> None:
        """Ends the process; the next question starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process, self._asked = None, 0

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            self._process = subprocess.Popen(
                [*command_of(WORKER), self._how],
                env={**os.environ, **ENV},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if os.environ.get("BREADTH_VERBOSE") else subprocess.DEVNULL,
            )
        return self._process

    def _line(self, process: "subprocess.Popen[bytes]") -> bytes:
        """One line; empty if the process ended or the time did."""
        assert process.stdout is not None
        deadline = time.monotonic() + self._timeout_s
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                return b""
            piece = os.read(process.stdout.fileno(), 1 << 20)
            if not piece:
                process.wait()
                return b""
            line += piece
        return line
