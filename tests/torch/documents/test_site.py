"""`make docs` builds; every name of the package has its entry; nothing comes from a network."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    python = ROOT / ".venv-docs" / "bin" / "python"  # What `make docs` uses.
    if not python.exists():
        for name in ("mkdocs", "material", "mkdocstrings_handlers.python"):
            pytest.importorskip(name, reason="needs tools/requirements-docs.txt")
        python = Path(sys.executable)
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [str(python), "-m", "mkdocs", "build", "-q", "--strict", "-d", str(folder)],
        cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    return folder


def test_every_name_of_the_package_has_an_entry(site: Path) -> None:
    tree = ast.parse((ROOT / "python" / "fitstep" / "__init__.py").read_text())
    names = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    page = (site / "reference" / "api.html").read_text()
    assert [name for name in names if f'id="fitstep.{name}"' not in page] == []


def test_search_needs_no_server(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text()
    assert index.startswith("var __index")
    assert "changes which memory a tensor uses" in index.replace("\\n", " ")


def test_documents_at_the_root_are_pages(site: Path) -> None:
    overview = (site / "overview.html").read_text()
    assert 'href="tutorial.html"' in overview
    assert "architecture.html" in overview
