"""Fixtures that the end-to-end tests share."""

from pathlib import Path

import pytest
from e2e.spark_jobs import write_classes


@pytest.fixture(scope="session")
def classes_of_spark() -> None:
    """Let the JVMs of the tests share Spark's classes."""
    write_classes()


@pytest.fixture(autouse=True)
def shared_classes(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("spark") is not None:
        request.getfixturevalue("classes_of_spark")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Return a folder with a text in two files."""
    folder = tmp_path / "text"
    folder.mkdir()
    line = "The quick brown fox, and the lazy dog; the End.\n"
    for index in range(2):
        (folder / f"part-{index}.txt").write_text(line * 500)
    return folder
