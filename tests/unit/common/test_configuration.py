"""Configuration and its typed views: values set in one way are read in the other."""

import pytest
from penstock.common import Configuration, Duration, ExecutionConfig
from penstock.datastream import CheckpointConfig, CheckpointingMode
from penstock.errors import ConfigurationError


def test_values_are_read_as_the_caller_asks():
    configuration = Configuration()
    configuration.set_string("a", "12").set_boolean("b", True).set_float("c", 1.5)
    assert configuration.get_integer("a", 0) == 12
    assert configuration.get_string("b", None) == "true"
    assert configuration.get_float("c", 0.0) == 1.5
    assert configuration.get_integer("missing", 7) == 7
    assert configuration.to_dict() == {"a": "12", "b": "true", "c": "1.5"}


def test_a_value_that_cannot_be_read_names_its_key():
    configuration = Configuration.from_dict({"a": "x"})
    with pytest.raises(ConfigurationError, match="a: 'x'"):
        configuration.get_integer("a", 0)
    with pytest.raises(ConfigurationError, match="neither true nor false"):
        configuration.get_boolean("a", False)


def test_copies_are_independent():
    first = Configuration.from_dict({"a": "1"})
    second = Configuration(first)
    second.set_string("a", "2")
    assert first.get_string("a", None) == "1"
    assert first.add_all(second, "p.").to_dict() == {"a": "1", "p.a": "2"}
    assert first.remove_config("a")
    assert not first.remove_config("a")


def test_a_list_may_have_a_line_for_each_part():
    assert Configuration.parse_list_value("- a;b\n  - 'c, d'\n\n- e\n") == ["a;b", "c, d", "e"]
    assert Configuration.parse_list_value("- a\nb") == ["- a\nb"]


def test_lists_are_read_in_both_forms():
    assert Configuration.parse_list_value("[a, 'b,c']") != []
    assert Configuration.parse_list_value("[a, b]") == ["a", "b"]
    assert Configuration.parse_list_value(None) == []
    assert Configuration.parse_list_value("a; b") == ["a", "b"]
    assert Configuration.parse_list_value("") == []


@pytest.mark.parametrize(
    ("text", "millis"),
    [("10 ms", 10), ("2s", 2000), ("1 min", 60_000), ("7", 7), ("3 d", 259_200_000)],
)
def test_durations_are_numbers_with_units(text, millis):
    assert Duration.parse(text).to_millis() == millis


def test_a_duration_without_known_unit_is_refused():
    with pytest.raises(ConfigurationError, match="3 parsecs"):
        Duration.parse("3 parsecs")


def test_execution_config_is_a_view():
    configuration = Configuration.from_dict({"pipeline.auto-watermark-interval": "10 ms"})
    config = ExecutionConfig(configuration)
    assert config.get_auto_watermark_interval() == 10
    config.set_parallelism(3).set_max_parallelism(7).set_latency_tracking_interval(5)
    assert configuration.to_dict() == {
        "pipeline.auto-watermark-interval": "10 ms",
        "parallelism.default": "3",
        "pipeline.max-parallelism": "7",
        "metrics.latency.interval": "5 ms",
    }


@pytest.mark.parametrize(
    "parameters", [{}, {"a": "1", "b": "2"}, {"a:b": "c,d", "e'f": "'g'", "": "x:y"}]
)
def test_job_parameters_survive_whatever_they_contain(parameters):
    config = ExecutionConfig().set_global_job_parameters(parameters)
    assert config.get_global_job_parameters() == parameters


@pytest.mark.parametrize("parallelism", [0, -3])
def test_a_parallelism_is_positive(parallelism):
    with pytest.raises(ConfigurationError):
        ExecutionConfig().set_parallelism(parallelism)


def test_checkpoint_config_checks_and_remembers():
    configuration = Configuration()
    checkpoints = CheckpointConfig(configuration)
    assert not checkpoints.is_checkpointing_enabled()
    checkpoints.set_checkpoint_interval(5000)
    checkpoints.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert CheckpointConfig(configuration).get_checkpoint_interval() == 5000
    assert CheckpointConfig(configuration).get_checkpointing_mode().name == "AT_LEAST_ONCE"
    for refused in (
        checkpoints.set_checkpoint_interval,
        checkpoints.set_max_concurrent_checkpoints,
    ):
        with pytest.raises(ConfigurationError):
            refused(0)
