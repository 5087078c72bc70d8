"""Names from Flink's pages that Python does not have are errors that name the replacement."""

import pytest
from penstock.common import Configuration, Duration, Time, Types, WatermarkStrategy
from penstock.common.job_execution_result import JobExecutionResult
from penstock.datastream import AsyncDataStream, SinkFunction, StreamExecutionEnvironment
from penstock.datastream.functions import SourceFunction
from penstock.datastream.state import StateTtlConfig
from penstock.errors import JvmOnlyError


def env():
    return StreamExecutionEnvironment.get_execution_environment()


def stream():
    return env().from_collection([1], Types.INT())


def keyed():
    return stream().key_by(lambda v: v, Types.INT())


class Sink(SinkFunction):
    def invoke(self, value, context):
        pass


@pytest.mark.parametrize(
    ("make", "name", "hint"),
    [
        (env, "from_data", "write from_collection"),
        (env, "fromData", "write from_collection"),
        (env, "from_parallel_collection", "from_source for a parallel source"),
        (env, "add_default_job_listener", "register_job_listener"),
        (env, "create_local_environment_with_web_ui", "create_local_environment"),
        (env, "read_csv_file", "CsvReaderFormat"),
        (env, "_j_stream_execution_environment", "socket_text_stream.*get_configuration"),
        (lambda: env().get_checkpoint_config(), "_j_checkpoint_config", "methods of this one"),
        (stream, "_j_data_stream", "add_sink and sink_to"),
        (stream, "map_partition", "full_window_partition|window_all"),
        (stream, "count_window_all", "CountTumblingWindowAssigner"),
        (stream, "setUid", "it is uid"),
        (stream, "limit", "execute_and_collect"),
        (stream, "top_n", "call key_by first"),
        (stream, "deduplicate", "call key_by first"),
        (stream, "distinct", r"key_by\(…\).deduplicate"),
        (stream, "timeWindow", r"key_by\(…\).window"),
        (stream, "returns", "output_type"),
        (keyed, "mapWithState", "KeyedProcessFunction"),
        (lambda: keyed().count_window(2), "fold", "reduce or aggregate"),
        (env, "from_kafka", "KafkaSource"),
        (env, "setRestartStrategy", "it is set_restart_strategy"),
        (lambda: env().get_checkpoint_config(), "setCheckpointStorage", "set_checkpoint_storage"),
        (Configuration, "set", "write set_string"),
        (stream, "write_as_text", "FileSink"),
        (keyed, "time_window", "TumblingEventTimeWindows"),
        (keyed, "as_queryable_state", "REST"),
        (keyed, "enable_async_state", "leave it out"),
        (Configuration, "_j_configuration", "set_string"),
        (lambda: WatermarkStrategy, "forMonotonousTimestamps", "for_monotonous_timestamps"),
        (WatermarkStrategy.no_watermarks, "_j_watermark_strategy", "from_source"),
        (Sink, "_j_function", "use the object itself"),
        (stream, "collectAsync", "execute_and_collect"),
        (stream, "global", "global_"),
        (stream, "getParallelism", "explain"),
        (lambda: keyed().count_window(2), "enable_async_state", "leave it out"),
        (keyed, "getKeyType", "passes to key_by"),
        (lambda: stream().connect(stream()), "getFirstInput", "it is stream1"),
        (lambda: stream().connect(stream()), "get_type1", "get_type.. of one"),
        (env, "generateStreamGraph", "get_execution_plan"),
        (env, "get_transformations", "get_execution_plan"),
        (
            lambda: env().get_checkpoint_config(),
            "setCheckpointIntervalDuringBacklog",
            "the option execution.checkpointing.interval-during-backlog",
        ),
        (
            lambda: env().get_checkpoint_config(),
            "enable_approximate_local_recovery",
            "the option execution.checkpointing.approximate-local-recovery",
        ),
        (lambda: env().get_config(), "enablePeriodicMaterialize", "periodic-materialize.enabled"),
        (lambda: env().get_config(), "setAsyncStateTotalBufferSize", "leave it out"),
        (lambda: env().get_config(), "getSerializerConfig", "leave it out"),
        (Configuration, "toMap", "it is to_dict"),
        (Configuration, "get_value", "write get_string"),
        (lambda: AsyncDataStream, "orderedWait", "it is ordered_wait in Python"),
        (
            lambda: StateTtlConfig.new_builder(Time.seconds(1)),
            "cleanupFullSnapshot",
            "it is cleanup_full_snapshot in Python",
        ),
        (lambda: JobExecutionResult("", None), "getNetRuntime", "it is get_net_runtime in Python"),
        (lambda: Types, "POJO", "write of.Class."),
        (lambda: Types, "GENERIC", "PICKLED_BYTE_ARRAY"),
        (lambda: Types, "BYTES", "write PRIMITIVE_ARRAY"),
        (lambda: Types, "TIMESTAMP", "write SQL_TIMESTAMP"),
        (lambda: Duration, "ofSeconds", "it is of_seconds in Python"),
        (lambda: Duration, "seconds", "write of_seconds"),
        (lambda: Time, "of_seconds", r"write seconds\(…\), or Duration.of_seconds"),
        (lambda: Time, "toMilliseconds", "it is to_milliseconds in Python"),
        (
            lambda: StreamExecutionEnvironment,
            "getExecutionEnvironment",
            "it is get_execution_environment in Python",
        ),
    ],
)
def test_the_error_says_what_to_write(make, name, hint):
    with pytest.raises(AttributeError, match=hint):
        getattr(make(), name)


@pytest.mark.parametrize("kind", [SourceFunction, SinkFunction])
def test_a_class_of_java_says_what_to_write_in_python(kind):
    with pytest.raises(JvmOnlyError, match=r"org\.example\.Mine.* in Python"):
        kind("org.example.Mine")
    assert isinstance(kind(), kind)
