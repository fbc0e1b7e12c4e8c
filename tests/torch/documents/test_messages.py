"""docs/how-to/read-an-error.md has every message, and no message that no longer exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "read-an-error.md"
WORDS = 4  # So many words in a row are enough to find a message.


def plain(text: str) -> str:
    return " ".join(text.replace("`", "").split())


def fixed_parts(node: ast.expr) -> list[str]:
    """What of a message is the same each time it is raised."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return [part for value in node.values for part in fixed_parts(value)]
    if isinstance(node, ast.BinOp):
        return fixed_parts(node.left) + fixed_parts(node.right)
    return []


def messages() -> Iterator[tuple[str, list[str]]]:
    """(file and line, fixed parts) of each error that the package makes with a text of its own."""
    for path in sorted((ROOT / "python" / "fitstep").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", "")
            if name in {"AttributeError", "SettingError"}:  # One row is for all settings.
                continue
            if name.endswith("Error") or name == "StepFailed":
                yield f"{path.relative_to(ROOT)}:{node.lineno}", fixed_parts(node.args[0])
    todo = (ROOT / "python" / "fitstep" / "base" / "todo.py").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(todo)):
        if isinstance(node, ast.Dict):
            for key in node.keys:
                yield "python/fitstep/base/todo.py", fixed_parts(key) if key else []


def windows(part: str) -> Iterator[str]:
    words = plain(part).split()
    if len(words) < 2:  # One word is on every page.
        return
    for start in range(max(1, len(words) - WORDS + 1)):
        yield " ".join(words[start : start + WORDS])


def test_every_message_is_on_the_page() -> None:
    page = plain(PAGE.read_text(encoding="utf-8"))
    missing = [
        f"{where}: {' … '.join(parts)}"
        for where, parts in messages()
        if len(" ".join(parts).split()) > 2
        and not any(window in page for part in parts for window in windows(part))
    ]
    assert not missing, "add a row to docs/how-to/read-an-error.md:\n" + "\n".join(missing)


@pytest.fixture(scope="module")
def texts() -> str:
    """All texts of the sources, joined as compilers join neighbours."""
    found = []
    for folder, pattern in (
        ("python/fitstep", "*.py"),
        ("fitstep", "*.cpp"),
        ("fitstep_torch", "*.cpp"),
    ):
        for path in sorted((ROOT / folder).rglob(pattern)):
            text = path.read_text(encoding="utf-8")
            found.append(re.sub(r'"(\s*\n?\s*(\+\s*)?f?)"', "", text))
    return plain("\n".join(found))


def test_no_message_of_the_page_is_out_of_date(texts: str) -> None:
    rows = re.findall(r"^\| (`.*?) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    quoted = [text for row in rows for text in re.findall(r"`([^`]*)`", row)]
    assert len(quoted) > 50
    stale = [
        text
        for text in quoted
        if not text.endswith("Error") and text not in {"BudgetTooSmall", "StepFailed"}
        for part in text.split("…")
        if part.strip(" ,") and plain(part) not in texts
    ]
    assert not stale
