"""Plans that evict to a disk tier: plain PyTorch's bits, its failures, and what stays behind."""

import errno
import faulthandler
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from failing_steps import assert_failed_steps_change_nothing
from fitstep_kit.measures.bits import differences
from fitstep_kit.measures.open_files import open_files
from fitstep_kit.subjects.jobs import JOBS, STEPS, Job, compiled, mlp, offloaded_plan

import fitstep


@pytest.mark.parametrize(
    ("kind", "tiers"), [("mlp", (2,)), ("gpt", (2,)), ("conv", (2,)), ("mlp", (1, 2))]
)
def test_everything_goes_through_the_disk_with_equal_bits(
    kind: str, tiers: tuple[int, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    below: dict[str, Any] = {"disk_budget": "900%", "disk_dir": folder}
    if 1 in tiers:
        below["host_budget"] = "900%"
    plan = offloaded_plan(JOBS[kind], tmp_path / "offloaded.plan", tiers, **below)
    ours = JOBS[kind]()
    step = compiled(ours, "900%", plan=plan, **below)
    found = ours.train(step)
    report = step.report()
    assert list(folder.iterdir()) == [], "the file has no name"
    assert len(open_files(folder)) == 1
    step.close()
    assert open_files(folder) == []
    plain = JOBS[kind]()
    assert differences(found, plain.train(plain.step)) == []
    steady = report.variants[-1]
    assert steady.disk_written_bytes == steady.disk_read_bytes > 0
    assert (steady.evicted_bytes > 0) == (1 in tiers)
    assert report.disk_written_bytes >= (STEPS - 1) * steady.disk_written_bytes
    assert report.disk_written_bytes == report.disk_read_bytes
    assert 0 < steady.disk_tier_bytes <= report.disk_budget_bytes
    assert f"so far in {folder}" in str(report)
    assert step.report().disk_written_bytes == report.disk_written_bytes, "also when closed"


@pytest.fixture(scope="module")
def mlp_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "disk.plan"
    return offloaded_plan(mlp, path, (2,), disk_budget="900%")


def on_disk(job: Job, plan: Path, folder: Path, **options: Any) -> fitstep.Step:
    return compiled(job, "900%", plan=plan, disk_budget="900%", disk_dir=folder, **options)


def test_a_failed_step_changes_nothing_and_the_next_is_right(
    mlp_plan: Path, tmp_path: Path
) -> None:
    ours = mlp()
    step = on_disk(ours, mlp_plan, tmp_path)
    assert_failed_steps_change_nothing(ours, step, 5)


def break_file(folder: Path, how: str) -> Callable[[], None]:
    """Breaks the open file of a compiled step from outside; what is returned repairs it."""
    descriptor = next(
        int(entry)
        for entry in os.listdir("/proc/self/fd")
        if os.path.islink(f"/proc/self/fd/{entry}")
        and os.readlink(f"/proc/self/fd/{entry}").startswith(str(folder))
    )
    kept = os.dup(descriptor)
    if how == "full":
        other = os.open("/dev/full", os.O_RDWR)
    else:  # Whoever reads gets nothing, whoever writes is told that it went well.
        other = os.open("/dev/null", os.O_RDWR)
    os.dup2(other, descriptor)
    os.close(other)

    def repair() -> None:
        os.dup2(kept, descriptor)
        os.close(kept)

    return repair


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("full", rf"could not be evicted to disk.*{os.strerror(errno.ENOSPC)}"),
        ("gone", "could not be prefetched from disk.*no more bytes came"),
    ],
)
def test_a_drive_that_fails_in_a_step_is_a_step_that_did_not_happen(
    how: str, what: str, mlp_plan: Path, tmp_path: Path
) -> None:
    ours = mlp()
    step = on_disk(ours, mlp_plan, tmp_path)
    ours.train(step, 2)
    before = [p.detach().clone() for p in ours.model.parameters()]
    random = torch.get_rng_state()
    repair = break_file(tmp_path, how)
    for _ in range(3):
        with pytest.raises(fitstep.StepFailed, match=what) as raised:
            step(ours.x, ours.y)
        assert raised.value.unusable == ()
        assert str(tmp_path) in str(raised.value)
    assert all(torch.equal(p, q) for p, q in zip(ours.model.parameters(), before, strict=True))
    assert torch.equal(torch.get_rng_state(), random)
    repair()
    found = ours.train(step, 2)
    step.close()
    plain = mlp()
    plain.train(plain.step, 2)
    assert differences(found, plain.train(plain.step, 2)) == []


def test_checksums_can_be_left_out(mlp_plan: Path, tmp_path: Path) -> None:
    ours = mlp()
    step = on_disk(ours, mlp_plan, tmp_path, disk_checksums=False)
    found = ours.train(step)
    step.close()
    plain = mlp()
    assert differences(found, plain.train(plain.step)) == []


def test_a_step_that_is_forgotten_closes_its_file(mlp_plan: Path, tmp_path: Path) -> None:
    ours = mlp()
    step = on_disk(ours, mlp_plan, tmp_path)
    ours.train(step, 2)
    assert len(open_files(tmp_path)) == 1
    del step
    assert open_files(tmp_path) == []
    assert ours.step(ours.x, ours.y).isfinite(), "the model stays usable"


