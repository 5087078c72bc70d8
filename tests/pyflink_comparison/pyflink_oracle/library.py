"""The names that a case's expressions may use, created for every case."""

from __future__ import annotations

import datetime
import decimal
import importlib
import os
from typing import Any

_MODULES = (
    "common",
    "common.config_options",
    "common.job_status",
    "common.serialization",
    "common.time",
    "common.typeinfo",
    "common.watermark_strategy",
    "datastream",
    "datastream.async_data_stream",
    "datastream.async_retry_strategies",
    "datastream.checkpoint_config",
    "datastream.checkpoint_storage",
    "datastream.connectors.file_system",
    "datastream.connectors.hybrid_source",
    "datastream.connectors.number_seq",
    "datastream.data_stream",
    "datastream.execution_mode",
    "datastream.externalized_checkpoint_retention",
    "datastream.functions",
    "datastream.output_tag",
    "datastream.slot_sharing_group",
    "datastream.state",
    "datastream.state_backend",
    "datastream.window",
)

#: Names of objects that cost calls: created when a case mentions them.
FIXTURES = {
    "configuration": "Configuration()",
    "env": "StreamExecutionEnvironment.get_execution_environment(one_subtask())",
    "execution_config": "env.get_config()",
    "checkpoint_config": "env.get_checkpoint_config()",
    "ints": "env.from_collection([1, 2, 3], Types.INT())",
    "pairs": "env.from_collection([('a', 1)], Types.TUPLE([Types.STRING(), Types.INT()]))",
    "rows": "env.from_collection([Row('a', 1)], "
    "Types.ROW_NAMED(['k', 'n'], [Types.STRING(), Types.INT()]))",
    "anys": "env.from_collection([1, 2, 3])",
    "keyed_ints": "ints.key_by(same, Types.INT())",
    "keyed_pairs": "pairs.key_by(first, Types.STRING())",
    "keyed_rows": "rows.key_by(first, Types.STRING())",
    "keyed_anys": "anys.key_by(same)",
    "mapped": "ints.map(same, Types.INT())",
    "untyped": "ints.map(same)",
    "chained": "mapped.filter(same)",
    "cached": "mapped.cache()",
    "map_descriptor": "MapStateDescriptor('m', Types.STRING(), Types.INT())",
    "broadcast_stream": "ints.broadcast(map_descriptor)",
    "connected": "ints.connect(pairs)",
    "keyed_connected": "keyed_ints.connect(keyed_pairs)",
    "half_keyed_connected": "keyed_ints.connect(pairs)",
    "broadcast_connected": "pairs.connect(broadcast_stream)",
    "keyed_broadcast_connected": "keyed_pairs.connect(broadcast_stream)",
    "windows": "TumblingEventTimeWindows.of(Time.seconds(1))",
    "windowed": "keyed_pairs.window(windows)",
    "windowed_ints": "keyed_ints.window(windows)",
    "counted": "keyed_ints.count_window(2)",
    "all_windowed": "ints.window_all(windows)",
    "sink": "mapped.print()",
    "tag": "OutputTag('tag', Types.INT())",
    "int_type": "Types.INT()",
    "row_type": "Types.ROW_NAMED(['a', 'b'], [Types.INT(), Types.STRING()])",
    "tuple_type": "Types.TUPLE([Types.INT(), Types.STRING()])",
    "list_type": "Types.LIST(Types.INT())",
    "map_type": "Types.MAP(Types.STRING(), Types.INT())",
    "named_row": "Row(a=1, b='x')",
    "plain_row": "Row(1, 'x')",
    "slot_sharing_group": "SlotSharingGroup('group')",
    "value_descriptor": "ValueStateDescriptor('v', Types.INT())",
    "list_descriptor": "ListStateDescriptor('l', Types.INT())",
    "reducing_descriptor": "ReducingStateDescriptor('r', plus, Types.INT())",
    "aggregating_descriptor": "AggregatingStateDescriptor('a', AggregateF(), Types.INT())",
    "ttl_builder": "StateTtlConfig.new_builder(Time.seconds(1))",
    "ttl": "ttl_builder.build()",
    "strategy": "WatermarkStrategy.for_monotonous_timestamps()",
    "duration": "Duration.of_millis(1500)",
    "instant": "Instant(1, 2)",
    "five_ms": "Time.milliseconds(5)",
    "number_source": "NumberSequenceSource(1, 3)",
    "hash_map_backend": "HashMapStateBackend()",
    "option_builder": "ConfigOptions.key('some.key')",
    "int_option": "ConfigOptions.key('some.key').int_type().default_value(3)",
    "text_option": "ConfigOptions.key('some.text').string_type().no_default_value()",
    "source_builder": "FileSource.for_record_stream_format("
    "StreamFormat.text_line_format(), 'file:///tmp/none')",
    "sink_builder": "FileSink.for_row_format('file:///tmp/none', Encoder.simple_string_encoder())",
    "part_config": "OutputFileConfig.builder()",
    "rolling": "RollingPolicy.default_rolling_policy()",
}


def first(value: Any) -> Any:
    """Return the first field."""
    return value[0]


