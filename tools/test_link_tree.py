"""An environment inside the tree finds the package; others are left alone."""

import subprocess
import sys
import venv
from pathlib import Path

import link_tree
import pytest


def test_an_environment_of_the_tree_finds_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python" / "fitstep").mkdir(parents=True)
    (tmp_path / "python" / "fitstep" / "__init__.py").write_text("found = True\n")
    tool = tmp_path / "tools" / "link_tree.py"
    tool.parent.mkdir()
    tool.write_text(Path(link_tree.__file__).read_text())
    venv.create(tmp_path / ".venv", symlinks=True)
    python = tmp_path / ".venv" / "bin" / "python"
    monkeypatch.delenv("PYTHONPATH", raising=False)
    subprocess.run([str(python), str(tool)], check=True)
    command = [str(python), "-c", "import fitstep; assert fitstep.found"]
    subprocess.run(command, cwd="/", check=True)


def test_another_interpreter_is_left_as_it_is(tmp_path: Path) -> None:
    outside = Path(sys.base_prefix)
    assert link_tree.link(tmp_path / "tree", outside, tmp_path) is None
    assert not list(tmp_path.iterdir())
