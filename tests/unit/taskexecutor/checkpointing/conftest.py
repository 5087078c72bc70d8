"""Fixtures shared by the tests of a task's checkpoints."""

import pytest
from support.changelog_subtasks import Subtask


@pytest.fixture
def subtask(tmp_path):
    """Return a function that creates subtasks with a backend and options."""
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
        one.keyed.dispose()
