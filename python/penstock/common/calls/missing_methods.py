"""Hints for methods that a stream or the environment does not have."""

from __future__ import annotations

import difflib
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

_KEYED: Final = (
    *("count_window", "deduplicate", "interval_join", "max", "max_by", "min", "min_by"),
    *("reduce", "sum", "top_n", "window"),
)
_WINDOWED: Final = (
    *("aggregate", "allowed_lateness", "apply", "evictor", "side_output_late_data", "trigger"),
)
_ELEMENTS: Final = (
    *("add_sink", "assign_timestamps_and_watermarks", "connect", "execute_and_collect"),
    *("filter", "flat_map", "join", "key_by", "map", "print", "project", "rebalance"),
    *("shuffle", "sink_to", "union", "window", "window_all"),
)
_COLLECT: Final = "call execute_and_collect(), which runs the program and returns its records"

_INTO_WINDOWS: Final = "assign the records to windows first: key_by(…).window(…), or window_all(…)"
_AFTER_WINDOW: Final = (
    "windows emit records when they fire: call reduce, aggregate, apply or process first"
)

_INPUTS: Final = {
    "get_execution_environment": "call it on one of the two streams",
    **dict.fromkeys(("get_type1", "get_type2"), "write get_type() of one of the two streams"),
}
_OWN_STATE: Final = "leave it out: access to state never waits here"
_RESOURCES: Final = "leave it out: slots have no resources of their own"
_NO_SERIALIZERS: Final = "leave it out: it configures Java's serializers; here Types choose them"
_OPTIONS: Final = {
    "approximate_local_recovery": "execution.checkpointing.approximate-local-recovery",
    "checkpoint_id_of_ignored_in_flight_data": (
        "execution.state-recovery.without-channel-state.checkpoint-id"
    ),
    "checkpoint_interval_during_backlog": "execution.checkpointing.interval-during-backlog",
    "closure_cleaner_level": "pipeline.closure-cleaner-level",
    "materialization_max_allowed_failures": "state.changelog.max-failures-allowed",
    "max_subtasks_per_channel_state_file": (
        "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file"
    ),
    "pause_sources_until_first_checkpoint": "pipeline.sources.pause-until-first-checkpoint",
    "periodic_materialize": "state.changelog.periodic-materialize.enabled",
    "periodic_materialize_interval_millis": "state.changelog.periodic-materialize.interval",
    "scheduler_type": "jobmanager.scheduler",
    "unaligned_checkpoints_interruptible_timers": (
        "execution.checkpointing.unaligned.interruptible-timers.enabled"
    ),
}
"""Options that Java's settings of a job have methods for, by the common part of their names."""

_BY_OPTION: Final = {
    f"{verb}_{name}{ending}": f"it is the option {key}"
    for name, key in _OPTIONS.items()
    for verb, ending in (("enable", ""), ("get", ""), ("is", ""), ("is", "_enabled"), ("set", ""))
}

