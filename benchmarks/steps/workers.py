"""Starts workers and talks to them."""

import ctypes.util
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from benchmarks.output import command_of

K = TypeVar("K")
WORKER = Path(__file__).with_name("worker.py")
# An allocator that keeps what it has been given back, as people use it for training on CPUs.
JEMALLOC = {
    "LD_PRELOAD": ctypes.util.find_library("jemalloc") or "",
    "MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always",
}


def by_turns(workers: Mapping[K, "WorkerProcess"], warm: int, rounds: int) -> dict[K, list[float]]:
    """Seconds of each one's steps behind the first `warm`, which all take in turns."""
    seconds: dict[K, list[float]] = {key: [] for key in workers}
    for index in range(warm + rounds):
        for key, worker in workers.items():
            taken = worker.ask("step")["seconds"]
            if index >= warm:
                seconds[key].append(taken)
    return seconds


class WorkerProcess:
    """A running worker; `started` is what it said about compiling. Use as a context manager."""

    def __init__(
        self, workload: str, how: str | int, small: bool, env: dict[str, str] | None = None
    ) -> None:
        self.name = f"{workload} at {how}"
        size = "small" if small else "full"
        self._process = subprocess.Popen(
            [*command_of(WORKER), workload, str(how), size],
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started = self._answer()

    def ask(self, question: str) -> Any:
        """Sends one of step, turn, peak, bits; waits for the answer."""
        assert self._process.stdin is not None
        if "too_small" in self.started:
            raise RuntimeError(f"{self.name}: {self.started['message']}")
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        return self._answer()

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()  # The end of its input ends it.

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # Everything else is a library talking.
                return json.loads(line)
        raise RuntimeError(f"{self.name}: the worker stopped with code {self._process.wait()}")
