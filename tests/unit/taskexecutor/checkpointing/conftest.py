"""Fixtures that the tests of checkpoints of a task share."""

import pytest
from support.changelog_subtasks import Subtask


@pytest.fixture
def subtask(tmp_path):
    """Make subtasks of a backend with options."""
    made = []

    def new(backend="hashmap", **options):
        configuration = {
            "state.backend.type": backend,
            "state.changelog.enabled": "true",
            "state.changelog.storage": "filesystem",
            "execution.checkpointing.data-inline-threshold": "0 b",
            **{f"state.changelog.{key}": value for key, value in options.items()},
        }
        world = type("Place", (), {"folder": tmp_path, "configuration": configuration})
        made.append(Subtask(world, 0, 1))
        return made[-1]

    yield new
    for one in made:
        one.backend.dispose()