_HINTS: Final[dict[str, dict[str, str]]] = {
    "DataStream": {
        **dict.fromkeys(_WINDOWED, _INTO_WINDOWS),
        **dict.fromkeys(_KEYED, "call key_by first; for all records there is window_all"),
        **dict.fromkeys(("close_with", "with_feedback_type"), "call iterate first"),
        **dict.fromkeys(("where", "equal_to"), "call join or co_group first"),
        **dict.fromkeys(
            ("collect", "collect_async", "count", "head", "show", "take", "to_pandas"), _COLLECT
        ),
        "add_metric_variable": "leave it out: name(…) is in the scope of the operator's metrics",
        "enable_async_state": _OWN_STATE,
        "get_id": "give the operator a uid: uid(…) names it in savepoints",
        **dict.fromkeys(("get_min_resources", "get_preferred_resources"), _RESOURCES),
        "get_parallelism": "explain() of the environment shows the parallelism of each operator",
        "global": "it is global_, since global is a word of Python",
        **dict.fromkeys(("group_by", "groupby", "partition_by"), "it is key_by"),
        **dict.fromkeys(("for_each", "foreach"), "pass a SinkFunction to add_sink"),
        "select": "call split first",
        "count_window_all": (
            "write window_all(CountTumblingWindowAssigner.of(size)).reduce(…), or aggregate, …"
        ),
        "time_window": "call key_by(…).window(TumblingEventTimeWindows.of(Duration.of_seconds(…)))",
        "time_window_all": "write window_all(TumblingEventTimeWindows.of(Duration.of_seconds(…)))",
        **dict.fromkeys(("map_partition", "sort_partition"), "call full_window_partition first"),
        "write_as_text": "write sink_to(FileSink.for_row_format(path, encoder).build())",
        "write_as_csv": (
            "write sink_to(FileSink.for_bulk_format(path, CsvBulkWriters.for_schema(…)).build())"
        ),
        "write_using_output_format": "write a SinkFunction for add_sink, or a PythonSink",
        "write_to_socket": "write a SinkFunction for add_sink",
        "async_wait": "write AsyncDataStream.unordered_wait(stream, …), or ordered_wait",
        "distinct": "write key_by(…).deduplicate()",
        **dict.fromkeys(
            ("first", "limit"), "write execute_and_collect(limit=…), or SQL with LIMIT"
        ),
        "returns": "pass the type to the operator: map(function, output_type)",
        "set_name": "it is name",
        "set_uid": "it is uid",
        "execute": "it is the environment that executes: get_execution_environment().execute()",
    },
    "KeyedStream": {
        "time_window": "write window(TumblingEventTimeWindows.of(Duration.of_seconds(…)))",
        "count_window_all": "write count_window(size)",
        "as_queryable_state": (
            "leave it out: JobClient.state and the REST interface read any keyed state of a "
            "running job; see docs/howto/read_live_state.md"
        ),
        **dict.fromkeys(
            ("get_key_selector", "get_key_type"), "keep what the program passes to key_by"
        ),
        **dict.fromkeys(
            ("filter_with_state", "flat_map_with_state", "map_with_state"),
            "write process(…) with a KeyedProcessFunction that has a ValueState",
        ),
        "fold": "write reduce, or process with a KeyedProcessFunction that has a ValueState",
    },
    "_AnyWindowedStream": {
        "enable_async_state": _OWN_STATE,
        **dict.fromkeys([*_ELEMENTS, "get_side_output"], _AFTER_WINDOW),
        **dict.fromkeys(
            ("count", "fold", "max", "max_by", "min", "min_by", "sum"),
            "write it as reduce or aggregate",
        ),
    },
    "ConnectedStreams": {
        **dict.fromkeys(
            [*_ELEMENTS, "reduce", "get_side_output"],
            "call map, flat_map or process first, which returns one stream",
        ),
        **_INPUTS,
        "enable_async_state": _OWN_STATE,
        "get_first_input": "it is stream1",
        "get_second_input": "it is stream2",
    },
    "BroadcastConnectedStream": {
        **dict.fromkeys(
            [*_ELEMENTS, "reduce", "get_side_output"],
            "call process first, which returns one stream",
        ),
        **_INPUTS,
        **dict.fromkeys(
            ("get_first_input", "get_second_input"), "keep the stream that the program connects"
        ),
    },
    "BroadcastStream": dict.fromkeys(
        [*_ELEMENTS, "process", "reduce"],
        "a broadcast stream is for connect: stream.connect(broadcast_stream).process(…)",
    ),
    "_TwoKeyedStreams": dict.fromkeys(
        [*_ELEMENTS, "apply", "process", "reduce", "trigger"],
        "name the keys and the windows first: where(…).equal_to(…).window(…).apply(…)",
    ),
    "_WithWindow": dict.fromkeys([*_ELEMENTS, "process"], "call apply first"),
    "DataStreamSink": {
        **dict.fromkeys(
            [*_ELEMENTS, "process", "reduce"],
            "a sink ends a stream: call it on the stream before the sink",
        ),
        "set_max_parallelism": "it is a setting of operators with state, and of the environment",
    },
    "StreamExecutionEnvironment": {
        **dict.fromkeys(
            _ELEMENTS, "it belongs to a stream: create one, for example with from_collection"
        ),
        **dict.fromkeys(
            ("from_dataframe", "from_data_frame", "from_list", "parallelize"),
            "it is from_collection, which takes tables too",
        ),
        **dict.fromkeys(
            ("from_sequence", "generate_sequence"),
            "pass a NumberSequenceSource to from_source",
        ),
        "run": "it is execute",
        "from_kafka": "write from_source(KafkaSource.builder()….build(), strategy, name)",
        **dict.fromkeys(
            ("from_data", "from_parallel_collection"),
            "write from_collection([…], type_info), or from_source for a parallel source",
        ),
        "add_default_job_listener": "it is register_job_listener",
        "create_local_environment_with_web_ui": (
            "write create_local_environment(); the option rest.bind-port serves the dashboard"
        ),
        "read_file": "write from_source(FileSource.for_record_stream_format(…).build(), …)",
        "read_csv_file": (
            "write from_source(FileSource.for_record_stream_format(CsvReaderFormat."
            "for_schema(…), path).build(), …)"
        ),
        "set_checkpoint_storage_dir": "write get_checkpoint_config(), or the option "
        "execution.checkpointing.dir",
        "set_number_of_execution_retries": "set the options restart-strategy.*",
        "generate_stream_graph": "write get_execution_plan(), or explain()",
        "get_cached_files": "RuntimeContext.get_distributed_cache() finds them in functions",
        "get_transformations": "write get_execution_plan(), or explain()",
        "invalidate_cluster_dataset": "write invalidate() of the cached stream",
        "read_file_stream": (
            "write from_source(FileSource.for_record_stream_format(…)."
            "monitor_continuously(…).build(), …)"
        ),
    },
    "CheckpointConfig": {
        **_BY_OPTION,
        "configure": "write env.configure(configuration)",
        "disable_checkpointing": "do not call enable_checkpointing",
        "set_checkpointing_consistency_mode": "it is set_checkpointing_mode",
        "get_checkpointing_consistency_mode": "it is get_checkpointing_mode",
        "to_configuration": "write env.get_configuration()",
    },
    "ExecutionConfig": {
        **_BY_OPTION,
        "configure": "write env.configure(configuration)",
        "get_serializer_config": _NO_SERIALIZERS,
        **dict.fromkeys(
            (
                f"{verb}_async_state_{name}"
                for verb in ("get", "set")
                for name in (
                    "active_buffer_size",
                    "active_buffer_timeout",
                    "total_buffer_size",
                )
            ),
            _OWN_STATE,
        ),
        "to_configuration": "write env.get_configuration()",
    },
    "Types": {
        **dict.fromkeys(("EITHER", "GENERIC", "SET", "VALUE"), "write PICKLED_BYTE_ARRAY()"),
        **dict.fromkeys(("ENUM", "POJO"), "write of(Class)"),
        **dict.fromkeys(("ARRAY", "MULTISET"), "write LIST(type), or OBJECT_ARRAY(type)"),
        **dict.fromkeys(("BIGINT", "INT64"), "write LONG()"),
        **dict.fromkeys(("BINARY", "BYTES", "VARBINARY"), "write PRIMITIVE_ARRAY(Types.BYTE())"),
        **dict.fromkeys(("DATETIME", "LOCAL_DATE_TIME", "TIMESTAMP"), "write SQL_TIMESTAMP()"),
        **dict.fromkeys(("DATE", "LOCAL_DATE"), "write SQL_DATE()"),
        **dict.fromkeys(("DECIMAL", "NUMERIC"), "write BIG_DEC()"),
        **dict.fromkeys(("DICT", "JSON"), "write MAP(key_type, value_type), or STRING() for text"),
        **dict.fromkeys(("INTEGER", "INT32"), "write INT()"),
        **dict.fromkeys(("LOCAL_TIME", "TIME"), "write SQL_TIME()"),
        **dict.fromkeys(("STR", "TEXT", "VARCHAR"), "write STRING()"),
        **dict.fromkeys(("TIMESTAMP_LTZ", "TIMESTAMP_TZ"), "write INSTANT()"),
        "BOOL": "write BOOLEAN()",
        "NAMED_ROW": "it is ROW_NAMED",
    },
    "Duration": {
        unit: f"write of_{unit}(…)" for unit in ("days", "hours", "minutes", "seconds", "millis")
    }
    | {"milliseconds": "write of_millis(…)", "of": "write of_seconds(…), of_millis(…), …"},
    "Time": {
        f"of_{unit}": f"write {unit}(…), or Duration.of_{unit}(…)"
        for unit in ("days", "hours", "minutes", "seconds")
    }
    | {"of_millis": "write milliseconds(…)", "of": "write seconds(…), minutes(…), …"},
    "JobClient": {
        "report_heartbeat": "leave it out: the target watches its own client",
    },
    "JobExecutionResult": {
        "get_job_execution_result": "use the object itself",
    },
    "Configuration": {
        "clone": "write Configuration(other)",
        "contains": "it is contains_key",
        "from_map": "write Configuration.from_dict(dictionary)",
        **dict.fromkeys(
            ("get_enum", "get_optional", "get_value"), "write get_string(key, default)"
        ),
        "get_bytes": "it is get_bytearray",
        "remove_key": "it is remove_config",
        "set_bytes": "it is set_bytearray",
        "to_map": "it is to_dict",
        "get": "write get_string(key, default), get_integer, …",
        "set": "write set_string(key, value), set_integer, …",
    },
    "TableEnvironment": {
        **dict.fromkeys(
            (
                *("create_java_function", "create_java_temporary_function"),
                *("create_java_temporary_system_function", "register_java_function"),
            ),
            "penstock has no JVM: write the function in Python, for create_temporary_function",
        ),
        **dict.fromkeys(
            ("create_model", "create_temporary_model", "drop_model", "drop_temporary_model"),
            "there are no models: a Python function can call one",
        ),
        "explain": "write table.explain(), or explain_sql(statement)",
        "register_table": "it is create_temporary_view",
    },
    "CompiledPlan": {"as_smile_bytes": "write as_json_string()"},
    "PlanReference": {"from_smile_bytes": "write from_json_string(text), or from_file(path)"},
    "TableConfig": {
        "set_idle_state_retention_time": "write set_idle_state_retention(timedelta(…))",
        "set_parallelism": "write set('parallelism.default', '…')",
    },
}


