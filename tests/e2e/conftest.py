"""Fixtures that the end-to-end tests share."""

from pathlib import Path

import pytest


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Return a folder with a text in two files."""
    folder = tmp_path / "text"
    folder.mkdir()
    line = "The quick brown fox, and the lazy dog; the End.\n"
    for index in range(2):
        (folder / f"part-{index}.txt").write_text(line * 500)
    return folder
