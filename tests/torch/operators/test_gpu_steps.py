"""Compiled steps on a stand-in for a GPU: the allocator, the device and its lanes are the real
ones, kernels are the CPU's, and streams run in any order that their events allow."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from fitstep_kit.builds import build_folder

ROOT = Path(__file__).resolve().parents[3]
BUILD = build_folder("dev")
STAND_IN = BUILD / "gpu_stand_in.so"


def run(*wanted: str, cache: Path | None = None, **of_stand_in: int) -> Any:
    """What gpu_steps.py says, in a process of its own; `cache`: where it keeps its profile."""
    if torch.version.cuda:
        pytest.skip("this torch has its own idea of a GPU")
    if not STAND_IN.exists() or not list(BUILD.glob("_cuda.*.so")):
        pytest.skip("fitstep._cuda is not built: make test does it where the CUDA toolkit is")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "LD_PRELOAD": str(STAND_IN)}
    env |= {f"FITSTEP_STAND_IN_{name.upper()}": str(n) for name, n in of_stand_in.items()}
    if cache is not None:
        env["FITSTEP_CACHE"] = str(cache)
    script = str(Path(__file__).parents[1] / "gpu_steps.py")
    done = subprocess.run(
        [sys.executable, script, str(BUILD), *wanted],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def trained() -> Any:
    return run()


CASES = [
    *(f"{o} at {b}" for o in ("sgd", "adamw", "fused") for b in ("100%", "80%")),
    "packing operators",
    "generators",
    "sgd recomputing",
    "data from the CPU",
    "sgd offloading",
    "adamw offloading",
    "sgd with weights beside the GPU",
    "adamw with weights beside the GPU",
    "sgd with a disk",
    *(f"{one} in a graph" for one in ("sgd", "fused", "adamw", "offloading", "dropout")),
    "learning rates in a graph",
    "codes on a disk",
    "codes on the host",
    "codes on the host in a graph",
    "codes given up",
    "homes stay",
    "less scratch",
    "outside",
]


@pytest.mark.parametrize("case", CASES)
def test_a_step_on_a_gpu_has_the_bits_of_plain_pytorch_there(trained: Any, case: str) -> None:
    assert trained[case].get("error") is None, trained[case]["error"]
    assert trained[case]["differs"] == []
    assert trained[case]["report"]["violations"] == 0


def test_the_cases_are_those_that_were_run(trained: Any) -> None:
    assert sorted(trained) == sorted(CASES)


def test_what_is_evicted_goes_through_pinned_memory_and_the_file(trained: Any) -> None:
    assert trained["sgd offloading"]["report"]["evicted_bytes"] > 0
    assert trained["sgd with a disk"]["report"]["disk_written_bytes"] > 0
    assert trained["codes on a disk"]["report"]["coded_copies"] > 1
    assert trained["codes on the host"]["report"]["coded_copies"] > 0
    assert trained["sgd recomputing"]["report"]["recomputed_ops"] > 0
    assert trained["adamw with weights beside the GPU"]["report"]["host_tier_bytes"] > 0


def test_steps_that_need_nothing_of_the_host_go_to_the_gpu_as_graphs(trained: Any) -> None:
    """The first run of a variant and of other numbers goes op by op, the next ones do not."""
    for name in ("sgd", "fused", "offloading", "codes on the host"):
        report = trained[f"{name} in a graph"]["report"]
        runs = 1 if "codes" in name else 2  # They are chosen behind the first run.
        assert (report["graph_runs"], report["graph_refusal"]) == (runs, ""), name
    assert trained["codes on the host in a graph"]["report"]["coded_copies"] > 0
    assert trained["offloading in a graph"]["report"]["evicted_bytes"] > 0
    assert trained["learning rates in a graph"]["report"]["graph_runs"] == 2 + 3 + 1
    for name, why in (("dropout", "random numbers"), ("adamw", "another number")):
        report = trained[f"{name} in a graph"]["report"]
        assert report["graph_runs"] == 0
        assert why in report["graph_refusal"]


@pytest.mark.parametrize("seed", range(1, 6))
def test_in_any_order_that_events_allow_the_bits_are_the_same(seed: int) -> None:
    names = "sgd offloading", "sgd with a disk", "offloading in a graph", "codes on the host"
    for name, found in run(*names, seed=seed).items():
        assert found.get("error") is None, f"{name}: {found['error']}"
        assert found["differs"] == []


def test_convolutions_take_what_less_scratch_leaves_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Workspaces are 4, 2, 1, 3 and 0 times the input, in cuDNN's order, and the second makes other
    bits. Refused one after the other they are 4, 2, 1 and 0: 1 and 0 are offered. Operands are 64
    images of 4x4, with 3 to 7 channels and with 5 to 8 in the backward part. What they are copied
    to, by any implementation, is larger than some workspaces, and never refused."""
    without = run("less scratch", cache=tmp_path / "without")["less scratch"]
    for _ in range(2):  # Measured here, then known from the disk.
        found = run("less scratch", cache=tmp_path / "with", workspaces=1)["less scratch"]
        for one in (found, found["roomy"]):
            assert one.get("error") is None, one["error"]
            assert one["differs"] == []
            assert (one["report"]["violations"], one["report"]["unforeseen_requests"]) == (0, 0)
        assert found["offered_bytes"] == [64 * 16 * 4 * n for n in (0, 3, 5, 7, 8)]
        assert found["report"]["other_forms"] > 0
        assert found["report"]["least_bytes"] == without["report"]["least_bytes"]
    monkeypatch.setenv("TORCH_CUDNN_V8_API_DISABLED", "1")  # What is kept is of all threads then.
    older = run("less scratch", cache=tmp_path / "older", workspaces=1)["less scratch"]
    assert (older["offered_bytes"], older["differs"]) == ([], [])


