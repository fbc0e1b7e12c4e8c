"""step.report().to_html(): one file for browsers, whose numbers are the report's."""

import base64
import gzip
import json
import pickle
import re
import sys
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from api_models import Job, compiled
from torch import nn
from wide_job import WideJob

import fitstep
from fitstep import _core

pytest.importorskip("bokeh", reason="pages are drawn by bokeh, which is not installed")

_SIZES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SECONDS = {"s": 1, "ms": 1e-3, "us": 1e-6}


def page_of(report: Any, path: Path, **options: Any) -> str:
    report.to_html(path, **options)
    return path.read_text(encoding="utf-8")


def shown(page: str) -> str:
    """What a reader sees without scripts, as text."""
    bare = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", " ", bare))


def models_of(page: str, name: str) -> list[dict[str, Any]]:
    """The Bokeh models behind one place for charts."""
    pattern = rf'<script type="application/octet-stream" id="{name}-data">([^<]*)</script>'
    found = re.search(pattern, page)
    assert found is not None
    item = json.loads(gzip.decompress(base64.b64decode(found[1])))
    models: list[dict[str, Any]] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("type") == "object" and "name" in value:
                models.append(value)
            for one in value.values():
                walk(one)
        elif isinstance(value, list):
            for one in value:
                walk(one)

    walk(item)
    return models


def columns_of(page: str, name: str) -> list[dict[str, Any]]:
    """The columns of each data source, numbers as arrays."""
    sources = [m for m in models_of(page, name) if m["name"] == "ColumnDataSource"]
    return [
        {key: _decoded(value) for key, value in source["attributes"]["data"]["entries"]}
        for source in sources
    ]


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    raw = base64.b64decode(value["array"]["data"])
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    return np.frombuffer(raw, dtype=value["dtype"])


def texts_of(page: str, name: str) -> list[str]:
    """The table of texts for the mouse."""
    table = next(columns for columns in columns_of(page, name) if list(columns) == ["text"])
    return str(table["text"][0]).split("|||")


def axis_unit(page: str, name: str, axis: str) -> str:
    labels = [
        m["attributes"].get("axis_label") for m in models_of(page, name) if "Axis" in m["name"]
    ]
    return next(label for label in labels if label and re.fullmatch(axis, label))


def test_one_file_needs_no_network(tmp_path: Path) -> None:
    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        page = page_of(step.report(), tmp_path / "page.html")
    tags = re.findall(r"<(?:script|link|img|iframe|object|source)\b[^>]*>", page)
    assert not [tag for tag in tags if re.search(r"\b(src|href)\s*=", tag)]
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert len(page) < 2 * 2**20


def test_numbers_are_those_of_the_report(tmp_path: Path) -> None:
    job = WideJob()
    with compiled(job.step, job.example, budget="60%") as step:
        for _ in range(2):
            step(*job.example)
        report = step.report()
        page = page_of(report, tmp_path / "page.html")
    text = shown(page)
    for number in (report.budget_bytes, report.plain_peak_bytes, report.floor_bytes):
        assert _core.format_bytes(number) in text
    for one in report.variants:
        assert one.label in text
        for number in (one.peak_bytes, one.height_bytes, one.total_bytes):
            assert _core.format_bytes(number) in text
    last = report.variants[-1]
    stack = next(columns for columns in columns_of(page, "charts-0") if "outside" in columns)
    scale = _SIZES[axis_unit(page, "charts-0", "bytes|KiB|MiB|GiB")]
    outside = last.total_bytes - last.height_bytes
    assert max(stack["total"]) * scale == pytest.approx(outside + last.peak_bytes, rel=1e-6)
    assert max(stack["outside"]) * scale == pytest.approx(outside, rel=1e-6)
    texts = texts_of(page, "charts-0")
    bars = [columns for columns in columns_of(page, "charts-0") if "left" in columns]
    assert last.recomputed_ops > 0
    again = [sum("ran before" in texts[row] for row in columns["text"]) for columns in bars]
    assert last.recomputed_ops in again
    unit = axis_unit(page, "charts-0", r"time in the step \((s|ms|us)\)")[18:-1]
    seconds = (
        max(max(columns["right"]) for columns in bars) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]
    )
    assert seconds == pytest.approx(last.predicted_s, rel=1e-5)


