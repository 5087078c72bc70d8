"""What to do instead of a method that a stream, or the environment, has not."""

from __future__ import annotations

import difflib
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

_KEYED: Final = (
    *("count_window", "interval_join", "max", "max_by", "min", "min_by"),
    *("reduce", "sum", "window"),
)
_WINDOWED: Final = (
    *("aggregate", "allowed_lateness", "apply", "evictor", "side_output_late_data", "trigger"),
)
_ELEMENTS: Final = (
    *("add_sink", "assign_timestamps_and_watermarks", "connect", "execute_and_collect"),
    *("filter", "flat_map", "join", "key_by", "map", "print", "project", "rebalance"),
    *("shuffle", "sink_to", "union", "window", "window_all"),
)
_COLLECT: Final = "it is execute_and_collect() that runs the program and brings the elements here"

_INTO_WINDOWS: Final = "put the elements into windows first: key_by(…).window(…), or window_all(…)"
_AFTER_WINDOW: Final = (
    "windows give elements once they are evaluated: call reduce, aggregate, apply or process first"
)

_HINTS: Final[dict[str, dict[str, str]]] = {
    "DataStream": {
        **dict.fromkeys(_WINDOWED, _INTO_WINDOWS),
        **dict.fromkeys(_KEYED, "call key_by first; over all elements there is window_all"),
        **dict.fromkeys(("close_with", "with_feedback_type"), "call iterate first"),
        **dict.fromkeys(("where", "equal_to"), "call join or co_group first"),
        **dict.fromkeys(("collect", "count", "head", "show", "take", "to_pandas"), _COLLECT),
        **dict.fromkeys(("group_by", "groupby", "partition_by"), "it is key_by"),
        **dict.fromkeys(("for_each", "foreach"), "give a SinkFunction to add_sink"),
        "select": "call split first",
        "execute": "it is the environment that executes: get_execution_environment().execute()",
    },
    "_AnyWindowedStream": {
        **dict.fromkeys([*_ELEMENTS, "get_side_output"], _AFTER_WINDOW),
        **dict.fromkeys(
            ("count", "max", "max_by", "min", "min_by", "sum"), "write it as reduce or aggregate"
        ),
    },
    "ConnectedStreams": dict.fromkeys(
        [*_ELEMENTS, "reduce", "get_side_output"],
        "connected streams become one by map, flat_map or process: call one of these first",
    ),
    "BroadcastConnectedStream": dict.fromkeys(
        [*_ELEMENTS, "reduce", "get_side_output"], "call process first, which makes them one stream"
    ),
    "BroadcastStream": dict.fromkeys(
        [*_ELEMENTS, "process", "reduce"],
        "a broadcast stream is for connect: stream.connect(broadcast_stream).process(…)",
    ),
    "_TwoKeyedStreams": dict.fromkeys(
        [*_ELEMENTS, "apply", "process", "reduce", "trigger"],
        "name the keys and the windows first: where(…).equal_to(…).window(…).apply(…)",
    ),
    "_WithWindow": dict.fromkeys([*_ELEMENTS, "process"], "call apply first"),
    "DataStreamSink": dict.fromkeys(
        [*_ELEMENTS, "process", "reduce"],
        "a sink ends a stream: call it on the stream that goes into the sink",
    ),
    "StreamExecutionEnvironment": {
        **dict.fromkeys(_ELEMENTS, "it belongs to a stream: make one with from_collection, say"),
        **dict.fromkeys(
            ("from_dataframe", "from_data_frame", "from_list", "parallelize"),
            "it is from_collection, which takes tables too",
        ),
        **dict.fromkeys(
            ("from_sequence", "generate_sequence"),
            "give a NumberSequenceSource to from_source",
        ),
        "run": "it is execute",
    },
}


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
}
"""The methods of PyFlink 1 that `penstock.flink_1.methods` has."""


class MissingMethods:
    """Says of a method that is not there what to do, or which one is meant.

    A method that PyFlink 1 had is made when a program asks for it.
    """

    if not TYPE_CHECKING:  # else type checkers would believe that every method is there

        def __getattr__(self, name: str) -> Any:
            for base in type(self).__mro__:
                if name in _FORMER.get(base.__name__, ()):
                    methods = import_module("penstock.flink_1.methods")
                    return methods.bound_method(self, base.__name__, name)
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            hint = "" if name.startswith("_") else _hint(type(self), name)
            if hint:  # without name and obj, or tracebacks add a guess of the interpreter's
                raise AttributeError(f"{message}: {hint}")
            raise AttributeError(message, name=name, obj=self)


def _hint(kind: type, name: str) -> str:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    names = [known for known in dir(kind) if not known.startswith("_")]
    if snake in names:
        return f"it is {snake} in Python"
    for base in kind.__mro__:
        hint = _HINTS.get(base.__name__, {}).get(snake)
        if hint is not None:
            return hint
    near = difflib.get_close_matches(snake, names, n=1)
    return f"did you mean {near[0]}?" if near else ""
