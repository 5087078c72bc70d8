"""Names and keywords that only PyFlink 1 has."""

from importlib import import_module
from types import ModuleType

import pytest
from penstock import flink_1, pyflink_alias, pyflink_names
from penstock.common import Duration, Types
from penstock.common.serialization import Encoder, SimpleStringEncoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import DefaultRollingPolicy, RollingPolicy
from penstock.datastream.functions import ProcessWindowFunction, WindowFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import InvalidProgramError

TEXT = Types.STRING()


class Count(WindowFunction):
    def apply(self, key, window, inputs):
        return [str(len(list(inputs)))]


class Length(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [str(len(list(elements)))]


@pytest.fixture
def stream():
    return StreamExecutionEnvironment.get_execution_environment().from_collection(["a"], TEXT)


def test_keywords_of_types(stream):
    keyed = stream.key_by(str, key_type_info=TEXT)
    assert keyed._key_type == TEXT
    assert keyed.key_by(str, key_type_info=TEXT)._key_type == TEXT
    assert stream.flat_map(list, result_type=TEXT).get_type() == TEXT
    assert keyed.flat_map(list, result_type=TEXT).get_type() == TEXT
    windowed = keyed.window(TumblingEventTimeWindows.of(Duration.of_seconds(1)))
    assert windowed.apply(Count(), result_type=TEXT).get_type() == TEXT
    assert windowed.process(Length(), result_type=TEXT).get_type() == TEXT
    connected = stream.connect(stream).key_by(str, str, key_type_info=TEXT)
    assert connected.stream1._key_type == connected.stream2._key_type == TEXT


def test_keywords_of_fields():
    number = Types.INT()
    assert Types.ROW(types=[number]) == Types.ROW([number])
    assert Types.TUPLE(types=[number]) == Types.TUPLE([number])
    assert Types.ROW_NAMED(names=["a"], types=[number]) == Types.ROW_NAMED(["a"], [number])


def test_a_keyword_and_its_new_name(stream):
    with pytest.raises(TypeError, match="result_type and output_type, its new name"):
        stream.flat_map(list, result_type=TEXT, output_type=TEXT)
    with pytest.raises(TypeError, match="unexpected keyword argument 'result'"):
        stream.flat_map(list, result=TEXT)


def test_an_encoder():
    assert isinstance(SimpleStringEncoder(), Encoder)
    plain = Encoder.simple_string_encoder("UTF-16-LE")
    assert SimpleStringEncoder("UTF-16-LE").encode("é") == plain.encode("é")


def test_a_builder_of_rolling_policies():
    default = RollingPolicy.default_rolling_policy()
    assert vars(DefaultRollingPolicy.builder().build()) == vars(default)
    builder = DefaultRollingPolicy.builder().with_max_part_size(1).with_rollover_interval(2)
    policy = builder.with_inactivity_interval(3).build()
    assert vars(policy) == vars(RollingPolicy.default_rolling_policy(1, 2, 3))
    with pytest.raises(InvalidProgramError, match="positive"):
        builder.with_max_part_size(0).build()


@pytest.mark.parametrize("name", pyflink_names._FORMER)
def test_names_are_found_where_they_were(name):
    module = ModuleType(name)
    pyflink_names.add_imported_names(module, name)
    for attributes in pyflink_names._FORMER[name].values():
        for attribute in attributes.split():
            assert getattr(module, attribute).__name__ == attribute


@pytest.mark.parametrize("name", pyflink_alias._FORMER.values())
def test_former_modules_are_modules_of_penstock(name):
    assert import_module(f"penstock.{name}").__all__


def test_settings_without_effect():
    config = StreamExecutionEnvironment.get_execution_environment().get_config()
    assert config.disable_sysout_logging() is config
    assert config.enable_sysout_logging() is config
    assert not config.is_sysout_logging_enabled()
    assert config.get_default_input_dependency_constraint().name == "ANY"


#: Names of ``import *`` that only PyFlink 1 had, by module.
STARS = {
    "flink_1.descriptors": "Csv FileSystem Json Kafka OldCsv Schema",
    "common": "ExecutionMode",
    "datastream": (
        "ExternalizedCheckpointCleanup FsStateBackend MemoryStateBackend RocksDBStateBackend "
        "TimeCharacteristic"
    ),
    "datastream.connectors": (
        "DefaultRollingPolicy FileEnumeratorProvider FileSink FileSource FileSourceBuilder "
        "FileSplitAssignerProvider FlinkKafkaConsumer FlinkKafkaProducer JdbcConnectionOptions "
        "JdbcExecutionOptions JdbcSink NumberSequenceSource OutputFileConfig PulsarSource "
        "PulsarSourceBuilder RMQConnectionConfig RMQSink RMQSource RollingPolicy StartCursor "
        "StopCursor StreamFormat StreamingFileSink"
    ),
    "table": "BatchTableEnvironment CsvTableSink CsvTableSource TableSink TableSource WriteMode",
    "table.table_environment": "StreamTableEnvironment",
    "table.types": "Row RowKind",
}


@pytest.mark.parametrize("name", STARS)
def test_import_of_everything_brings_former_names_and_no_warning(name, caplog, monkeypatch):
    monkeypatch.setattr(flink_1, "_said", set())
    found = {}
    exec(f"from penstock.{name} import *", found)
    assert [one for one in STARS[name].split() if one not in found] == []
    assert caplog.messages == []