_FUNCTIONS: Final = "it is a Python object: use the object itself"
_JAVA: Final = {
    "_j_stream_execution_environment": (
        "there is no Java environment: use the methods of this one, such as socket_text_stream, "
        "read_text_file and from_source, and get_configuration() for options"
    ),
    "_j_data_stream": (
        "there is no Java stream: use the methods of this one, such as map, process, key_by, "
        "add_sink and sink_to"
    ),
    "_j_data_stream_sink": "there is no Java sink: use name, uid and set_parallelism of this one",
    "_j_configuration": "there is no Java object: use the methods of this one, such as set_string",
    "_j_watermark_strategy": "there is no Java object: pass this one to from_source",
    "_j_checkpoint_config": "there is no Java object: use the methods of this one, or options",
    "_j_execution_config": "there is no Java object: use the methods of this one, or options",
    **dict.fromkeys(("_j_function", "_j_source", "_j_sink", "_j_typeinfo"), _FUNCTIONS),
}
"""Public replacements of PyFlink's private members."""
_NO_JAVA_OBJECT: Final = "there is no Java object: use this one and its methods"

_JAVA_SERIALIZERS: Final = (
    *("add_default_kryo_serializer", "disable_auto_type_registration", "register_kryo_type"),
    *("register_pojo_type", "register_type", "register_type_with_kryo_serializer"),
)
_FORMER: Final[dict[str, frozenset[str]]] = {
    "StreamExecutionEnvironment": frozenset(
        {
            *_JAVA_SERIALIZERS,
            *("get_restart_strategy", "get_state_backend", "get_stream_time_characteristic"),
            *("set_restart_strategy", "set_stream_time_characteristic"),
        }
    ),
    "ExecutionConfig": frozenset(
        {
            *_JAVA_SERIALIZERS,
            *("get_execution_mode", "get_registered_types_with_kryo_serializer_classes"),
            *("get_restart_strategy", "is_auto_type_registration_disabled", "set_execution_mode"),
            *("set_default_input_dependency_constraint", "set_restart_strategy"),
            *("disable_sysout_logging", "enable_sysout_logging", "is_sysout_logging_enabled"),
            "get_default_input_dependency_constraint",
        }
    ),
    "CheckpointConfig": frozenset(
        {
            *("enable_externalized_checkpoints", "get_checkpoint_storage"),
            *("get_externalized_checkpoint_cleanup", "is_prefer_checkpoint_for_recovery"),
            *("set_checkpoint_storage", "set_checkpoint_storage_dir"),
            *("set_externalized_checkpoint_cleanup", "set_prefer_checkpoint_for_recovery"),
        }
    ),
    "TableEnvironment": frozenset(
        {
            *("connect", "execute", "insert_into", "register_table_sink", "scan", "sql_update"),
            "register_table_source",
        }
    ),
    "EnvironmentSettings.Builder": frozenset(
        {"use_any_planner", "use_blink_planner", "use_old_planner"}
    ),
}
"""The methods of PyFlink 1 that `penstock.flink_1.methods` has."""


