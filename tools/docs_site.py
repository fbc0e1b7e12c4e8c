"""What mkdocs calls to build the site from the repository as it is (mkdocs.yml, `make docs`).

Readers of the repository and of the site see the same pages. So the list of pages in docs/README.md
is the site's navigation, the documents at the root are pages too, and a link to a file that is no
page becomes the path of the file.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
INDEX = "README.md"
# What a report holds, and no user writes by name.
UNNAMED = ["steps.report.VariantReport"]
NAMES = "<!-- The site shows all names of fitstep.__all__ here. -->"
# Documents at the root -> their pages.
AT_ROOT = {
    "README.md": "overview.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_OUTSIDE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^>]*>")


def reference() -> str:
    """A heading for each group of names of `fitstep.__all__`, and for each name what mkdocstrings
    makes of its docstring."""
    tree = ast.parse((ROOT / "python" / "fitstep" / "__init__.py").read_text(encoding="utf-8"))
    groups: dict[str, list[str]] = {"Functions": [], "What they return": [], "Errors": []}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for name in [entry.name for entry in node.names]:
                is_error = node.module == "errors"
                group = "What they return" if name[0].isupper() else "Functions"
                groups["Errors" if is_error else group].append(name)
    groups["What they return"] += UNNAMED
    return "\n\n".join(
        f"## {title}\n\n" + "\n\n".join(f"::: fitstep.{name}" for name in names)
        for title, names in groups.items()
    )


def navigation(index: str) -> list[dict[str, Any]]:
    """The sections (`## Title`) of the index and the page of each entry of their lists."""
    nav: list[dict[str, Any]] = [{"Home": INDEX}]
    for part in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        links = re.findall(r"^- \[([^\]]*)\]\(([^)#]+)\)", body, re.MULTILINE)
        pages = [(text, page_of(f"docs/{path}")) for text, path in links]
        if entries := [{text: page} for text, page in pages if page]:
            nav.append({title: entries})
    return nav


def page_of(path: str) -> str | None:
    """The page, seen from docs/, that shows a file of the repository; None if no page does."""
    path = posixpath.normpath(path)
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return AT_ROOT.get(path)


def with_links_of_site(markdown: str, page: str) -> str:
    """The text of a page, with links to other pages as the site has them."""
    names = {shown: name for name, shown in AT_ROOT.items()}
    source = posixpath.dirname(names.get(page, f"docs/{page}"))

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(source, found["path"]))
        shown = page_of(target)
        if shown is not None:
            path = posixpath.relpath(shown, posixpath.dirname(page) or ".")
            return f"{found['image']}[{found['text']}]({path}{found['anchor'] or ''})"
        if (ROOT / target).exists():
            return f"{found['text']} (`{target}`)"
        return found[0]  # mkdocs says that it leads nowhere.

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def on_config(config: Any) -> Any:
    config.nav = navigation((ROOT / "docs" / INDEX).read_text(encoding="utf-8"))
    return config


def on_files(files: Any, config: Any) -> Any:
    for name, page in AT_ROOT.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    markdown = markdown.replace(NAMES, reference())
    return with_links_of_site(markdown, page.file.src_uri)


def on_post_build(config: Any) -> None:
    """Raises if a page would load anything from a network."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        if found := _OUTSIDE.search(path.read_text(encoding="utf-8")):
            raise PluginError(f"{path}: loads from a network: {found[0]}")
