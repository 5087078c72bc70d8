"""Every citation of a mechanism or a promise leads to its row in docs/internals.

A citation of a mechanism is ``M19``, of a promise ``F-11``, in the text of a docstring or comment.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INTERNALS = ROOT / "docs" / "internals"
MECHANISM = re.compile(r"(?<![\w.-])M\d{1,2}\b")
PROMISE = re.compile(r"(?<![\w.-])[A-F]-\d{1,2}\b(?![-\w])")
RANGE = re.compile(r"\b([MA-F]-?)(\d+) to \1(\d+)\b")
MECHANISMS = re.findall(r"^\| (M\d+) \|", (INTERNALS / "mechanisms.md").read_text(), re.M)
PROMISES = re.findall(r"^\| ([A-F]-\d+) \|", (INTERNALS / "promises.md").read_text(), re.M)
PLACES = re.findall(
    r"^\| (M\d+) \| [^|]+ \| [^|]* \| `([\w/]+\.py)(?:::(\w+))?` \|$",
    (ROOT / "ARCHITECTURE.md").read_text(),
    re.M,
)


def texts_of_python(path: Path) -> str:
    """Return the docstrings of a module and of its definitions."""
    text = path.read_text()
    if not (MECHANISM.search(text) or PROMISE.search(text) or RANGE.search(text)):
        return ""  # parsing takes most of the time
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse(text))
    return "\n".join(ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds))


def texts_of_rust(path: Path) -> str:
    return "\n".join(re.findall(r"^\s*//.*", path.read_text(), re.M))


@cache
def texts() -> dict[str, str]:
    """Return the text that may contain citations, by file."""
    found = {}
    for folder in ("python/penstock", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            if path != Path(__file__):
                found[f"{path.relative_to(ROOT)}"] = texts_of_python(path)
    for path in (ROOT / "rust").rglob("*.rs"):
        if "target" not in path.parts:
            found[f"{path.relative_to(ROOT)}"] = texts_of_rust(path)
    return found


def cited(pattern: re.Pattern[str], text: str) -> set[str]:
    """Return the names that a text cites, including all names that a range covers."""
    names = set(pattern.findall(text))
    for letter, first, last in RANGE.findall(text):
        names.update(f"{letter}{number}" for number in range(int(first), int(last) + 1))
    return {name for name in names if pattern.fullmatch(name)}


def test_every_cited_mechanism_has_its_row() -> None:
    found = {(path, name) for path, text in texts().items() for name in cited(MECHANISM, text)}
    assert len(found) > 150
    assert sorted((path, name) for path, name in found if name not in MECHANISMS) == []


def test_every_cited_promise_has_its_row() -> None:
    found = {
        (path, name)
        for path, text in texts().items()
        if path.startswith(("tests/", "rust/"))
        for name in cited(PROMISE, text)
    }
    assert sorted((path, name) for path, name in found if name not in PROMISES) == []


def test_every_promise_is_named_by_a_test() -> None:
    named = set().union(
        *(cited(PROMISE, t) for path, t in texts().items() if path.startswith(("tests/", "rust/")))
    )
    assert [name for name in PROMISES if name not in named] == []


def test_mechanisms_are_numbered_without_gaps() -> None:
    assert [f"M{number}" for number in range(1, len(MECHANISMS) + 1)] == MECHANISMS
    assert len(MECHANISMS) >= 60


def test_every_mechanism_has_its_place_in_the_architecture() -> None:
    assert [number for number, _, _ in PLACES] == MECHANISMS


@pytest.mark.parametrize(("path", "name"), [pytest.param(*p[1:], id=p[0]) for p in PLACES])
def test_the_place_of_a_mechanism_is_there(path: str, name: str) -> None:
    file = ROOT / "python" / "penstock" / path
    tree = ast.parse(file.read_text())
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert not name or name in classes