class SnakeCaseHints(type):
    """The metaclass of classes that suggest the Python name of a Java method."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            snake = _snake_case(name)
            if snake != name and any(snake in vars(base) for base in cls.__mro__):
                raise AttributeError(
                    f"type object {cls.__name__!r} has no attribute {name!r}: it is {snake} in "
                    "Python"
                )
            hint = _HINTS.get(cls.__name__, {}).get(name)
            if hint is not None:
                raise AttributeError(
                    f"type object {cls.__name__!r} has no attribute {name!r}: {hint}"
                )
            raise AttributeError(
                f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls
            )


class MissingMethods(metaclass=SnakeCaseHints):
    """Suggests a replacement for a missing method, or the method that is meant.

    A method of PyFlink 1 is created when a program accesses it.
    """

    if not TYPE_CHECKING:  # otherwise type checkers would assume that every method exists

        def __getattr__(self, name: str) -> Any:
            for base in type(self).__mro__:
                if name in _FORMER.get(base.__qualname__, ()):
                    methods = import_module("penstock.flink_1.methods")
                    return methods.bound_method(self, base.__qualname__, name)
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            hint = _java_hint(name) if name.startswith("_") else _hint(type(self), name)
            if hint:  # without name and obj, or tracebacks would add the interpreter's suggestion
                raise AttributeError(f"{message}: {hint}")
            raise AttributeError(message, name=name, obj=self)


class NoJavaMembers:
    """Suggests replacements for PyFlink's private members, such as ``_j_builder``."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            hint = _java_hint(name)
            if hint:
                raise AttributeError(f"{message}: {hint}")
            raise AttributeError(message, name=name, obj=self)


def _java_hint(name: str) -> str:
    return _JAVA.get(name, _NO_JAVA_OBJECT) if name.startswith("_j_") else ""


def _hint(kind: type, name: str) -> str:
    snake = _snake_case(name)
    names = [known for known in dir(kind) if not known.startswith("_")]
    for base in kind.__mro__:
        names += _FORMER.get(base.__qualname__, ())
    if snake in names:
        return f"it is {snake} in Python"
    for base in kind.__mro__:
        hint = _HINTS.get(base.__name__, {}).get(snake)
        if hint is not None:
            return hint
    near = difflib.get_close_matches(snake, names, n=1)
    return f"did you mean {near[0]}?" if near else ""


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
