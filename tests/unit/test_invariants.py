"""A contract test, which runs against both planes, names every promise of the data plane.

Method: names are collected from docstrings and Rust doc comments.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "promises.md"
NAME = re.compile(r"\b[ABC]-\d+\b")
PROMISES = re.findall(r"^\| ([ABC]-\d+) \|", PAGE.read_text(), re.M)


def names_in_python(folder: str) -> set[str]:
    """Return the names in the docstrings of test functions and of methods of state machines."""
    names: set[str] = set()
    for path in (ROOT / folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.update(NAME.findall(ast.get_docstring(node) or ""))
    return names


def names_in_rust() -> set[str]:
    """Return the names in comments directly above a test, or in the text of an assertion."""
    names: set[str] = set()
    for path in (ROOT / "rust").rglob("*.rs"):
        text = path.read_text()
        if "#[test]" in text or "proptest!" in text:
            comments = re.findall(r"^\s*//[/!] .*", text, re.M)
            names.update(NAME.findall("\n".join(comments)))
    return names


@pytest.fixture(scope="module")
def contract() -> set[str]:
    """Return the names of the promises that the contract tests cover."""
    return names_in_python("tests/contract")


def test_every_promise_is_held_by_both_runtimes(contract: set[str]) -> None:
    assert [name for name in PROMISES if name not in contract] == []


def test_names_of_tests_are_promises(contract: set[str]) -> None:
    """A test that names an unknown promise has the wrong name."""
    named = contract | names_in_rust() | names_in_python("tests/unit/network")
    assert sorted(named - set(PROMISES)) == []


def test_promises_are_numbered_without_gaps() -> None:
    numbered = dict.fromkeys("ABC", 0)
    for name in PROMISES:
        letter, number = name.split("-")
        numbered[letter] += 1
        assert int(number) == numbered[letter]
    assert numbered == {"A": 22, "B": 11, "C": 13}