def test_a_forked_child_cannot_touch_the_file(mlp_plan: Path, tmp_path: Path) -> None:
    ours = mlp()
    step = on_disk(ours, mlp_plan, tmp_path)
    ours.train(step, 2)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            step(ours.x, ours.y)
        except fitstep.FitstepError as error:
            os._exit(0 if "fork" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    found = ours.train(step, 2)
    step.close()
    plain = mlp()
    plain.train(plain.step, 2)
    assert differences(found, plain.train(plain.step, 2)) == []


def test_a_folder_without_files_is_named_before_anything_runs(tmp_path: Path) -> None:
    ours, plain = mlp(), mlp()
    for folder in (tmp_path / "nowhere", tmp_path / "file"):
        (tmp_path / "file").write_text("")
        with pytest.raises(fitstep.DiskError, match="disk_dir=.*" + folder.name):
            compiled(ours, "900%", disk_budget="1MiB", disk_dir=folder)
    assert differences(ours.train(ours.step), plain.train(plain.step)) == []


def test_a_share_of_nothing_has_its_folder_all_the_same(tmp_path: Path) -> None:
    """A function that needs no memory yet is compiled first."""
    job, below = mlp(), {"disk_budget": "900%", "disk_dir": tmp_path}
    update = fitstep.compile(job.optimizer.zero_grad, (), "1MiB", **below)
    step = compiled(job, "1MiB", **below)
    step(job.x, job.y)
    step.close()
    update.close()


def test_settings_that_cannot_be_meant_are_named(tmp_path: Path) -> None:
    job = mlp()
    with pytest.raises(fitstep.SettingError, match="disk_budget="):
        compiled(job, "2MiB", disk_dir=tmp_path)
    for folder in (3, ""):
        with pytest.raises(fitstep.SettingError, match="disk_dir="):
            compiled(job, "2MiB", disk_budget="1MiB", disk_dir=folder)
    with pytest.raises(fitstep.SettingError, match="disk_checksums="):
        compiled(job, "2MiB", disk_budget="1MiB", disk_checksums="no")
    for budget in (0, "x", "-1GiB", True, "2000%"):
        with pytest.raises(fitstep.BudgetError, match="disk_budget="):
            compiled(job, "2MiB", disk_budget=budget)


def test_steps_that_share_a_model_share_its_file(tmp_path: Path) -> None:
    job = mlp()
    step = compiled(job, "2MiB", disk_budget="4MiB", disk_dir=tmp_path)
    assert compiled(job, "2MiB").report().disk_budget_bytes == 4 * 2**20
    with pytest.raises(fitstep.BudgetError, match="disk_budget="):
        compiled(job, "2MiB", disk_budget="5MiB")
    with pytest.raises(fitstep.BudgetError, match="disk_dir="):
        compiled(job, "2MiB", disk_budget="4MiB", disk_dir=tmp_path / "other")
    step.close()


def test_a_full_drive_is_found_before_the_first_step(mlp_plan: Path, tmp_path: Path) -> None:
    """A limit of this process on the size of files stands for a drive that is full."""
    ours, plain = mlp(), mlp()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, limits[1]))
    try:
        with pytest.raises(fitstep.DiskError, match=r"cannot take .* free") as raised:
            on_disk(ours, mlp_plan, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(tmp_path) in str(raised.value)
    assert open_files(tmp_path) == []
    assert differences(ours.train(ours.step), plain.train(plain.step)) == []


def least(make: Callable[[], Job], **below: Any) -> int:
    """The least budget that works, as the error says."""
    with pytest.raises(fitstep.BudgetTooSmall) as refused:
        compiled(make(), 1, **below)
    assert refused.value.least_found_bytes is not None
    return refused.value.least_found_bytes


@pytest.mark.parametrize(("kind", "host"), [("mlp", None), ("conv", None), ("mlp", "20%")])
def test_least_budgets_with_a_disk_give_equal_bits(kind: str, host: str | None) -> None:
    below: dict[str, Any] = {"disk_budget": "500%", "host_budget": host}
    budget = least(JOBS[kind], **below)
    ours = JOBS[kind]()
    step = compiled(ours, budget, **below)
    found = ours.train(step)
    report = step.report()
    step.close()
    plain = JOBS[kind]()
    assert differences(found, plain.train(plain.step)) == []
    assert report.violations == 0
    assert all(v.total_bytes <= budget for v in report.variants)
    assert all(v.disk_read_bytes > 0 < v.disk_written_bytes for v in report.variants)
    assert all(v.bound_s <= v.predicted_s for v in report.variants)


def test_the_offload_policy_finds_a_disk_enough() -> None:
    ours = mlp()
    step = compiled(ours, "70%", disk_budget="500%", policy="offload")
    found = ours.train(step)
    steady = step.report().variants[-1]
    step.close()
    plain = mlp()
    assert differences(found, plain.train(plain.step)) == []
    assert steady.recomputed_ops == steady.evicted_bytes == 0
    assert steady.disk_written_bytes > 0
