"""The changelog of state in the REST interface, as a job configures it."""

from types import SimpleNamespace

import pytest
from penstock.jobmaster.checkpointing.settings import CheckpointSettings
from penstock.rest.checkpoint_views import checkpoint_config


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, (False, 600_000, "memory")),
        (
            {
                "state.changelog.enabled": "true",
                "state.changelog.periodic-materialize.interval": "5 s",
                "state.changelog.storage": "filesystem",
            },
            (True, 5000, "filesystem"),
        ),
    ],
)
def test_messages_about_the_changelog(options, said):
    job = SimpleNamespace(
        configuration=options,
        checkpoints=SimpleNamespace(settings=CheckpointSettings.of(options, None)),
    )
    answer = checkpoint_config(SimpleNamespace(job=lambda: job))
    assert said == (
        answer["state_changelog_enabled"],
        answer["changelog_periodic_materialization_interval"],
        answer["changelog_storage"],
    )
