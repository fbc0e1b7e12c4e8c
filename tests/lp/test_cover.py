"""The cheapest cover of the planner's bounds equals what a solver of linear programs finds.

The questions and our answers come from the C++ tool that is built with the core's tests.
"""

import json
import subprocess
from pathlib import Path

import pytest

numpy = pytest.importorskip("numpy")
optimize = pytest.importorskip("scipy.optimize", reason="the solver is SciPy's HiGHS")
sparse = pytest.importorskip("scipy.sparse")

BUILD = Path(__file__).resolve().parents[2] / "build"


@pytest.fixture(scope="module")
def questions():
    tools = sorted(BUILD.glob("*/cover_tool"), key=lambda path: path.stat().st_mtime)
    if not tools:
        pytest.skip(f"no cover_tool below {BUILD}: build a preset with tests, such as core")
    run = subprocess.run([tools[-1]], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def solve(question, costs):
    """Least sum of cost x share, 0 <= share <= size, so that each row is covered; None if none."""
    offers = question["offers"]
    rows = question["rows"]
    places = [(row, column) for column, o in enumerate(offers) for row in range(o[0], o[1])]
    row, column = numpy.array(places).T
    covers = sparse.coo_matrix((numpy.ones(len(places)), (row, column)), (len(rows), len(offers)))
    answer = optimize.linprog(
        costs,
        A_ub=-covers.tocsr(),
        b_ub=-numpy.array(rows, dtype=float),
        bounds=[(0, offer[2]) for offer in offers],
        method="highs",
    )
    assert answer.status in (0, 2), answer.message
    return answer.fun if answer.status == 0 else None


def check(ours, theirs, name):
    assert (ours is None) == (theirs is None), name
    if ours is not None:
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-6), name


def test_least_bytes_are_the_solvers_to_the_byte(questions):
    for question in questions:
        theirs = solve(question, [1] * len(question["offers"]))
        check(question["least_bytes"], theirs and round(theirs), question["name"])


def test_cheapest_cover_is_the_solvers(questions):
    for question in questions:
        theirs = solve(question, [offer[3] for offer in question["offers"]])
        check(question["cost"], theirs, question["name"])


def test_the_questions_are_worth_it(questions):
    assert sum(question["cost"] is None for question in questions) > 10
    assert sum(question["cost"] is not None for question in questions) > 100
    assert any(len(question["rows"]) > 800 for question in questions)
