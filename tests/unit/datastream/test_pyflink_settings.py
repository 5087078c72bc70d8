"""Settings that PyFlink 2.3 reports or rejects, reported and rejected in the same way."""

from typing import Any

import pytest
from penstock.common import Configuration, Types
from penstock.common.config_options import ConfigOptions
from penstock.datastream import (
    AsyncRetryStrategy,
    CheckpointingMode,
    DataStream,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    StreamExecutionEnvironment,
)
from penstock.errors import InvalidProgramError, JvmOnlyError, WrongArgumentError


def source() -> DataStream[Any]:
    return StreamExecutionEnvironment.get_execution_environment().from_collection([1], Types.INT())


def test_mode_of_checkpoints_that_are_not_taken() -> None:
    config = StreamExecutionEnvironment.get_execution_environment().get_checkpoint_config()
    config.enable_unaligned_checkpoints()
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert not config.is_unaligned_checkpoints_enabled()
    config.set_checkpoint_interval(1000)
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert config.is_unaligned_checkpoints_enabled()
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert not config.is_unaligned_checkpoints_enabled()


def test_checkpoint_storages_describe_themselves() -> None:
    text = "JobManagerCheckpointStorage (checkpoints to JobManager) ( maxStateSize: 5242880)"
    assert str(JobManagerCheckpointStorage()) == text
    files = FileSystemCheckpointStorage("file:///data/checkpoints")
    assert files.get_checkpoint_path() == "file:/data/checkpoints"
    assert (files.get_min_file_size_threshold(), files.get_write_buffer_size()) == (20480, 4096)
    with pytest.raises(InvalidProgramError, match="scheme"):
        FileSystemCheckpointStorage("data/checkpoints")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/data/points/", "/data/points"),
        ("file:///data//points", "file:/data/points"),
        ("hdfs://host:1/data/", "hdfs://host:1/data"),
        ("points", "points"),
        ("/", "/"),
    ],
)
def test_paths_are_kept_in_their_shortest_form(given: str, kept: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.set_default_savepoint_directory(given).get_default_savepoint_directory() == kept
    assert JobManagerCheckpointStorage(given).get_checkpoint_path() == kept


@pytest.mark.parametrize("key", ["state.changelog.enabled", "state.backend.changelog.enabled"])
def test_the_changelog_is_set_by_either_name(key: str) -> None:
    configuration = Configuration()
    assert StreamExecutionEnvironment(configuration).is_changelog_state_backend_enabled() is None
    configuration.set_string(key, "true")
    assert StreamExecutionEnvironment(configuration).is_changelog_state_backend_enabled() is True


def test_serializers_of_java_objects_are_refused() -> None:
    config = StreamExecutionEnvironment.get_execution_environment().get_config()
    for call in (config.enable_force_kryo, config.disable_generic_types):
        with pytest.raises(JvmOnlyError, match=r"penstock\.common\.Types"):
            call()


def test_a_retry_may_wait_less_than_the_first() -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(5, 100, 50, 2.0, None, None)
    assert [strategy.get_backoff_time_millis(n) for n in (1, 2, 3)] == [100, 50, 50]


def test_texts_are_texts() -> None:
    with pytest.raises(WrongArgumentError, match="string"):
        Configuration().set_string("a", 5)  # type: ignore[arg-type]
    with pytest.raises(WrongArgumentError, match="string"):
        ConfigOptions.key(None)  # type: ignore[arg-type]
    mapped = source().map(lambda value: value)
    with pytest.raises(InvalidProgramError, match="string"):
        mapped.name(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="slot sharing group"):
        mapped.slot_sharing_group(5)  # type: ignore[arg-type]


def test_a_source_that_is_not_parallel_has_no_other_maximum() -> None:
    with pytest.raises(InvalidProgramError, match="not parallel"):
        source().set_max_parallelism(5)
    assert source().set_max_parallelism(1) is not None


def test_a_keyed_stream_has_no_description() -> None:
    with pytest.raises(InvalidProgramError, match="set_description"):
        source().key_by(lambda value: value).set_description("keys")


def test_an_unknown_field_has_no_index() -> None:
    row = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()])
    assert row.get_field_index("b") == 1
    with pytest.raises(ValueError, match="no field 'z'"):
        row.get_field_index("z")
    assert Types.ROW([Types.INT()]).get_field_index("z") == -1


def test_defaults_of_settings_have_their_class() -> None:
    settings = Configuration()
    assert str(settings.get_float("unset", 7)) == "7.0"
    assert settings.get_bytearray("unset", b"x") == bytearray(b"x")
    assert type(settings.get_bytearray("unset", b"x")) is bytearray  # type: ignore[arg-type]
