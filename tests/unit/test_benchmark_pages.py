"""The pages of benchmarks show the measured results."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator() -> Any:
    spec = importlib.util.spec_from_file_location("pages", ROOT / "benchmarks" / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_current(generator: Any) -> None:
    folder = ROOT / "docs" / "benchmarks"
    found = {path.name: path.read_text() for path in folder.glob("*.md")}
    assert found == generator.pages(), "run: python benchmarks/pages.py"


def test_losses_are_named(generator: Any) -> None:
    rows = [
        {"name": "a", "value": 5, "unit": "ms", "goal": 4, "met": False},
        {"name": "b", "value": 5, "unit": "ms", "goal": 9, "met": True, "flink": 4},
        {"name": "c", "value": 5, "unit": "/s", "goal": None, "met": None, "flink": 4},
        {"workload": "W", "engine": "penstock", "rate": 100},
        {"workload": "W", "engine": "other", "rate": 150},
        {"workload": "V", "engine": "penstock", "rate": 100},
        {"workload": "V", "engine": "other", "rate": 50},
    ]
    assert generator.losses(rows) == [
        "a: 5 ms, not 4",
        "b: 5 ms, Flink 4",
        "W: other handles 1.5 times as many records a second",
    ]
