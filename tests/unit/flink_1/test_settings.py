"""Settings of Flink 1 set today's options."""

import logging
from datetime import timedelta

import pytest
from penstock import flink_1
from penstock.common import Duration, RestartStrategies
from penstock.datastream import (
    ExternalizedCheckpointCleanup,
    FileSystemCheckpointStorage,
    FsStateBackend,
    JobManagerCheckpointStorage,
    MemoryStateBackend,
    RocksDBStateBackend,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.table import EnvironmentSettings


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


def options(env, prefix):
    values = env.get_configuration().to_dict()
    return {key: value for key, value in values.items() if key.startswith(prefix)}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (RestartStrategies.no_restart(), {"type": "none"}),
        (RestartStrategies.fall_back_restart(), {}),
        (
            RestartStrategies.fixed_delay_restart(3, 1000),
            {"type": "fixed-delay", "fixed-delay.attempts": "3", "fixed-delay.delay": "1 s"},
        ),
        (
            RestartStrategies.failure_rate_restart(2, timedelta(minutes=5), Duration.of_seconds(9)),
            {
                "type": "failure-rate",
                "failure-rate.max-failures-per-interval": "2",
                "failure-rate.failure-rate-interval": "5 min",
                "failure-rate.delay": "9 s",
            },
        ),
    ],
)
@pytest.mark.parametrize("of", [lambda env: env, lambda env: env.get_config()])
def test_restart_strategies(env, of, strategy, expected):
    of(env).set_restart_strategy(RestartStrategies.fixed_delay_restart(7, 7))
    of(env).set_restart_strategy(strategy)
    found = options(env, "restart-strategy.")
    assert found == {f"restart-strategy.{key}": value for key, value in expected.items()}
    assert of(env).get_restart_strategy() == strategy


def test_time_characteristics(env):
    env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
    assert env.get_stream_time_characteristic() is TimeCharacteristic.ProcessingTime
    assert env.get_config().get_auto_watermark_interval() == 0
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    assert env.get_config().get_auto_watermark_interval() == 200
    with pytest.raises(InvalidProgramError, match="assign_timestamps_and_watermarks"):
        env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)


def test_checkpoints(env):
    config = env.get_checkpoint_config()
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
    kept = config.get_externalized_checkpoint_cleanup()
    assert kept is ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION
    config.set_checkpoint_storage_dir("file:///tmp/c")
    assert options(env, "execution.checkpointing.dir").popitem()[1] == "file:/tmp/c"
    config.set_checkpoint_storage(FileSystemCheckpointStorage("file:///tmp/d"))
    assert config.get_checkpoint_storage().get_checkpoint_path() == "file:/tmp/d"
    config.set_checkpoint_storage(JobManagerCheckpointStorage())
    assert options(env, "execution.checkpointing.storage").popitem()[1] == "jobmanager"
    with pytest.raises(WrongArgumentError, match="takes a CheckpointStorage"):
        config.set_checkpoint_storage("file:///tmp/d")


@pytest.mark.parametrize(
    ("backend", "kind", "storage"),
    [
        (MemoryStateBackend(), "hashmap", "jobmanager"),
        (FsStateBackend("file:///tmp/c"), "hashmap", "filesystem"),
        (RocksDBStateBackend("file:///tmp/c", True), "rocksdb", "filesystem"),
    ],
)
def test_state_backends(env, backend, kind, storage):
    env.set_state_backend(backend)
    found = env.get_configuration().to_dict()
    assert found["state.backend.type"] == kind
    assert found["execution.checkpointing.storage"] == storage
    assert env.get_state_backend().type_name == kind


def test_there_is_one_planner():
    builder = EnvironmentSettings.new_instance().in_batch_mode()
    assert builder.use_blink_planner() is builder
    assert not builder.use_any_planner().build().is_streaming_mode()


def test_the_log_says_once_what_to_write_instead(env, caplog, monkeypatch):
    monkeypatch.setattr(flink_1, "_said", set())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            env.set_restart_strategy(RestartStrategies.no_restart())
            RocksDBStateBackend("file:///checkpoints").write_to(env.get_configuration())
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "restart-strategy.type" in said[0]
    assert said[1] == (
        "RocksDBStateBackend is of Flink 1 and deprecated: use EmbeddedRocksDBStateBackend, and "
        "the option execution.checkpointing.dir"
    )


def test_schemas_are_found_where_they_were():
    from penstock.common import serialization
    from penstock.datastream.formats.json import JsonRowDeserializationSchema

    assert serialization.JsonRowDeserializationSchema is JsonRowDeserializationSchema
