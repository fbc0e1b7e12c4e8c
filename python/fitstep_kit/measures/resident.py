"""Anonymous resident memory of this process, and the most of it while something runs."""

import threading
from pathlib import Path


def resident_bytes() -> int:
    """Anonymous resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no RssAnon; this needs Linux 4.5 or newer")


class ResidentPeak(threading.Thread):
    """The most resident bytes seen since it was started."""

    def __init__(self, seconds: float = 0.005) -> None:
        super().__init__(daemon=True)
        self.start_bytes = self.peak_bytes = resident_bytes()
        self._seconds = seconds
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(self._seconds):
            self.peak_bytes = max(self.peak_bytes, resident_bytes())

    def growth(self) -> int:
        """Up to now, since the start."""
        return self.peak_bytes - self.start_bytes

    def finish(self) -> int:
        """Growth since the start; the last that is seen."""
        self._done.set()
        self.join()
        return self.growth()
