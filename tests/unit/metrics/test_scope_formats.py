"""Formats of scopes, with Flink's defaults and variables (internals M70)."""

import pytest
from penstock.errors import ConfigurationError
from penstock.metrics.scope_formats import KINDS, ScopeFormats

VARIABLES = {
    "host": "h.example",
    "tm_id": "w-1",
    "job_id": "0f",
    "job_name": "a job.",
    "task_id": "1e",
    "task_name": "Map",
    "subtask_index": "3",
    "task_attempt_num": "0",
    "operator_name": "Op",
}
TASK = ("taskmanager", "job", "task")


def names(**options):
    formats = ScopeFormats({f"metrics.scope.{key}": text for key, text in options.items()})
    return {
        logical[-1] if len(logical) != 2 else "jm-job": formats.delimiter.join(
            formats.identifier(logical, VARIABLES)
        )
        for logical in KINDS
    }


def test_defaults_are_those_of_flink():
    assert names() == {
        "jobmanager": "h.example.jobmanager",
        "jm-job": "h.example.jobmanager.a job.",
        "taskmanager": "h.example.taskmanager.w-1",
        "task": "h.example.taskmanager.w-1.a job..Map.3",
        "operator": "h.example.taskmanager.w-1.a job..Op.3",
    }


def test_formats_and_delimiter_are_the_users():
    found = names(tm="workers.<tm_id>", task="*.<task_name>", operator="*.<operator_name>",
                  delimiter="/")  # fmt: skip
    assert found["taskmanager"] == "workers/w-1"
    assert found["task"] == "workers/w-1/Map"
    assert found["operator"] == "workers/w-1/Map/Op"
    # Separators within a value are part of the value.
    assert ScopeFormats({}).identifier(TASK, VARIABLES)[3] == "a job."


@pytest.mark.parametrize(
    ("key", "text"), [("jm", "<tm_id>"), ("tm", "<job_name>"), ("task", "<operator_name>.<nope>")]
)
def test_a_variable_that_there_is_not_is_named(key, text):
    with pytest.raises(ConfigurationError, match=rf"metrics\.scope\.{key}: there is no variable"):
        ScopeFormats({f"metrics.scope.{key}": text})
