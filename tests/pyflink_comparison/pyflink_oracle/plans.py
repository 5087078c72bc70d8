"""The partitioning that a stream's method chooses for the operator behind it.

A case is a kind of stream and a call of one of its methods; the answer is read from the execution
plan, so no job runs.  It consists of the paths from the sources to the ends of the program: the
ship strategies that move elements between subtasks.
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

from pyflink_oracle import outcomes
from pyflink_oracle.library import Library, Names

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Each kind of stream: its class, and an expression.
STREAMS = {
    "source": ("DataStream", "pairs"),
    "operator": ("DataStream", "tuples"),
    "one subtask": ("DataStream", "tuples.set_parallelism(1)"),
    "keyed": ("KeyedStream", "keyed"),
    "keyed source": ("KeyedStream", "pairs.key_by(first, Types.STRING())"),
    "keyed without a type": ("KeyedStream", "tuples.key_by(first)"),
    "keyed again": ("KeyedStream", "keyed.key_by(first, Types.STRING())"),
    "keyed after rebalance": ("KeyedStream", "tuples.rebalance().key_by(first, Types.STRING())"),
    "keyed union": ("KeyedStream", "tuples.union(others).key_by(first, Types.STRING())"),
    "reduced": ("DataStream", "keyed.reduce(plus)"),
    "union": ("DataStream", "tuples.union(others)"),
    "union of keyed": ("DataStream", "keyed.union(others.key_by(first, Types.STRING()))"),
    "shuffled": ("DataStream", "tuples.shuffle()"),
    "rebalanced": ("DataStream", "tuples.rebalance()"),
    "rescaled": ("DataStream", "tuples.rescale()"),
    "forwarded": ("DataStream", "tuples.forward()"),
    "broadcast": ("DataStream", "tuples.broadcast()"),
    "custom": ("DataStream", "tuples.set_parallelism(2).partition_custom(PartitionF(), first)"),
    "side output": ("DataStream", "tuples.process(ProcessF(), PAIR).get_side_output(pair_tag)"),
    "cached": ("CachedDataStream", "tuples.cache()"),
    "windowed": ("WindowedStream", "keyed.window(windows)"),
    "all windowed": ("AllWindowedStream", "tuples.window_all(windows)"),
    "keyed all windowed": ("AllWindowedStream", "keyed.window_all(windows)"),
    "connected": ("ConnectedStreams", "tuples.connect(others)"),
    "connected keyed": (
        "ConnectedStreams",
        "keyed.connect(others.key_by(first, Types.STRING()))",
    ),
    "connected partitioned": ("ConnectedStreams", "tuples.shuffle().connect(others.rescale())"),
    "broadcast connected": ("BroadcastConnectedStream", "tuples.connect(rules)"),
    "keyed broadcast connected": ("BroadcastConnectedStream", "keyed.connect(rules)"),
}

FIXTURES = {
    "PAIR": "Types.TUPLE([Types.STRING(), Types.INT()])",
    "tuples": "pairs.map(same, PAIR)",
    "others": "env.from_collection([('b', 2)], PAIR).map(same, PAIR)",
    "keyed": "tuples.key_by(first, Types.STRING())",
    "rules": "others.broadcast(map_descriptor)",
    "pair_tag": "OutputTag('pairs', PAIR)",
    "files": "FileSink.for_row_format('file:///tmp/none', Encoder.simple_string_encoder()).build()",
    "assigned": "WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Assigner())",
}

_ELEMENTS = {
    "filter": "filter(same)",
    "flat_map": "flat_map(FlatMapF(), PAIR)",
    "map": "map(same, PAIR)",
    "union": "union(others)",
    "union with itself": "union(it)",
    "union with keyed": "union(others.key_by(first, Types.STRING()))",
    "union with two": "union(others.shuffle(), others.key_by(first))",
    "project": "project(1, 0)",
    "print": "print()",
    "print with a name": "print('name')",
    "print of one subtask": "print().set_parallelism(1)",
    "sink_to": "sink_to(files)",
    "assign_timestamps_and_watermarks": "assign_timestamps_and_watermarks(strategy)",
    "assign_timestamps_and_watermarks of Python": "assign_timestamps_and_watermarks(assigned)",
    "connect": "connect(others).map(CoMapF(), PAIR)",
    "connect broadcast": "connect(rules).process(BroadcastF(), PAIR)",
    "key_by": "key_by(first, Types.STRING())",
    "window_all": "window_all(windows).reduce(plus)",
    "process": "process(ProcessF(), PAIR)",
    "get_side_output": "get_side_output(pair_tag)",
    "shuffle": "shuffle()",
    "rebalance": "rebalance()",
    "rescale": "rescale()",
    "forward": "forward()",
    "broadcast": "broadcast()",
    "broadcast of states": "broadcast(map_descriptor)",
    "partition_custom": "partition_custom(PartitionF(), first)",
    "cache": "cache()",
}
_WINDOWS = {
    "reduce": "reduce(plus)",
    "aggregate": "aggregate(AggregateF(), output_type=Types.INT())",
}

#: Each class of streams: its methods, by name, and a call of each.
CALLS: dict[str, dict[str, str]] = {
    "DataStream": _ELEMENTS,
    "CachedDataStream": _ELEMENTS,
    "KeyedStream": _ELEMENTS
    | {
        "connect": "connect(others.key_by(first, Types.STRING())).map(CoMapF(), PAIR)",
        "connect broadcast": "connect(rules).process(KeyedBroadcastF(), PAIR)",
        "process": "process(KeyedProcessF(), PAIR)",
        "reduce": "reduce(plus)",
        "sum": "sum(1)",
        "min": "min(1)",
        "max": "max(1)",
        "min_by": "min_by(1)",
        "max_by": "max_by(1)",
        "window": "window(windows).reduce(plus)",
        "count_window": "count_window(2).reduce(plus)",
    },
    "WindowedStream": _WINDOWS
    | {
        "apply": "apply(WindowF(), Types.STRING())",
        "process": "process(ProcessWindowF(), Types.STRING())",
        "side_output_late_data": "side_output_late_data(tag).reduce(plus).get_side_output(tag)",
    },
    "AllWindowedStream": _WINDOWS
    | {
        "apply": "apply(AllWindowF(), Types.INT())",
        "process": "process(ProcessAllWindowF(), Types.INT())",
        "side_output_late_data": "side_output_late_data(tag).reduce(plus).get_side_output(tag)",
    },
    "ConnectedStreams": {
        "map": "map(CoMapF(), PAIR)",
        "flat_map": "flat_map(CoFlatMapF(), PAIR)",
        "process": "process(CoProcessF(), PAIR)",
        "process with keys": "process(KeyedCoProcessF(), PAIR)",
        "key_by": "key_by(first, first, Types.STRING()).map(CoMapF(), PAIR)",
    },
    "BroadcastConnectedStream": {
        "process": "process(BroadcastF(), PAIR)",
        "process with keys": "process(KeyedBroadcastF(), PAIR)",
    },
}

#: Methods that create no edge, or run the program.
OTHERS = {
    *("cache", "disable_chaining", "execute_and_collect", "force_non_parallel"),
    *("get_execution_config", "get_execution_environment", "get_name", "get_type"),
    *("get_input_type", "invalidate", "name", "set_buffer_timeout", "set_description"),
    *("set_max_parallelism", "set_parallelism", "set_uid_hash", "slot_sharing_group"),
    *("start_new_chain", "uid", "allowed_lateness", "trigger", "evictor", "AccumulateType"),
    "add_sink",  # PyFlink's SinkFunctions are Java's
}

#: PyFlink's own operators beside a partitioning.  Penstock and Flink's Java have none there.
_OWN_OPERATORS = {
    "_keyed_stream_values_operator",
    "_partition_custom_map_operator",
    "_stream_key_by_map_operator",
}


def cases() -> Iterator[tuple[str, str, str]]:
    """Yield the name of each case, the stream and the call."""
    for kind, (name, stream) in STREAMS.items():
        for method, call in CALLS[name].items():
            yield f"{kind}: {method}", stream, call


class _Names(Names):
    """The namespace of one case, with streams of their own operators."""

    def __missing__(self, name: str) -> Any:
        if name not in FIXTURES:
            return super().__missing__(name)
        value = self[name] = eval(FIXTURES[name], self)
        return value


def _ways_in(library: Library, stream: str, call: str) -> list[list[str]]:
    names = _Names(library)
    names["it"] = eval(stream, names)
    made = eval(f"it.{call}", names)
    if type(made).__name__ == "BroadcastStream":
        made = names["others"].connect(made).process(names["BroadcastF"](), names["PAIR"])
    if hasattr(made, "map"):
        made = made.map(names["same"], names["PAIR"])
    if hasattr(made, "print"):
        made.print()
    return ways(json.loads(names["env"].get_execution_plan())["nodes"])


def ways(nodes: list[dict[str, Any]]) -> list[list[str]]:
    """Return the paths from sources to ends, each as the strategies that move its records."""
    known = {node["id"]: node for node in nodes}
    read = {edge["id"] for node in nodes for edge in node.get("predecessors", ())}
    ends = [node for node in nodes if node["id"] not in read and not _is_own(node)]
    return [*map(list, sorted({way for end in ends for way, _ in _ways_to(end, known)}))]


def _ways_to(
    node: dict[str, Any], known: dict[int, dict[str, Any]]
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield each path to an operator, and whether only own operators follow its last strategy.

    These forward elements, so of two partitionings around them the second one counts.
    """
    if "predecessors" not in node:
        yield (), False
    for edge in node.get("predecessors", ()):
        strategy = edge["ship_strategy"]
        for way, replaceable in _ways_to(known[edge["id"]], known):
            if strategy == "FORWARD":
                yield way, replaceable and _is_own(node)
            else:
                yield (*(way[:-1] if replaceable else way), strategy), _is_own(node)


def _is_own(node: dict[str, Any]) -> bool:
    return {*node["type"].split(", ")} <= _OWN_OPERATORS


def check_complete(library: Library) -> None:
    """Check that each public method of PyFlink's streams is called.

    Raises:
        RuntimeError: There are methods that no case calls.
    """
    streams = importlib.import_module(f"{library.root}.datastream.data_stream")
    for name, calls in CALLS.items():
        public = {method for method in dir(getattr(streams, name)) if not method.startswith("_")}
        missing = public - {method.split(" ")[0] for method in calls} - OTHERS
        if missing:
            raise RuntimeError(f"{name} has {sorted(missing)} too")


def run_plans(library: Library) -> dict[str, str]:
    """Return the outcome of each case."""
    library.settings = {"parallelism.default": "2"}
    return {
        name: outcomes.outcome_of(lambda stream=stream, call=call: _ways_in(library, stream, call))
        for name, stream, call in cases()
    }
