"""Each test that tests/README.md names for a mechanism is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
INDEX = re.findall(
    r"^\| ([^|]+) \| `([\w/]+\.py)::(\w+)` \|$", (TESTS / "README.md").read_text(), re.M
)


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("path", "test"), [pytest.param(*row[1:], id=row[0]) for row in INDEX])
def test_a_mechanism_has_its_test(path: str, test: str) -> None:
    assert test in functions_of(path)


def test_each_mechanism_is_named_once() -> None:
    mechanisms = [mechanism for mechanism, _, _ in INDEX]
    assert len(mechanisms) > 40
    assert len(set(mechanisms)) == len(mechanisms)
