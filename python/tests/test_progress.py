"""The progress lines, on a terminal and in a notebook's kernel."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fitstep.base import progress


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    for wanted in (None, False):
        with progress.progress_line(wanted) as show:
            assert show is None
    assert capsys.readouterr() == ("", "")


def test_a_wanted_line_draws_no_random_number() -> None:
    state = random.getstate()
    with progress.progress_line(True) as show:
        assert show is not None
        for i in range(5):
            show("profiling", i / 4)
    assert random.getstate() == state


def test_a_notebook_has_one_line_that_ends_with_the_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    display: Any = pytest.importorskip("IPython.display", reason="IPython is not installed")
    shown: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data["text/plain"])

    def first(data: dict[str, str], raw: bool, display_id: bool) -> Handle:
        Handle().update(data, raw)
        return Handle()

    monkeypatch.setattr(display, "display", first)
    monkeypatch.setattr(progress, "_is_notebook", lambda: True)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    with progress.progress_line(None) as show:
        assert show is not None
        show("profiling", 0.5)
        show("planning", 1.0)
    assert shown[0] == "fitstep: profiling 50%, 0 s"
    assert shown[-1] == "fitstep: profiling 0.0 s, planning 0.0 s"


def test_a_real_kernel_shows_the_line(tmp_path: Any) -> None:
    nbformat: Any = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient: Any = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    code = (
        "from fitstep.base.progress import progress_line\n"
        "with progress_line(None) as show:\n"
        "    for i in range(11): show('profiling', i / 10)\n"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    try:
        nbclient.NotebookClient(notebook, timeout=120).execute(cwd=str(tmp_path))
    except Exception as error:  # No kernel is registered under this name.
        if type(error).__name__ == "NoSuchKernel":
            pytest.skip(str(error))
        raise
    (output,) = notebook.cells[0].outputs
    assert output["data"]["text/plain"].startswith("fitstep: profiling ")
