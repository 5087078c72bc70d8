"""Every test that docs/checkpoint_scenarios.md names exists, and each mechanism has its rows."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "checkpoint_scenarios.md").read_text()
REFERENCE = re.compile(r'`([\w/]+\.py)::(\w+)`(?: "([^"]+)")?')
REFERENCES = sorted(set(REFERENCE.findall(PAGE)))


@cache
def names_in(path: str) -> tuple[set[str], set[str]]:
    """Return the names of functions in a test file, and its texts."""
    tree = ast.parse((ROOT / "tests" / path).read_text())
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return functions, {text for text in texts if isinstance(text, str)}


@pytest.mark.parametrize(("path", "test", "scenario"), REFERENCES)
def test_it_is_there(path: str, test: str, scenario: str) -> None:
    functions, texts = names_in(path)
    assert test in functions
    assert not scenario or scenario in texts


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    without = [row for row in rows if not REFERENCE.search(row)]
    assert set(without) == {"| scenario | test |"}


def test_every_mechanism_has_rows() -> None:
    sections = re.findall(r"^## (F\d+[ab]?)(?: and (F\d+))?:", PAGE, re.M)
    named = [name for pair in sections for name in pair if name]
    numbers = [int(re.sub(r"\D", "", name)) for name in named]
    assert sorted(set(numbers)) == list(range(1, 16))
