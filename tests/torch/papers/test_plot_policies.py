"""Plots of what policies do: what is drawn is what the command said."""

import sys
from pathlib import Path
from typing import Any

import pytest
from fitstep_kit.builds import build_folder
from matplotlib.figure import Figure

from benchmarks.output import ROOT
from benchmarks.papers import plot_policies
from benchmarks.planner import plan_cli

PROGRAM = ROOT / "tests" / "golden" / "unet.program"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Those that are saved from now on; by the command that is tested."""
    saved: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *args: Any, **options: Any) -> None:
        saved.append(figure)
        save(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    monkeypatch.setattr(plan_cli, "COMMAND", build_folder("dev") / "fitstep")
    return saved


def plot(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["plot_policies.py", str(PROGRAM), *arguments])
    return plot_policies.main()


def test_bytes_and_bars_are_those_that_the_command_names(
    figures: list[Figure], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policies = ["vdnn-none-p", "vdnn-all-p", "layrub"]
    assert plot(monkeypatch, "1GiB", str(tmp_path), "--policy", ",".join(policies)) == 0
    options = ("--capacity", "1GiB", "--machine", "titan-x-maxwell", "--map")
    rows = plan_cli.ask("compare", PROGRAM, *options, "--policy", ",".join(policies)).said
    bytes_over_time, bars = figures
    assert [panel.get_title("left") for panel in bytes_over_time.axes] == policies
    for panel, row in zip(bytes_over_time.axes, rows["policies"], strict=True):
        most = max(map(sum, zip(*row["map"]["bytes"].values(), strict=True))) / plot_policies.GIB
        highest = max(area.get_datalim(panel.transData).y1 for area in panel.collections)
        assert highest == pytest.approx(most)
    memory, time = bars.axes
    peaks = [row["certificate"]["peak_bytes"] / plot_policies.GIB for row in rows["policies"]]
    assert [bar.get_width() for bar in memory.patches[:3]] == pytest.approx(peaks)
    ends = [bar.get_x() + bar.get_width() for bar in time.patches[-3:]]  # The last of each stack.
    steps = [row["step_ps"] * 1e-12 for row in rows["policies"]]
    assert ends == pytest.approx(steps)
    assert {path.name for path in tmp_path.iterdir()} == {"bytes.png", "bars.png"}


def test_where_no_policy_fits_nothing_is_drawn(
    figures: list[Figure],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert plot(monkeypatch, "1KiB", str(tmp_path), "--policy", "vdnn-none-p") == 1
    assert (capsys.readouterr().out, figures) == ("no policy fits\n", [])
