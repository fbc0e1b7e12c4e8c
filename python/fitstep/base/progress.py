"""What fitstep does while it profiles and plans, and how long it takes: lines on a terminal, or one
line in a notebook, which stays and says how long each part took.

    fitstep: profiling ━━━━━━━━━━╸━━━━━━━━━  52% 0:00:04 0:00:03     done, elapsed, remaining
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import TaskID

Show = Callable[[str, float], None]

_SECONDS_BETWEEN_LINES = 0.2  # A notebook stores and sends each.


@contextlib.contextmanager
def progress_line(wanted: bool | None) -> Iterator[Show | None]:
    """Yields `show(what, share from 0 to 1)`, or None if no line is wanted: `wanted` is False, or
    None while stderr is no terminal and this is no notebook."""
    in_notebook = wanted is not False and _is_notebook()
    if wanted is False or (wanted is None and not in_notebook and not sys.stderr.isatty()):
        yield None
        return
    with _in_notebook() if in_notebook else _on_terminal() as show:
        yield show


def _is_notebook() -> bool:
    """Whether a kernel runs this whose frontend can change what it has shown."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextlib.contextmanager
def _on_terminal() -> Iterator[Show]:
    state = random.getstate()  # Importing rich draws random numbers.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    random.setstate(state)
    console = Console(stderr=True)
    columns = (
        TextColumn("fitstep: {task.description}"), BarColumn(), TaskProgressColumn(),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def show(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=1.0)
            progress.update(tasks[what], completed=share)

        yield show


@contextlib.contextmanager
def _in_notebook() -> Iterator[Show]:
    """Needs no widgets: rich would show nothing where ipywidgets is missing."""
    line = _NotebookLine()
    try:
        yield line.show
    finally:
        line.end()


class _NotebookLine:
    def __init__(self) -> None:
        self._began: dict[str, float] = {}  # By what is done, in the order in which it began.
        self._last: dict[str, float] = {}  # When it was shown last.
        self._shown_at = 0.0
        self._handle: Any = None

    def show(self, what: str, share: float) -> None:
        now = time.monotonic()
        self._began.setdefault(what, now)
        self._last[what] = now
        if now - self._shown_at >= _SECONDS_BETWEEN_LINES:
            seconds = now - self._began[what]
            self._write(f"fitstep: {what} {share:.0%}, {seconds:.0f} s", now)

    def end(self) -> None:
        done = [f"{what} {self._last[what] - at:.1f} s" for what, at in self._began.items()]
        if done:
            self._write(f"fitstep: {', '.join(done)}", time.monotonic())

    def _write(self, text: str, now: float) -> None:
        from IPython.display import display

        self._shown_at = now
        data = {"text/plain": text}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
