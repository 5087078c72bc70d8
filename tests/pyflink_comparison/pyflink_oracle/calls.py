"""Cases that are one call each: every method of the API with right and wrong arguments.

The methods and their parameters are read from the recorded package.  A parameter gets a right
argument by its name and, one parameter at a time, every argument of `ANY_KIND`.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from pyflink_oracle.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyflink_oracle.library import Library

#: Arguments of every kind.
ANY_KIND = (
    "None",
    "True",
    "0",
    "1",
    "-1",
    "7",
    "2**31",
    "2**63",
    "1.5",
    "''",
    "'a'",
    "'k'",
    "b'x'",
    "[]",
    "[1]",
    "['a']",
    "()",
    "(1,)",
    "{}",
    "{'a': 'b'}",
    "set()",
    "object()",
    "same",
    "int",
    "MapF()",
    "ProcessF()",
    "KeyedProcessF()",
    "int_type",
    "[int_type]",
    "ints",
    "keyed_ints",
    "env",
    "tag",
    "Time.seconds(2)",
    "duration",
    "map_descriptor",
    "value_descriptor",
    "windows",
    "plain_row",
)

#: Fewer, for methods with many parameters and parameters with many values anyway.
SOME_KIND = ("None", "0", "1", "-1", "1.5", "''", "'a'", "[]", "object()", "same", "int_type")

#: Right arguments by `receiver.method.parameter`, `method.parameter` or `parameter`.
ARGUMENTS = {
    "acc_a": "1",
    "accumulator_type": "int_type",
    "aggregate_function": "AggregateF()",
    "agg_function": "AggregateF()",
    "allowed_lateness.time_ms": "5",
    "async_function": "AsyncF()",
    "broadcast_state_descriptor": "map_descriptor",
    "capacity": "10",
    "collection": "[1, 2]",
    "configuration": "configuration",
    "connect.ds": "ints",
    "data_stream": "ints",
    "checkpoint_storage_path": "'file:///tmp/none'",
    "directory": "'file:///tmp/none'",
    "element_type": "int_type",
    "element_type_info": "int_type",
    "field_indexes": "1",
    "field_name": "'a'",
    "field_names": "['a', 'b']",
    "field_types": "[int_type, Types.STRING()]",
    "filter.func": "same",
    "func": "same",
    "gap": "five_ms",
    "interval": "five_ms",
    "enable_checkpointing.interval": "500",
    "key": "'some.key'",
    "key_selector": "same",
    "key_type": "int_type",
    "key_type_info": "int_type",
    "loading": "1",
    "CoProcessF": "CoProcessF()",
    "name": "'a'",
    "names": "['a']",
    "nested_trigger": "EventTimeTrigger.create()",
    "offset": "five_ms",
    "option": "int_option",
    "option_type": "int",
    "output_tag": "tag",
    "output_type": "int_type",
    "parallelism": "2",
    "max_parallelism": "4",
    "partitioner": "(lambda key, n: 0)",
    "position_to_sum": "0",
    "reduce_function": "plus",
    "KeyedStream.reduce.func": "plus",
    "retry_strategy": "AsyncRetryStrategies.NO_RETRY_STRATEGY",
    "row_kind": "RowKind.DELETE",
    "session_gap": "five_ms",
    "size": "five_ms",
    "count_window.size": "2",
    "slide": "five_ms",
    "count_window.slide": "1",
    "source": "number_source",
    "source_name": "'source'",
    "state_descriptor": "map_descriptor",
    "storage": "JobManagerCheckpointStorage()",
    "timestamp_assigner": "Assigner()",
    "time_unit": "five_ms",
    "trigger": "CountTrigger.of(2)",
    "ttl": "five_ms",
    "type_info": "int_type",
    "value_type_info": "int_type",
    "watermark_strategy": "strategy",
    "window_assigner": "windows",
    "window_assigner.x": "windows",
}

#: Each process method accepts one kind of function.
FUNCTIONS = {
    ("DataStream", "process"): "ProcessF()",
    ("KeyedStream", "process"): "KeyedProcessF()",
    ("CachedDataStream", "process"): "ProcessF()",
    ("KeyedStream", "reduce"): "plus",
    ("ConnectedStreams", "map"): "CoMapF()",
    ("ConnectedStreams", "flat_map"): "CoFlatMapF()",
    ("ConnectedStreams", "process"): "CoProcessF()",
    ("WindowedStream", "process"): "ProcessWindowF()",
    ("WindowedStream", "apply"): "WindowF()",
    ("AllWindowedStream", "process"): "ProcessAllWindowF()",
    ("AllWindowedStream", "apply"): "AllWindowF()",
    ("BroadcastConnectedStream", "process"): "BroadcastF()",
}

#: Methods that run jobs, wait, need Java objects, or access the outside.
_SKIPPED = re.compile(
    r"execute|java|_j_|^print$|add_jars|add_classpaths|^close$|invalidate|from_parquet|collect$"
    r"|add_source|create_input|get_stream_graph|get_execution_plan|add_sink|^open$|^clone$"
)

#: The fixtures whose methods are called, besides those of all classes.
RECEIVERS = (
    "configuration",
    "env",
    "execution_config",
    "checkpoint_config",
    "ints",
    "pairs",
    "keyed_ints",
    "keyed_pairs",
    "keyed_rows",
    "keyed_anys",
    "cached",
    "broadcast_stream",
    "connected",
    "keyed_connected",
    "half_keyed_connected",
    "broadcast_connected",
    "keyed_broadcast_connected",
    "windowed",
    "all_windowed",
    "sink",
    "tag",
    "int_type",
    "row_type",
    "tuple_type",
    "list_type",
    "map_type",
    "named_row",
    "plain_row",
    "slot_sharing_group",
    "value_descriptor",
    "list_descriptor",
    "map_descriptor",
    "reducing_descriptor",
    "aggregating_descriptor",
    "ttl_builder",
    "ttl",
    "strategy",
    "duration",
    "instant",
    "five_ms",
    "hash_map_backend",
    "option_builder",
    "int_option",
    "text_option",
    "source_builder",
    "sink_builder",
    "part_config",
    "rolling",
    "windows",
)

#: Receivers whose methods belong to other classes.
ALIKE = (
    "pairs",
    "keyed_ints",
    "keyed_rows",
    "keyed_anys",
    "keyed_connected",
    "half_keyed_connected",
)

#: Calls whose outcome differs from one recording to the next: `null` fits several constructors of
#: Java's `Path`, and its reflection lists them in no order.
UNDECIDED = frozenset(
    (
        "FileSource.for_bulk_file_format(1, None)",
        "FileSource.for_record_stream_format(1, None)",
        "FileSink.for_bulk_format(None, 1)",
        "FileSink.for_row_format(None, 1)",
    )
)

#: Classes whose constructor and static methods are called.
CLASSES = (
    "Types",
    "Row",
    "RowKind",
    "Time",
    "Duration",
    "Instant",
    "Configuration",
    "ConfigOptions",
    "ConfigOption",
    "WatermarkStrategy",
    "OutputTag",
    "SlotSharingGroup",
    "MemorySize",
    "ValueStateDescriptor",
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "AggregatingStateDescriptor",
    "StateTtlConfig",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "EventTimeSessionWindows",
    "ProcessingTimeSessionWindows",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "GlobalWindows",
    "CountTumblingWindowAssigner",
    "CountSlidingWindowAssigner",
    "EventTimeTrigger",
    "ProcessingTimeTrigger",
    "CountTrigger",
    "PurgingTrigger",
    "NeverTrigger",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "TimeWindow",
    "CountWindow",
    "GlobalWindow",
    "NumberSequenceSource",
    "AsyncDataStream",
    "FixedDelayRetryStrategy",
    "ExponentialBackoffDelayRetryStrategy",
    "NoRetryStrategy",
    "HashMapStateBackend",
    "EmbeddedRocksDBStateBackend",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
    "SimpleStringSchema",
    "Encoder",
    "FileSource",
    "FileSink",
    "StreamFormat",
    "OutputFileConfig",
    "RollingPolicy",
    "DefaultRollingPolicy",
    "OnCheckpointRollingPolicy",
    "BucketAssigner",
    "BasicTypeInfo",
    "RowTypeInfo",
    "TupleTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "PrimitiveArrayTypeInfo",
    "BasicArrayTypeInfo",
    "ObjectArrayTypeInfo",
    "RuntimeExecutionMode",
    "CheckpointingMode",
    "ExternalizedCheckpointRetention",
    "JobStatus",
    "TriggerResult",
)


def call_cases(library: Library) -> Iterator[str]:
    """Yield the expressions of all cases, without repetition."""
    seen = set(UNDECIDED)
    for case in _all_cases(library):
        if case not in seen:
            seen.add(case)
            yield case


def _all_cases(library: Library) -> Iterator[str]:
    names = library.names()
    for receiver in RECEIVERS:
        kind = type(names[receiver])
        for method in _methods(kind):
            yield from _calls(
                f"{receiver}.{method}", kind.__name__, method, getattr(kind, method), 1
            )
    for name in CLASSES:
        kind = library.shared.get(name)
        if kind is None:
            continue
        if "__init__" in vars(kind):
            yield from _calls(name, name, "__init__", kind.__init__, 1)
        for method in _methods(kind):
            if isinstance(inspect.getattr_static(kind, method), staticmethod):
                yield from _calls(f"{name}.{method}", name, method, getattr(kind, method), 0)
    yield from OPERATIONS


def _methods(kind: type) -> list[str]:
    return [
        name
        for name in dir(kind)
        if not name.startswith("_")
        and not _SKIPPED.search(name)
        and inspect.isroutine(getattr(kind, name))
    ]


def _calls(call: str, kind: str, method: str, function: Any, bound: int) -> Iterator[str]:
    try:
        parameters = list(inspect.signature(function).parameters.values())[bound:]
    except (TypeError, ValueError):
        return
    if any(parameter.name.startswith("j_") for parameter in parameters):
        parameters = [p for p in parameters if not p.name.startswith("j_")]
        if not parameters:
            return
    needed, optional = [], []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        right = _right(kind, method, parameter.name)
        given = parameter.kind is parameter.VAR_POSITIONAL or parameter.default is parameter.empty
        (needed if given else optional).append((parameter, right))
    right_arguments = [right for _, right in needed]
    yield f"{call}({', '.join(right_arguments)})"
    yield f"{call}({', '.join([*right_arguments, *(right for _, right in optional)])})"
    kinds = ANY_KIND if len(needed) + len(optional) < 3 else SOME_KIND
    if call.split(".")[0] in ALIKE:
        kinds = SOME_KIND
    if method == "set_bytearray":  # it allocates so many bytes
        kinds = [wrong for wrong in kinds if not wrong.startswith("2**")]
    if kind == "Time":  # it multiplies its arguments by up to 86 400 000
        kinds = [wrong for wrong in kinds if wrong[0] not in "[(b'"]
    for position, (parameter, _) in enumerate(needed):
        for wrong in kinds:
            arguments = [*right_arguments]
            arguments[position] = wrong
            yield f"{call}({', '.join(arguments)})"
        if parameter.kind is not parameter.VAR_POSITIONAL:
            yield f"{call}({', '.join(right_arguments[:position])})"
    for parameter, right in optional:
        yield f"{call}({', '.join([*right_arguments, f'{parameter.name}={right}'])})"
        for wrong in kinds:
            yield f"{call}({', '.join([*right_arguments, f'{parameter.name}={wrong}'])})"
    yield f"{call}({', '.join([*right_arguments, 'unknown=1'])})"


def _right(kind: str, method: str, parameter: str) -> str:
    if parameter in ("func", "window_function") and (kind, method) in FUNCTIONS:
        return FUNCTIONS[kind, method]
    for name in (f"{kind}.{method}.{parameter}", f"{method}.{parameter}", parameter):
        if name in ARGUMENTS:
            return ARGUMENTS[name]
    return "1"
