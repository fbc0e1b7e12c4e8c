"""Each rule of tidy.py finds the file that breaks it, and leaves alone the one that does not."""

from __future__ import annotations

import subprocess
from pathlib import Path, PurePosixPath

import pytest
import tidy

HEADER = "// What this is.\n#pragma once\n"

# (rule, path, text that breaks the rule, part of the message)
BROKEN = [
    ("layers", "fitstep/run/a.cpp", '#include "fitstep/planner/planner.h"', "run may not include"),
    ("layers", "fitstep/run/a.cpp", '#include "fitstep/simulate/simulator.h"', "simulate"),
    ("layers", "fitstep/base/a.h", '#include "fitstep/program/program.h"', "base may not"),
    ("layers", "fitstep/plan/a.cpp", "#include <torch/torch.h>", "plan may not include torch/"),
    ("layers", "fitstep/run/a.cpp", "  #  include <ATen/ATen.h>", "ATen"),
    ("layers", "fitstep/program/a.cpp", "#include <nlohmann/json.hpp>", "nlohmann"),
    ("layers", "fitstep/plan/a.cpp", "#include <zstd.h>", "zstd"),
    ("layers", "fitstep/report/a.cpp", "#include <CLI/CLI.hpp>", "CLI"),
    ("layers", "fitstep/plan/a.cpp", "#include <gtest/gtest.h>", "gtest"),
    ("layers", "fitstep/plan/a.cpp", '#include "tests/support/keep_all.h"', "tests"),
    ("layers", "fitstep/run/a.cpp", "#include <cuda_runtime.h>", "cuda"),
    ("layers", "fitstep/run/a.cpp", '#include "fitstep_torch/call.h"', "fitstep_torch"),
    ("layers", "fitstep_torch/a.cpp", '#include "cli/verbs.h"', "cli"),
    ("rooms", "fitstep_torch/lower/a.h", '#include "fitstep_torch/run.h"', "not in front"),
    ("rooms", "fitstep_torch_cuda/a.h", '#include "fitstep_torch/run/variant.h"', "the face"),
    ("layers", "fitstep/misc/a.cpp", "", "not in the table"),
    ("rooms", "cli/a.cpp", '#include "fitstep/planner/layout/placer.h"', "the face"),
    ("rooms", "fitstep/planner/orders/a.h", '#include "fitstep/planner/values/a.h"', "the face"),
    ("rooms", "fitstep/planner/layout.h", '#include "fitstep/planner/values/homes.h"', "the face"),
    (
        "rooms",
        "fitstep/planner/layout/a.h",
        '#include "fitstep/planner/search.h"',
        "not in front",
    ),
    ("rooms", "fitstep/planner/layout/a.h", '#include "fitstep/planner/layout.h"', "not in front"),
    ("rooms", "fitstep/planner/attic/a.cpp", "", "not in the order"),
    ("verifier", "fitstep/plan/verify.cpp", '#include "fitstep/machine/machine.h"', "verifier"),
    ("sizes", "fitstep/run/a.cpp", "int a;\n" * 401, "401 lines, at most 400"),
    ("sizes", "fitstep/run/a.h", "int a;\n" * 201, "201 lines, at most 200"),
    ("sizes", "python/fitstep/a.py", "a = 1\n" * 401, "at most 400"),
    ("sizes", "examples/a.py", "a = 1\n" * 61, "at most 60"),
    ("sizes", "README.md", "text\n" * 151, "at most 150"),
    ("sizes", "ARCHITECTURE.md", "text\n" * 121, "at most 120"),
    ("sizes", "CONTRIBUTING.md", "text\n" * 61, "at most 60"),
    ("columns", "python/fitstep/a.py", "#" * 101, "101 columns"),
    ("headers", "fitstep/run/a.h", "#pragma once\n", "opens with"),
    ("headers", "fitstep/run/a.h", "// What this is.\n", "pragma once"),
    ("imports", "python/fitstep/a.py", "from fitstep_kit import models", "not shipped"),
    ("imports", "tests/torch/a.py", "sys.path.insert(0, folder)", "import a package"),
    ("core_habits", "fitstep/run/a.cpp", 'auto a = std::getenv("A");', "environment"),
    ("core_habits", "fitstep/run/a.cpp", "} catch (const std::exception&) {", "catches nothing"),
    ("words", "docs/a.md", "Storages are swapped out to the host.", "evict"),
    ("words", "fitstep/run/a.cpp", "// Swap in what the next op needs.", "evict"),
    ("words", "python/fitstep/a.py", "# rematerialise", "recompute"),
    ("words", "docs/a.md", "the live range of a storage", "lifetime"),
    ("words", "fitstep/planner/a.cpp", "// One chunk of the arena.", "block"),
    ("words", "fitstep/planner/a.cpp", "int d2h_bytes = 0;", "device.h"),
    ("todo", "cli/a.cpp", "// TODO: later", "TODO(#number)"),
    ("todo", "cli/a.cpp", "// FIXME", "TODO(#number)"),
    ("nolint", "cli/a.cpp", "int a;  // NOLINT", "names its check"),
    ("nolint", "cli/a.cpp", "// NOLINTNEXTLINE", "names its check"),
]

