"""Copies to tiers below in codes: chosen behind the first step, with plain PyTorch's bits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fitstep.memory.profile_cache import ProfileCache
from fitstep_kit.measures.bits import Fingerprint, differences, fingerprint
from fitstep_kit.measures.resident import resident_bytes
from fitstep_kit.subjects.jobs import Job, compiled
from torch import Tensor, nn

import fitstep

STEPS = 4
QUICK, SLOW = 10**12, 10**7  # Bytes per second.


def relus() -> Job:
    """Half of every activation is zero."""

    def make() -> nn.Module:
        layers: list[nn.Module] = []
        for _ in range(6):
            layers += [nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.1)]
        return nn.Sequential(*layers)

    return Job(make, torch.linspace(-1, 1, 1024 * 128).reshape(1024, 128), 128)


def assume(monkeypatch: pytest.MonkeyPatch, coding_bytes_per_s: int) -> None:
    """A slow drive, and codes of that speed, whatever they are here and now."""
    measure_link, measure_codecs = ProfileCache.disk_link, ProfileCache.codecs

    def disk_link(cache: ProfileCache, size: int, file: dict[str, Any]) -> str:
        machine = json.loads(measure_link(cache, size, file))
        for way in ("evict", "prefetch"):
            machine["links"][0][way] |= {"alone_bytes_per_s": SLOW, "both_bytes_per_s": SLOW}
        return json.dumps(machine)

    def codecs(cache: ProfileCache, piece_bytes: int) -> str:
        machine = json.loads(measure_codecs(cache, piece_bytes))
        for codec in machine["codecs"]:
            codec["encode_bytes_per_s"] = codec["decode_bytes_per_s"] = coding_bytes_per_s
        return json.dumps(machine)

    monkeypatch.setattr(ProfileCache, "disk_link", disk_link)
    monkeypatch.setattr(ProfileCache, "codecs", codecs)


def on_disk(folder: Path, **options: Any) -> tuple[Job, fitstep.Step]:
    job = relus()
    options = {"policy": "offload", "disk_budget": "900%", "disk_dir": folder, **options}
    return job, compiled(job, "60%", **options)


def test_copies_in_codes_keep_the_bits_and_write_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assume(monkeypatch, QUICK)
    ours, step = on_disk(tmp_path)
    assert step.report().variants[-1].coded_copies == [], "nobody has looked yet"
    found = ours.train(step, STEPS)
    report = step.report()
    steady = report.variants[-1]
    assert steady.coded_copies, str(report)
    for copy in steady.coded_copies:
        assert copy.tier == "disk"
        assert copy.code in ("zero_value", "zstd")
        assert 0 < copy.written_bytes < copy.size_bytes
        assert copy.name
    whole = sum(copy.size_bytes for copy in steady.coded_copies)
    written = sum(copy.written_bytes for copy in steady.coded_copies)
    assert written < 0.8 * whole
    assert f"  codes  {len(steady.coded_copies)} values" in str(report)
    step.close()
    theirs, without = on_disk(tmp_path, disk_codes=False)
    assert differences(found, theirs.train(without, STEPS)) == []
    plain_report = without.report()
    without.close()
    assert plain_report.variants[-1].coded_copies == []
    assert "  codes  " not in str(plain_report)
    assert report.disk_written_bytes < plain_report.disk_written_bytes
    assert report.disk_read_bytes < plain_report.disk_read_bytes
    plain = relus()
    assert differences(found, plain.train(plain.step, STEPS)) == []


def test_codes_that_are_slower_than_the_drive_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assume(monkeypatch, SLOW // 10)
    ours, step = on_disk(tmp_path)
    found = ours.train(step, STEPS)
    assert step.report().variants[-1].coded_copies == []
    step.close()
    plain = relus()
    assert differences(found, plain.train(plain.step, STEPS)) == []


def test_a_saved_plan_has_its_codes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assume(monkeypatch, QUICK)
    ours, step = on_disk(tmp_path)
    ours.train(step, STEPS)
    expected = [copy.code for copy in step.report().variants[-1].coded_copies]
    step.plan.save(tmp_path / "coded.plan")
    step.close()
    again, planned = on_disk(tmp_path, plan=tmp_path / "coded.plan")
    found = again.train(planned, STEPS)
    assert [copy.code for copy in planned.report().variants[-1].coded_copies] == expected
    planned.close()
    plain = relus()
    assert differences(found, plain.train(plain.step, STEPS)) == []


def test_a_first_step_that_fails_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assume(monkeypatch, QUICK)
    ours, step = on_disk(tmp_path)
    for _ in range(2):
        with pytest.raises(fitstep.StepFailed, match="out of bounds"):
            step(ours.x, ours.y + 999)
    assert step.report().variants[-1].coded_copies == []
    ours.train(step, 3)
    assert step.report().variants[-1].coded_copies


def test_copies_to_the_host_in_codes_keep_the_bits_and_take_less_there() -> None:
    ours = relus()
    step = compiled(ours, "60%", policy="offload", host_budget="900%", host_codes=True)
    assert step.report().variants[-1].coded_copies == [], "nobody has looked yet"
    reserved = step.report().variants[-1].evicted_bytes
    torch.manual_seed(6)
    for _ in range(2):  # The second has the optimizer's state, and is looked at.
        step(ours.x, ours.y)
        looked = step.report()
        assert [one.evicted_bytes for one in looked.variants] == [reserved, reserved], "in no code"
        assert [one.coded_copies for one in looked.variants] == [[], []]
    step.close()
    ours = relus()
    step = compiled(ours, "60%", policy="offload", host_budget="900%", host_codes=True)
    found = ours.train(step, STEPS)
    report = step.report()
    step.close()
    steady = report.variants[-1]
    assert steady.coded_copies, str(report)
    assert {copy.tier for copy in steady.coded_copies} == {"host"}
    assert {copy.code for copy in steady.coded_copies} <= {"zero_value", "zstd"}
    assert f"  codes  {len(steady.coded_copies)} values" in str(report)
    assert "written to the host of" in str(report)
    assert steady.evicted_bytes < 0.8 * reserved
    # The first step copies all as it is; from then on no more than that, as the contents are.
    assert reserved < report.evicted_bytes < reserved + (STEPS - 1) * 0.8 * reserved
    assert report.prefetched_bytes == report.evicted_bytes
    assert report.violations == 0
    plain = relus()
    assert differences(found, plain.train(plain.step, STEPS)) == []


def test_what_is_evicted_to_the_host_is_not_coded_unless_that_is_asked_for() -> None:
    ours = relus()
    step = compiled(ours, "60%", policy="offload", host_budget="900%")
    ours.train(step, 2)
    assert step.report().variants[-1].coded_copies == []
    step.close()


def held_on_the_host(*, host_codes: bool) -> int:
    """Resident bytes by which three steps grow that evict values of which nearly all are zero."""

    def make() -> nn.Module:
        layers: list[nn.Module] = []
        for _ in range(8):
            linear = nn.Linear(64, 64)
            nn.init.constant_(linear.bias, -5.0)
            layers += [linear, nn.ReLU()]
        return nn.Sequential(*layers)

    job = Job(make, torch.linspace(-1, 1, 32768 * 64).reshape(32768, 64), 64)
    step = compiled(job, "60%", policy="offload", host_budget="900%", host_codes=host_codes)
    before = resident_bytes()
    job.train(step, 3)
    grown = resident_bytes() - before
    evicted = step.report().variants[-1].evicted_bytes
    step.close()
    assert host_codes or evicted > 16 * 2**20
    return grown


def test_codes_on_the_host_free_the_memory_that_they_do_not_need() -> None:
    assert held_on_the_host(host_codes=True) < held_on_the_host(host_codes=False) - 8 * 2**20


def test_codes_beside_homes_on_the_host_for_two_shapes_and_contents_of_all_kinds() -> None:
    def train(job: Job, step: Callable[..., Tensor]) -> Fingerprint:
        torch.manual_seed(6)
        losses = []
        for i in range(12):
            x = job.x[: 1024 if i % 2 == 0 else 512]
            losses.append(step(x, job.y[: len(x)]).detach().clone())
            if i in (5, 7):  # Of the activations none is zero any more; then nearly all are.
                with torch.no_grad():
                    for layer in job.model.children():
                        if isinstance(layer, nn.Linear):
                            layer.bias += 9 if i == 5 else -20
        return fingerprint(model=job.model, optimizer=job.optimizer, losses=losses)

    ours = relus()
    with pytest.raises(fitstep.BudgetTooSmall) as too_small:
        compiled(ours, 1, host_budget="900%")
    least = too_small.value.least_found_bytes
    assert least is not None
    step = compiled(ours, least, host_budget="900%", host_codes=True)
    found = train(ours, step)
    report = step.report()
    assert any(home.is_below for home in step._session.homes.values())
    assert sum(bool(one.coded_copies) for one in report.variants) >= 2, str(report)
    step.close()
    plain = relus()
    assert differences(found, train(plain, plain.step)) == []


def test_a_plan_with_codes_on_the_host_is_saved_with_them(tmp_path: Path) -> None:
    ours = relus()
    options: dict[str, Any] = {"policy": "offload", "host_budget": "900%"}
    step = compiled(ours, "60%", **options, host_codes=True)
    ours.train(step, STEPS)
    expected = [(copy.name, copy.code) for copy in step.report().variants[-1].coded_copies]
    step.plan.save(tmp_path / "coded.plan")
    step.close()
    again = relus()
    planned = compiled(again, "60%", host_budget="900%", plan=tmp_path / "coded.plan")
    found = again.train(planned, STEPS)
    steady = planned.report().variants[-1]
    planned.close()
    assert [(copy.name, copy.code) for copy in steady.coded_copies] == expected
    plain = relus()
    assert differences(found, plain.train(plain.step, STEPS)) == []


def test_codes_on_the_host_need_a_host_tier() -> None:
    with pytest.raises(fitstep.SettingError, match="False without host_budget="):
        compiled(relus(), "60%", host_codes=True)
    with pytest.raises(fitstep.SettingError, match="host_codes="):
        compiled(relus(), "60%", host_budget="900%", host_codes="yes")


def test_a_joining_step_has_the_codes_of_the_first() -> None:
    job = relus()
    step = compiled(job, "300%", host_budget="900%")
    with pytest.raises(fitstep.BudgetError, match="host_codes=True, but this model"):
        compiled(job, None, host_codes=True)
    step.close()
    coded = compiled(job, "300%", host_budget="900%", host_codes=True)
    compiled(job, None, host_codes=True).close()
    coded.close()


def test_the_switch_is_one(tmp_path: Path) -> None:
    with pytest.raises(fitstep.SettingError, match="disk_codes="):
        on_disk(tmp_path, disk_codes="no")