def test_what_kernels_take_is_counted_also_where_their_times_are_known(tmp_path: Path) -> None:
    """A kernel's code is there from its first run on, which the profile on the disk spares."""
    kernel_bytes = 1 << 16
    for _ in range(2):
        report = run("outside", cache=tmp_path, kernel_bytes=kernel_bytes)["outside"]["report"]
        assert report["outside"] > 20 * kernel_bytes
        assert report["grown"] < kernel_bytes
        # The count on the CPU is no op of the program: its number is known, and it runs at once.
        assert [("cuda" in call) for call in report["counting"]] == [True]


def test_a_call_that_fails_is_an_error_and_never_another_number() -> None:
    errors = 0
    for failing in (50, 400, 1000, 2000):
        for name in ("sgd offloading", "offloading in a graph"):
            found = run(name, failing_call=failing)[name]
            errors += "error" in found
            assert found.get("error") or found["differs"] == []
    assert errors > 0


def test_a_host_tier_that_cannot_be_page_locked_is_pageable_and_says_so() -> None:
    names = "homes stay", "adamw with weights beside the GPU"
    found = run(*names, pinned_bytes=20_000)
    stay, below = (found[name] for name in names)
    assert stay["differs"] == below["differs"] == []
    assert stay["report"]["evicted_bytes"] > 0
    assert "page-locking" in stay["report"]["host_pageable"]
    assert "not page-locked" in stay["report"]["graph_refusal"]
    assert "cannot use homes on the host" in below["error"]


def test_codes_are_given_up_where_the_host_tier_turns_pageable(trained: Any) -> None:
    """Kernels cannot write there; the bits stay."""
    report = trained["codes given up"]["report"]
    assert report["before"] > 0 and report["after"] >= report["before"]
    found = run("codes given up", pinned_bytes=600_000)["codes given up"]
    assert found.get("error") is None, found["error"]
    assert found["differs"] == []
    assert found["report"]["before"] > 0
    assert found["report"]["after"] == 0


def test_memory_that_is_refused_is_an_error_and_changes_nothing() -> None:
    """Without room of its own a call is measured in ordinary memory; a step needs its arena."""
    for failing in range(8):  # Once: the arena is asked for again.
        found = run("sgd offloading", failing_allocation=failing)["sgd offloading"]
        assert found["differs"] == [], found
    errors = 0
    for memory_bytes in (1 << n for n in range(16, 25, 2)):
        found = run("sgd offloading", memory_bytes=memory_bytes)["sgd offloading"]
        errors += "error" in found
        assert found["differs"] == [], found
    assert 0 < errors < 5