# (rule, path, text that looks near to a fault and is none)
SOUND = [
    ("layers", "fitstep/report/a.cpp", '#include "fitstep/run/executor.h"'),
    ("layers", "fitstep/plan/a_test.cpp", '#include "tests/support/keep_all.h"'),
    ("layers", "fitstep/plan/a_test.cpp", "#include <gtest/gtest.h>"),
    ("layers", "fitstep_torch/a.cpp", '#include "fitstep/planner/planner.h"'),
    ("rooms", "fitstep/planner/layout/a.h", '#include "fitstep/planner/layout/skyline.h"'),
    ("rooms", "fitstep/planner/layout/a.h", '#include "fitstep/planner/values.h"'),
    ("rooms", "fitstep/planner/layout.h", '#include "fitstep/planner/layout/placer.h"'),
    ("rooms", "fitstep/planner/layout/a_test.cpp", '#include "fitstep/planner/orders.h"'),
    ("rooms", "cli/a.cpp", '#include "fitstep/planner/layout.h"'),
    ("layers", "fitstep_torch/a.cpp", "#include <torch/csrc/utils/pybind.h>"),
    ("layers", "cli/a.cpp", "#include <CLI/CLI.hpp>"),
    ("layers", "tests/property/a_test.cpp", "#include <rapidcheck.h>"),
    ("verifier", "fitstep/plan/verify.cpp", '#include "fitstep/program/program.h"'),
    ("sizes", "fitstep/run/a.cpp", "int a;\n" * 400),
    ("columns", "docs/a.md", "| " + "a" * 120 + " |"),
    ("headers", "fitstep/run/a.h", HEADER),
    ("core_habits", "fitstep/run/a_test.cpp", "} catch (...) {"),
    ("words", "fitstep/run/host_device.cpp", "int d2h_bytes = 0;"),
    ("words", "docs/a.md", "std::swap(a, b)"),
    ("todo", "cli/a.cpp", "// TODO(#12): when disks exist."),
    ("nolint", "cli/a.cpp", "int a;  // NOLINT(misc-definitions-in-headers)"),
]


def messages(rule: str, path: str, text: str) -> list[str]:
    return [message for _, message in getattr(tidy, rule)(PurePosixPath(path), text)]


@pytest.mark.parametrize(("rule", "path", "text", "part"), BROKEN)
def test_finds_what_breaks_the_rule(rule: str, path: str, text: str, part: str) -> None:
    found = messages(rule, path, text)
    assert len(found) == 1
    assert part in found[0]


@pytest.mark.parametrize(("rule", "path", "text"), SOUND)
def test_leaves_sound_files_alone(rule: str, path: str, text: str) -> None:
    assert messages(rule, path, text) == []


def test_every_rule_has_a_file_that_must_fail() -> None:
    assert {rule.__name__ for rule in tidy.RULES} == {row[0] for row in BROKEN}


def make_repository(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)


def test_a_fault_is_named_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = 'int a;\n\n#include "fitstep/planner/planner.h"\n'
    make_repository(tmp_path, {"fitstep/run/a.cpp": source})
    assert tidy.main([str(tmp_path)]) == 1
    assert "fitstep/run/a.cpp:3: run may not include planner" in capsys.readouterr().out


def test_a_room_has_a_face_and_no_more_sources_than_one_overlooks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {f"fitstep/planner/layout/a{i}.cpp": "int a;\n" for i in range(21)}
    make_repository(tmp_path, {**files, "fitstep/planner/layout/a_test.cpp": "int a;\n"})
    assert tidy.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "fitstep/planner/layout: 21 sources, at most 20" in out
    assert "fitstep/planner/layout: no header of the same name beside it" in out


def test_a_folder_of_scripts_has_no_more_than_one_overlooks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {f"benchmarks/steps/a{i}.py": "a = 1\n" for i in range(21)}
    files |= {f"tests/property/a{i}_test.cpp": "int a;\n" for i in range(21)}
    make_repository(tmp_path, {**files, "benchmarks/a.py": "a = 1\n"})
    assert tidy.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "benchmarks/steps: 21 sources, at most 20",
        "tests/property: 21 sources, at most 20",
    ]


def test_a_name_in_a_document_must_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "See `fitstep/run/a.cpp`, `fitstep/run/*.cpp` and\n`fitstep/run/gone.h`, [x](gone.md).\n"
    make_repository(tmp_path, {"fitstep/run/a.cpp": "int a;\n", "README.md": text})
    assert tidy.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "README.md:2: `fitstep/run/gone.h` does not exist" in out
    assert "README.md:2: link to gone.md" in out
    assert len(out.splitlines()) == 2


def test_a_clean_repository_passes(tmp_path: Path) -> None:
    make_repository(tmp_path, {"fitstep/run/a.h": HEADER, "README.md": "See `fitstep/run/a.h`.\n"})
    assert tidy.main([str(tmp_path)]) == 0


def test_a_link_to_a_heading_must_find_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = "# A `b()`: c\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n"
    links = "[a](docs/a.md#a-b-c) [b](docs/a.md#twice-1)\n[c](docs/a.md#no-heading) [d](#gone)\n"
    make_repository(tmp_path, {"docs/a.md": page, "README.md": links})
    assert tidy.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "README.md:2: docs/a.md has no heading #no-heading [dead_anchors]",
        "README.md:2: README.md has no heading #gone [dead_anchors]",
    ]


def test_the_index_lists_every_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = {"docs/README.md": "[a](a.md)\n", "docs/a.md": "", "docs/how-to/b.md": ""}
    make_repository(tmp_path, pages)
    assert tidy.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == ("docs/how-to/b.md: docs/README.md does not list this page\n")
