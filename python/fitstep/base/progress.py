"""The progress line on stderr while fitstep profiles and plans."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import TaskID


@contextlib.contextmanager
def progress_line(wanted: bool | None) -> Iterator[Callable[[str, float], None] | None]:
    """Yields `show(what, share from 0 to 1)`, or None if no line is wanted."""
    if wanted is None:
        wanted = sys.stderr.isatty()
    if not wanted:
        yield None
        return
    state = random.getstate()  # Importing rich draws random numbers.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    random.setstate(state)
    console = Console(stderr=True)
    columns = (TextColumn("fitstep: {task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def show(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=1.0)
            progress.update(tasks[what], completed=share)

        yield show
