"""The bound on import circles: `ci/import_circles.py` finds all modules of each circle."""

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "ci" / "import_circles.py"
pytest.importorskip("importlinter", reason="the contract is checked where the linters are")


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("import_circles", SOURCE)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ({"a": ["b"], "b": []}, []),
        ({"a": ["a"]}, []),
        ({"a": ["b"], "b": ["a"]}, [["a", "b"]]),
        (
            {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": ["e"], "e": ["d"], "f": ["a"]},
            [["a", "b", "c"], ["d", "e"]],
        ),
        # Two circles that share a module are one.
        ({"a": ["b", "c"], "b": ["a"], "c": ["a"]}, [["a", "b", "c"]]),
        ({"a": ["outside"]}, []),
    ],
)
def test_circles(module, imports, expected):
    assert module.circles(imports) == expected


def test_a_long_chain_needs_no_deep_stack(module):
    imports = {str(number): [str(number + 1)] for number in range(5000)} | {"5000": ["0"]}
    [circle] = module.circles(imports)
    assert len(circle) == 5001
