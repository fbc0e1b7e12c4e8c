"""The figures that benchmarks/planner/plan.py makes of what the planner said."""

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.planner import plan_cli
from benchmarks.planner.plan_figures import (
    exponent,
    geometric_mean,
    joint_is_best,
    ratio_of,
    ratios_of,
    summary,
)


def said(predicted: int, bound: int) -> dict[str, Any]:
    return {"outcome": "fits", "certificate": {"predicted_ps": predicted, "bound_ps": bound}}


def row(ratio: float | None, *, below_floor: bool = False, percent: int = 50) -> dict[str, Any]:
    return {
        "machine": "a100-40gb", "percent": percent, "below_floor": below_floor,
        "ratios": {"auto": ratio, "recompute": 2.0, "offload": None},
    }  # fmt: skip


def means_at(percent: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return next(
        one for one in summary(rows) if (one["machine"], one["percent"]) == ("a100-40gb", percent)
    )


def test_a_mean_is_geometric_and_of_nothing_there_is_none() -> None:
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert geometric_mean([]) is None


def test_a_ratio_is_time_over_bound_where_there_is_a_plan() -> None:
    assert ratio_of(said(12, 10)) == pytest.approx(1.2)
    assert ratio_of({"outcome": "gave up"}) is None


def test_policies_are_measured_against_the_bound_that_holds_for_all() -> None:
    # Without recompute no plan beats 16; with both moves none beats 10.
    ratios = ratios_of({"auto": said(12, 10), "offload": said(18, 16), "recompute": {}})
    assert ratios == {"auto": pytest.approx(1.2), "offload": pytest.approx(1.8), "recompute": None}


@pytest.mark.parametrize(
    ("ratios", "is_best"),
    [
        ({"auto": 1.1, "recompute": 1.2, "offload": None}, True),
        ({"auto": 1.2, "recompute": 1.1, "offload": 1.3}, False),
        ({"auto": None, "recompute": 1.1}, False),
        ({"auto": None, "recompute": None}, True),
        ({"auto": 1.1}, True),
    ],
)
def test_joint_plans_are_compared_with_what_each_move_reaches_alone(
    ratios: dict[str, float | None], is_best: bool
) -> None:
    assert joint_is_best(ratios) == is_best


def test_rows_below_the_floor_are_left_out_of_the_mean() -> None:
    found = means_at(50, [row(1.0), row(1.02), row(1.4, below_floor=True), row(9, percent=20)])
    assert found["rows"] == 2
    assert found["means"]["auto"] == pytest.approx((1.0 * 1.02) ** 0.5)
    assert found["worst"] == pytest.approx(1.02)
    assert found["reached"]


def test_a_row_without_a_plan_misses_the_goal() -> None:
    found = means_at(50, [row(1.0), row(None)])
    assert found["solved"] == {"auto": 1, "recompute": 2, "offload": 0}
    assert found["means"]["offload"] is None
    assert not found["reached"]


def test_one_bad_row_misses_the_goal_whatever_the_mean() -> None:
    assert not means_at(20, [row(1.0, percent=20)] * 9 + [row(1.6, percent=20)])["reached"]
    assert means_at(20, [row(1.0, percent=20)] * 9 + [row(1.4, percent=20)])["reached"]


def test_nothing_measured_reaches_nothing() -> None:
    assert not means_at(30, [])["reached"]


def test_the_exponent_is_the_slope_over_the_sizes_that_ended() -> None:
    rows = [
        {"ops": ops, "points": 3, "curve_seconds": 1e-6 * ops**1.5} for ops in (1000, 4000, 9000)
    ]
    late = {"ops": 100_000, "points": None, "curve_seconds": 1.0}
    assert exponent([*rows, late], "curve_seconds") == pytest.approx(1.5)
    assert exponent([rows[0], late], "curve_seconds") is None


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in the place of `fitstep`."""
    path = tmp_path / "fitstep"
    monkeypatch.setattr(plan_cli, "COMMAND", path)
    return path


def script(path: Path, text: str) -> None:
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)


def test_an_answer_holds_what_the_command_said_and_needed(command: Path) -> None:
    script(
        command,
        "import sys, time\n"
        "kept = b'x' * (64 << 20)\n"
        "while time.process_time() < 0.3: pass\n"
        'print(\'{"outcome": "fits", "asked": "\' + " ".join(sys.argv[1:]) + \'"}\')',
    )
    answer = plan_cli.ask("plan", Path("a.program"), "--budget", "50%")
    assert answer.outcome == "fits"
    assert answer.said["asked"] == "plan a.program --json --budget 50%"
    assert 0.3 <= answer.seconds < 30
    assert answer.memory_bytes >= 64 << 20


def test_an_answer_that_takes_too_long_is_late(command: Path) -> None:
    script(command, "while True: pass")
    answer = plan_cli.ask("curve", Path("a.program"), limit_s=1)
    assert answer.outcome == "late"
    assert ratio_of(answer.said) is None
    assert 0.9 <= answer.seconds < 30


def test_no_plan_is_an_answer_and_refused_input_an_error(command: Path) -> None:
    script(command, 'import sys\nprint(\'{"outcome": "too small"}\')\nsys.exit(1)')
    assert plan_cli.ask("plan", Path("a.program")).outcome == "too small"
    script(command, "import sys\nprint('fitstep: cannot open a', file=sys.stderr)\nsys.exit(2)")
    with pytest.raises(RuntimeError, match=r"plan a.program --json: fitstep: cannot open a"):
        plan_cli.ask("plan", Path("a.program"))


def test_policies_are_those_of_the_help(command: Path) -> None:
    script(command, "print('  --policy TEXT:{auto,none,recompute} [auto]  How to plan')")
    assert plan_cli.policies() == ["auto", "none", "recompute"]