class Names(dict[str, Any]):
    """The namespace of one case."""

    def __init__(self, library: Library) -> None:
        """Create the namespace; fixtures are created when they are used."""
        super().__init__(library.shared)

    def __missing__(self, name: str) -> Any:
        """Create a fixture."""
        if name not in FIXTURES:
            raise KeyError(name)
        value = self[name] = eval(FIXTURES[name], self)
        return value


class Library:
    """PyFlink or penstock, by package name."""

    def __init__(self, root: str) -> None:
        """Import the package."""
        self.root = root
        self.modules = _MODULES
        self.settings = {"parallelism.default": "1"}
        self.shared: dict[str, Any] = {
            "datetime": datetime,
            "Decimal": decimal.Decimal,
            "UTC": datetime.UTC,
        }
        for name in _MODULES:
            module = importlib.import_module(f"{root}.{name}")
            for public in getattr(module, "__all__", dir(module)):
                if not public.startswith("_"):
                    self.shared[public] = getattr(module, public)
        self.shared.update(datetime=datetime, **self._functions())
        # Imports of the modules that are not part of the API would hide fixtures.
        for name in FIXTURES:
            self.shared.pop(name, None)

    def names(self) -> Names:
        """Return a namespace for one case."""
        return Names(self)

    def one_subtask(self) -> Any:
        """Return the configuration of environments."""
        configuration = self.shared["Configuration"]()
        for key, value in self.settings.items():
            configuration.set_string(key, value)
        return configuration

    def share_python_workers(self) -> None:
        """Let all environments of PyFlink share one server of Python workers.

        Otherwise each would start its own, with threads that never end.
        """
        env = self.names()["env"]
        settings = importlib.import_module("pyflink.util.java_utils").get_j_env_configuration(
            env._j_stream_execution_environment
        )
        address = "python.loopback-server.address"
        self.settings[address] = self.shared["Configuration"](j_configuration=settings).get_string(
            address, ""
        )
        os.environ["_python_worker_execution_mode"] = "process"  # noqa: SIM112

    def _functions(self) -> dict[str, Any]:
        shared = self.shared

        class MapF(shared["MapFunction"]):
            def map(self, value):
                return value

        class FlatMapF(shared["FlatMapFunction"]):
            def flat_map(self, value):
                yield value

        class FilterF(shared["FilterFunction"]):
            def filter(self, value):
                return True

        class ReduceF(shared["ReduceFunction"]):
            def reduce(self, value1, value2):
                return value1

        class Select(shared["KeySelector"]):
            def get_key(self, value):
                return value

        class ProcessF(shared["ProcessFunction"]):
            def process_element(self, value, ctx):
                yield value

        class KeyedProcessF(shared["KeyedProcessFunction"]):
            def process_element(self, value, ctx):
                yield value

        class CoMapF(shared["CoMapFunction"]):
            def map1(self, value):
                return value

            def map2(self, value):
                return value

        class CoFlatMapF(shared["CoFlatMapFunction"]):
            def flat_map1(self, value):
                yield value

            def flat_map2(self, value):
                yield value

        class TwoInputs:
            def process_element1(self, value, ctx):
                yield value

            def process_element2(self, value, ctx):
                yield value

        class BothSides:
            def process_element(self, value, ctx):
                yield value

            def process_broadcast_element(self, value, ctx):
                yield value

        class CoProcessF(TwoInputs, shared["CoProcessFunction"]):
            pass

        class KeyedCoProcessF(TwoInputs, shared["KeyedCoProcessFunction"]):
            pass

        class BroadcastF(BothSides, shared["BroadcastProcessFunction"]):
            pass

        class KeyedBroadcastF(BothSides, shared["KeyedBroadcastProcessFunction"]):
            pass

        class PartitionF(shared["Partitioner"]):
            def partition(self, key, num_partitions):
                return 0

        class AggregateF(shared["AggregateFunction"]):
            def create_accumulator(self):
                return 0

            def add(self, value, accumulator):
                return accumulator + value

            def get_result(self, accumulator):
                return accumulator

            def merge(self, acc_a, acc_b):
                return acc_a + acc_b

        class WindowF(shared["WindowFunction"]):
            def apply(self, key, window, inputs):
                yield key

        class ProcessWindowF(shared["ProcessWindowFunction"]):
            def process(self, key, context, elements):
                yield key

        class AllWindowF(shared["AllWindowFunction"]):
            def apply(self, window, inputs):
                yield 1

        class ProcessAllWindowF(shared["ProcessAllWindowFunction"]):
            def process(self, context, elements):
                yield 1

        class AsyncF(shared["AsyncFunction"]):
            async def async_invoke(self, value):
                return [value]

        class Assigner(shared["TimestampAssigner"]):
            def extract_timestamp(self, value, record_timestamp):
                return value

        made = {name: value for name, value in locals().items() if isinstance(value, type)}
        made.update(
            same=lambda value: value,
            plus=lambda a, b: a + b,
            nothing=lambda: None,
            first=first,
            one_subtask=self.one_subtask,
        )
        return made
