"""What a copy to the host tier costs is measured once per machine and size of the tier."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fitstep.memory.profile_cache import ProfileCache

from fitstep import _core

MEBIBYTE = 1 << 20


def test_a_link_is_measured_once_and_kept_with_the_profile(tmp_path: Path) -> None:
    measured = ProfileCache(folder=tmp_path).host_link(MEBIBYTE)
    assert _core.is_link(measured)
    again = ProfileCache(folder=tmp_path)
    assert again.host_link(MEBIBYTE) == measured
    assert again.host_link(MEBIBYTE + 1) == measured, "the size of blocks is a power of two"


def test_a_small_tier_is_measured_with_small_blocks(tmp_path: Path) -> None:
    cache = ProfileCache(folder=tmp_path)
    cache.host_link(1)
    cache.host_link(MEBIBYTE)
    cache.host_link(1 << 48)
    kept = json.loads(cache.path.read_text(encoding="utf-8"))["host_links"]
    assert {int(of.split(",")[0]) for of in kept} == {1 << 14, MEBIBYTE // 8, 1 << 25}


def test_a_damaged_link_is_measured_anew(tmp_path: Path) -> None:
    cache = ProfileCache(folder=tmp_path)
    cache.host_link(MEBIBYTE)
    content = json.loads(cache.path.read_text(encoding="utf-8"))
    content["host_links"] = dict.fromkeys(content["host_links"], "{")
    cache.path.write_text(json.dumps(content), encoding="utf-8")
    assert _core.is_link(ProfileCache(folder=tmp_path).host_link(MEBIBYTE))


def test_what_another_build_of_fitstep_has_found_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "_core.so"
    other.write_bytes(b"of another build")
    path = ProfileCache(folder=tmp_path).path
    monkeypatch.setattr(_core, "__file__", str(other))
    assert ProfileCache(folder=tmp_path).path != path
