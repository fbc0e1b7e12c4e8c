"""Which torch is refused, and with which sentence, before any module is loaded."""

import ast
import re
import runpy
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fitstep.state.taken import STORAGE_MOVERS, STORAGE_READERS, STORAGE_WRITERS
from fitstep_kit.builds import ROOT

from fitstep import versions


def built(folder: Path, *names: str) -> Path:
    """A folder as of an installation that has modules for these torches."""
    for name in names:
        (folder / name).mkdir()
        (folder / name / f"_core{EXTENSION_SUFFIXES[0]}").touch()
    return folder


def refusal(version: str, folder: Path) -> str:
    with pytest.raises(ImportError) as caught:
        versions.modules_for(version, folder)
    return str(caught.value)


def test_a_wheel_is_for_each_build_and_patch_release_of_its_torch(tmp_path: Path) -> None:
    folder = built(tmp_path, "2.13")
    for version in ("2.13.0", "2.13.0+cpu", "2.13.1+cu130", "2.13.0a0+git0"):
        assert versions.modules_for(version, folder) == folder / "2.13"


def test_a_module_in_the_tree_is_for_its_own_build_of_torch(tmp_path: Path) -> None:
    folder = built(tmp_path, "2.13.0+cpu", "2.15.0+cu132")
    assert versions.modules_for("2.15.0+cu132", folder).name == "2.15.0+cu132"
    said = refusal("2.14.1+cpu", folder)
    assert said.startswith(
        "this fitstep is built for torch 2.13.0+cpu, 2.15.0+cu132, and you have torch 2.14.1+cpu: "
    )
    assert "PYTHON=/path/to/python make demo" in said


def test_a_wheel_for_another_torch_says_both_ways_out(tmp_path: Path) -> None:
    assert refusal("2.15.0+cu132", built(tmp_path, "2.13")) == (
        "this wheel of fitstep is for torch 2.13, and you have torch 2.15.0+cu132: install the "
        "wheel for torch 2.15, or pip install 'torch==2.13.*'"
    )


def test_no_wheel_is_promised_for_a_torch_that_is_too_old(tmp_path: Path) -> None:
    assert refusal("2.10.0", built(tmp_path, "2.13")) == (
        "this wheel of fitstep is for torch 2.13, and you have torch 2.10.0: "
        "pip install 'torch==2.13.*'"
    )


def test_2_1_and_2_10_are_older_than_2_11(tmp_path: Path) -> None:
    folder = built(tmp_path, "2.13.0+cpu")
    for version in ("1.13.1", "2.1.2", "2.10.0+cpu"):
        assert refusal(version, folder).startswith(f"torch {version} is older than 2.11")


def test_what_another_python_has_built_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "2.13").mkdir()
    (tmp_path / "2.13" / "_core.cpython-39-other.so").touch()
    assert refusal("2.13.0", tmp_path).startswith("fitstep's compiled module is missing")


def test_only_newer_than_the_newest_is_untested() -> None:
    newest = versions.NEWEST
    assert not versions.is_untested(f"{newest[0]}.{newest[1]}.9+cpu")
    assert versions.is_untested(f"{newest[0]}.{newest[1] + 1}.0.dev20270101+cpu")
    assert versions.is_untested("3.0.0")


def test_a_torch_without_a_name_that_we_use_is_refused_by_that_name() -> None:
    assert versions.missing_names(torch) == []
    other = SimpleNamespace(__version__="2.16.0", _C=SimpleNamespace())
    with pytest.raises(ImportError) as caught:
        versions.check_names(other)
    said = str(caught.value)
    assert said.startswith("torch 2.16.0 has no torch._C._autograd._unsafe_set_version_counter, ")
    assert "pip install 'torch==2.15.*'" in said


def test_a_name_is_asked_of_the_versions_that_have_it() -> None:
    for version, missing in (
        ("2.11.0", []),
        ("2.12.1+cu130", ["_swap_data_ptr_"]),
        ("2.13.0+cpu", ["_swap_data_ptr_", "_resize_with_addr_"]),
        ("2.16.0", ["_swap_data_ptr_", "_resize_with_addr_"]),
    ):
        other = SimpleNamespace(__version__=version)
        names = [name for name in versions.missing_names(other) if name.endswith("r_")]
        assert names == [f"torch.UntypedStorage.{name}" for name in missing], version


class PrivateNames(ast.NodeVisitor):
    """The names of torch with an underscore that a module uses, by what it calls them."""

    def __init__(self, tree: ast.Module) -> None:
        self.found: set[str] = set()
        self._of = {"torch": "torch"}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
                for name in node.names:
                    self._of[name.asname or name.name] = f"{node.module}.{name.name}"
            elif isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None:
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                whole = self.name_of(node.value)
                if isinstance(target, ast.Name) and whole is not None:
                    self._of[target.id] = whole
        self.visit(tree)

    def name_of(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return self._of.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.name_of(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        return None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self.name_of(node)
        parts = (name or "torch").split(".")[1:]
        if any(part.startswith("_") and not part.startswith("__") for part in parts):
            self.found.add(".".join(parts))
        self.generic_visit(node)


def test_each_private_name_of_torch_in_our_code_is_asked_for_at_import() -> None:
    used: set[str] = set()
    for path in (ROOT / "python" / "fitstep").rglob("*.py"):
        used |= PrivateNames(ast.parse(path.read_text(encoding="utf-8"))).found
    patched = {*STORAGE_READERS, *STORAGE_WRITERS, *STORAGE_MOVERS}
    used |= {f"UntypedStorage.{name}" for name in patched if re.match("_[^_]", name)}
    used |= {*versions.NEEDED_SINCE}  # The torch of this test may have fewer.
    asked = {*versions.NEEDED, *versions.NEEDED_SINCE, *versions.ONLY_WITH_A_GPU}
    outer = {".".join(name.split(".")[:n]) for name in asked for n in range(1, name.count(".") + 1)}
    inner = {name for name in used if name.rpartition(".")[0] in asked}
    assert used - outer - inner == asked


@pytest.mark.skipif(not hasattr(torch, "_dynamo"), reason="this torch was built without dynamo")
def test_torch_calls_compiled_code_through_the_door_that_we_watch() -> None:
    from torch._dynamo import eval_frame

    assert hasattr(eval_frame, "_callback_from_stance")


def test_the_doctor_knows_the_versions_without_the_module(tmp_path: Path) -> None:
    stub = "__version__ = '2.10.0'\n"
    (tmp_path / "torch" / "utils" / "_pytree").mkdir(parents=True)
    for folder in ("torch", "torch/utils", "torch/utils/_pytree"):
        (tmp_path / folder / "__init__.py").write_text(stub, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "doctor.py")],
        env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "torch 2.10.0 is older than 2.11" in done.stderr


def test_a_wheel_requires_the_torch_that_it_was_built_with() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "wheel_metadata.py"))["WheelMetadata"]()
    minor = ".".join(torch.__version__.split(".")[:2])
    made.build_state("metadata_wheel")
    fields = made.dynamic_metadata({}, {})
    assert fields["dependencies"] == [f"torch=={minor}.*", "numpy", "rich"]
    assert fields["version"].endswith(f"+torch{minor}")
    made.build_state("sdist")
    assert made.dynamic_metadata({}, {})["dependencies"] == ["torch>=2.11", "numpy", "rich"]
