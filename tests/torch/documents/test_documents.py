"""The Python examples of README.md, the tutorial, the how-to pages and the notebook run, and print
what these show but for sizes, times and losses. `python -m fitstep_kit.pages` writes the outputs of
the pages anew, `make notebook` those of the notebook."""

import json
from pathlib import Path

import pytest
from fitstep_kit.pages import NOTEBOOK, PAGES, cells_in, examples_in, missing, run, stable


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No measurement of another day decides what the plans of the examples do."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("page", [*PAGES, NOTEBOOK], ids=lambda page: page.stem)
def test_examples_print_what_the_page_shows(
    page: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacks := missing(page):
        pytest.skip(f"{', '.join(lacks)} not installed (tools/requirements-trainers.txt)")
    monkeypatch.setenv("FITSTEP_CACHE", str(cache))
    monkeypatch.delenv("FITSTEP_AUDITS")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for example in run(page):
        if example.shown is not None:
            assert stable(example.printed) == stable(example.shown)


def test_an_output_that_differs_is_noticed() -> None:
    shown = "3 steps: losses and 219 tensors equal, in 2.5 MiB and 17 ms\n"
    assert stable(shown) == stable("3 steps: losses and 219 tensors equal, in 30 KiB and 2 s\n")
    assert stable(shown) != stable("3 steps: losses and 218 tensors equal, in 2.5 MiB and 17 ms\n")


def test_a_block_without_output_is_an_example_too() -> None:
    page = "```python\na = 1\n```\n\ntext\n\n```python\nprint(a)\n```\n\n```text\n1\n```\n"
    assert [(one.code, one.shown) for one in examples_in(page)] == [
        ("a = 1\n", None),
        ("print(a)\n", "1\n"),
    ]


def test_cells_of_a_notebook_are_examples_with_what_they_print() -> None:
    stream = {"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]}
    picture = {"output_type": "display_data", "data": {}}
    cells = [
        {"cell_type": "markdown", "source": ["# a"]},
        {"cell_type": "code", "source": ["print(1)\n", "print(2)"], "outputs": [picture, stream]},
        {"cell_type": "code", "source": ["a = 1"], "outputs": []},
    ]
    assert [(one.code, one.shown) for one in cells_in(json.dumps({"cells": cells}))] == [
        ("print(1)\nprint(2)\n", "1\n2\n"),
        ("a = 1\n", None),
    ]
