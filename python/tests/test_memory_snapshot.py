"""save_memory_snapshot() and save_trace(): files that other viewers read."""

import json
import pickle
import pickletools
from pathlib import Path
from typing import Any

import pytest
import torch
from api_models import Job, compiled
from torch.cuda import _memory_viz
from wide_job import WideJob

import fitstep

# All that https://pytorch.org/memory_viz decodes (torch/utils/viz/MemoryViz.js).
_DECODED = """
APPENDS BINGET BININT BININT1 BININT2 EMPTY_DICT EMPTY_LIST FRAME LONG1 LONG_BINGET MARK MEMOIZE
PROTO SETITEMS SHORT_BINUNICODE STOP TUPLE2 APPEND NEWFALSE BINPUT BINUNICODE EMPTY_TUPLE NEWTRUE
NONE BINFLOAT TUPLE TUPLE1 TUPLE3 LONG_BINPUT LIST DICT SETITEM
"""


def snapshot_of(path: Path) -> Any:
    return pickle.loads(path.read_bytes())


def live_bytes(snapshot: Any) -> list[int]:
    """Bytes live after each event. Fails if two live blocks overlap or one is outside."""
    (arena,) = snapshot["segments"]
    begin, end = arena["address"], arena["address"] + arena["total_size"]
    live: dict[int, int] = {}
    sums = []
    for event in snapshot["device_traces"][0]:
        first, last = event["addr"], event["addr"] + event["size"]
        if event["action"] == "alloc":
            assert begin <= first < last <= end
            assert all(last <= at or at + size <= first for at, size in live.items())
            live[first] = event["size"]
        elif event["action"] == "free_completed":
            assert live.pop(first) == event["size"]
        sums.append(sum(live.values()))
    left = [block for block in arena["blocks"] if block["state"] == "active_allocated"]
    assert {block["address"]: block["size"] for block in left} == live
    return sums


@pytest.mark.parametrize("below", [{}, {"host_budget": "8MiB", "policy": "offload"}])
def test_snapshot_is_the_plan(tmp_path: Path, below: dict[str, Any]) -> None:
    job = WideJob()
    path = tmp_path / "step.pickle"
    with compiled(job.step, job.example, budget="60%", **below) as step:
        for _ in range(3):
            step(*job.example)
        report = step.report()
        report.save_memory_snapshot(path)
        report.save_memory_snapshot(tmp_path / "first.pickle", variant=0)
    snapshot, ran = snapshot_of(path), max(report.variants, key=lambda one: one.runs)
    assert snapshot["segments"][0]["total_size"] == ran.height_bytes
    most = max(live_bytes(snapshot))
    if below:
        assert ran.evicted_bytes > 0
        assert most <= ran.peak_bytes
    else:
        assert most == ran.peak_bytes
    times = [event["time_us"] for event in snapshot["device_traces"][0]]
    assert times == sorted(times)
    first = snapshot_of(tmp_path / "first.pickle")
    assert first["segments"][0]["total_size"] == report.variants[0].height_bytes


def test_torch_and_memory_viz_read_it(tmp_path: Path) -> None:
    job = Job()
    path = tmp_path / "step.pickle"
    with compiled(job.step, (job.x, job.y)) as step:
        step(job.x, job.y)
        step.report().save_memory_snapshot(path)
    assert {code.name for code, _, _ in pickletools.genops(path.read_bytes())} <= set(
        _DECODED.split()
    )
    snapshot = snapshot_of(path)
    assert "segments: 1" in _memory_viz.segsum(snapshot)
    assert "cudaMalloc" in _memory_viz.trace(snapshot)
    assert _memory_viz.trace_plot(snapshot).count("snapshot.pickle") == 1
    assert _memory_viz.segment_plot(snapshot).count("snapshot.pickle") == 1
    # memory_viz fails on a file with categories but without this one.
    categories = {event["category"] for event in snapshot["device_traces"][0]}
    assert {"unknown", "parameters and buffers", "activations"} <= categories
    frames = [event["frames"] for event in snapshot["device_traces"][0] if event["frames"]]
    names = {frame["name"] for one in frames for frame in one}
    assert any("decision: " in name for name in names)
    assert any(frame["filename"].endswith("api_models.py") for one in frames for frame in one)


def test_trace_has_the_spans_of_the_step(tmp_path: Path) -> None:
    job = Job()
    path = tmp_path / "step.json"
    with compiled(job.step, (job.x, job.y)) as step:
        step(job.x, job.y)
        report = step.report()
        report.save_trace(path, variant=0)
    events = json.loads(path.read_text())["traceEvents"]
    one = report.variants[0]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == one.ops + one.recomputed_ops
    end_us = max(event["ts"] + event["dur"] for event in spans)
    assert end_us == pytest.approx(one.predicted_s * 1e6)


@pytest.mark.parametrize("variant", [-1, 7, "first"])
def test_a_variant_that_is_none_is_refused(tmp_path: Path, variant: Any) -> None:
    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        report = step.report()
    with pytest.raises(fitstep.FitstepError, match=r"a number from 0 to \d") as caught:
        report.save_memory_snapshot(tmp_path / "none.pickle", variant=variant)
    assert repr(variant) in str(caught.value)
    assert not (tmp_path / "none.pickle").exists()


def test_a_report_inside_a_step_changes_nothing(tmp_path: Path) -> None:
    job = Job()
    step: Any = None

    def train_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if step is not None:
            step.report().save_memory_snapshot(tmp_path / "inside.pickle")
        return job.step(x, y)

    with compiled(train_step, (job.x, job.y), model=job.model, optimizer=job.optimizer) as made:
        step = made
        loss = made(job.x, job.y)
        assert loss.isfinite()
    live_bytes(snapshot_of(tmp_path / "inside.pickle"))