def test_texts_say_what_was_decided_where_and_why(tmp_path: Path) -> None:
    job = WideJob()
    with compiled(job.step, job.example, budget="60%") as step:
        step(*job.example)
        page = page_of(step.report(), tmp_path / "page.html")
    texts = texts_of(page, "charts-0")
    recomputed = [text for text in texts if "decision: drop, and recompute once" in text]
    assert recomputed
    for part in ("activations", "made by aten::", "wide_job.py:", "unused for"):
        assert part in recomputed[0]
    kept = [text for text in texts if "decision: keep on the device" in text]
    assert any("recomputing it would take" in text for text in kept)
    assert any("recompute: the op ran before in this step" in text for text in texts)


def test_names_are_escaped(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("<img src=x onerror=alert(1)>", nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    source = """def train_step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss
"""
    scope: dict[str, Any] = {"model": model, "optimizer": optimizer}
    exec(compile(source, 'a <b>&".py', "exec"), scope)
    x = torch.randn(4, 8)
    with compiled(scope["train_step"], (x,), model=model, optimizer=optimizer) as step:
        step(x)
        report = step.report()
        page = page_of(report, tmp_path / "page.html")
        assert "srcdoc=" in report._repr_html_()
    without_scripts = re.sub(r"<script\b.*?</script>", "", page, flags=re.DOTALL)
    assert "<img" not in without_scripts
    assert "<b>&" not in without_scripts
    assert "<img src=x onerror=alert(1)>" in shown(page)
    assert 'a <b>&".py:' in shown(page)


def test_copies_to_host_and_disk_have_lanes(tmp_path: Path) -> None:
    job = WideJob()
    options = {"host_budget": "600KiB", "disk_budget": "20MiB", "disk_dir": tmp_path}
    with compiled(job.step, job.example, budget="3400KiB", **options) as step:
        step(*job.example)
        report = step.report()
        page = page_of(report, tmp_path / "page.html")
    one = report.variants[-1]
    texts = texts_of(page, "charts-0")
    for size, lane in (
        (one.evicted_bytes, "evict of"),
        (one.prefetched_bytes, "prefetch of"),
        (one.disk_written_bytes, "disk write of"),
        (one.disk_read_bytes, "disk read of"),
    ):
        assert bool(size) == any(text.startswith(lane) for text in texts), lane
    assert one.evicted_bytes or one.disk_written_bytes
    assert any("decision: offload to" in text for text in texts)


def test_several_programs_run_or_not(tmp_path: Path) -> None:
    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        before = shown(page_of(step.report(), tmp_path / "new.html"))
        assert "not run" in before
        for rows in (32, 32, 16, 8):
            step(job.x[:rows], job.y[:rows])
        report = step.report()
        page = page_of(report, tmp_path / "page.html")
        assert len(report.variants) > 2
        for one in report.variants:
            assert one.label in shown(page)
        assert page.count('class="charts"') == 2 * min(len(report.variants), 4)
    after = step.report()  # The step is closed: its programs are still known.
    assert len(after.variants) == len(report.variants)
    assert shown(page_of(report, tmp_path / "closed.html")) == shown(page)


def test_a_curve_is_drawn_beside(tmp_path: Path) -> None:
    job = WideJob()
    curve = fitstep.curve(job.step, job.example, effort=1)
    with compiled(job.step, job.example, budget="60%") as step:
        page = page_of(step.report(), tmp_path / "page.html", curve=curve)
    drawn = next(
        columns
        for columns in columns_of(page, "budgets-0")
        if "the fastest plan for this budget" in columns["text"]
    )
    assert len(drawn["x"]) == len(curve.points)


def test_without_bokeh_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job()
    monkeypatch.setitem(sys.modules, "bokeh.resources", None)
    with compiled(job.step, (job.x, job.y)) as step:
        report = step.report()
        with pytest.raises(fitstep.FitstepError, match="pip install") as caught:
            report.to_html(tmp_path / "page.html")
    assert "bokeh, which is not installed" in str(caught.value)
    assert not (tmp_path / "page.html").exists()
    in_notebook = report._repr_html_()
    assert in_notebook.startswith("<pre>budget 2.00 MiB")
    assert "pip install" in in_notebook


def test_a_copy_of_a_report_has_numbers_but_no_plans(tmp_path: Path) -> None:
    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        report = step.report()
    copied = pickle.loads(pickle.dumps(report))
    assert copied == report
    assert copied.to_json() == report.to_json()
    with pytest.raises(fitstep.FitstepError, match=r"call step\.report\(\)"):
        copied.to_html(tmp_path / "page.html")
