"""The Python examples of README.md, the tutorial and the how-to pages run, and print what the pages
show but for sizes, times and losses. `python -m fitstep_kit.pages` writes their output anew."""

from pathlib import Path

import pytest
from fitstep_kit.pages import PAGES, examples_in, run, stable


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No measurement of another day decides what the plans of the examples do."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_print_what_the_page_shows(
    page: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FITSTEP_CACHE", str(cache))
    monkeypatch.delenv("FITSTEP_AUDITS")
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
