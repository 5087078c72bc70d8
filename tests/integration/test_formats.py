"""Formats in jobs: bytes that become rows, and bytes that cannot."""

import io
import struct

import msgspec
import pytest
from penstock.common import Configuration, Row, Types
from penstock.common.serialization import DeserializationSchema
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import StreamFormat
from penstock.datastream.formats.dead_letters import DeserializeFunction, dead_letter_tag
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.dead_letters import is_decoding_error
from penstock.formats.file_format import FileRange

DEAD = dead_letter_tag("bad")

DECLARED = Types.ROW_NAMED(["a"], [Types.INT()])
SCHEMA = JsonRowDeserializationSchema.builder().type_info(DECLARED).build()


@pytest.fixture
def bad_and_good():
    configuration = Configuration()
    configuration.set_string("execution.target", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    return env.from_collection(
        [b'{"a":1}', b'{"a":"x"}', b"null", b'{"a":2}'], Types.PRIMITIVE_ARRAY(Types.BYTE())
    )


def elements(stream):
    with stream.execute_and_collect() as found:
        return list(found)


def test_malformed_bytes_fail_the_job_and_name_the_field(bad_and_good):
    with pytest.raises(FormatError, match="the field 'a': 'x' is not a whole number"):
        elements(bad_and_good.process(DeserializeFunction(SCHEMA), DECLARED))


def test_malformed_bytes_are_left_out(bad_and_good):
    function = DeserializeFunction(SCHEMA, skip_malformed=True)
    assert elements(bad_and_good.process(function, function.get_produced_type())) == [
        Row(a=1),
        Row(a=2),
    ]


def test_malformed_bytes_are_dead_letters(bad_and_good):
    tag = dead_letter_tag("bad")
    rows = bad_and_good.process(DeserializeFunction(SCHEMA, dead_letters=tag), DECLARED)
    both = rows.map(str, Types.STRING()).union(
        rows.get_side_output(tag).map(lambda row: f"{row.data} {row.error}", Types.STRING())
    )
    assert sorted(elements(both)) == [
        "Row(a=1)",
        "Row(a=2)",
        "b'{\"a\":\"x\"}' FormatError: the field 'a': 'x' is not a whole number; the JSON is "
        '\'{"a":"x"}\'',
    ]


class Mistaken(DeserializationSchema):
    def deserialize(self, message):
        return {}[message]


@pytest.mark.parametrize("policy", [{"skip_malformed": True}, {"dead_letters": DEAD}])
def test_a_mistake_in_a_schema_is_no_malformed_bytes(bad_and_good, policy, tmp_path):
    with pytest.raises(KeyError):
        elements(bad_and_good.process(DeserializeFunction(Mistaken(), **policy), DECLARED))
    lines = StreamFormat.line_format(Mistaken(), **policy)
    with pytest.raises(KeyError):
        list(lines.read(io.BytesIO(b"x"), FileRange("f", 0, 1)))


@pytest.mark.parametrize(
    ("error", "is_of_bytes"),
    [
        (FormatError("x"), True),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "x"), True),
        (msgspec.DecodeError(), True),
        (struct.error(), True),
        (TypeError(), False),
        (KeyError(), False),
        (NameError(), False),
    ],
)
def test_which_errors_are_those_of_bytes(error, is_of_bytes):
    assert is_decoding_error(error) is is_of_bytes


def test_invalid_arguments_are_rejected():
    with pytest.raises(InvalidProgramError, match="exclude each other"):
        DeserializeFunction(SCHEMA, skip_malformed=True, dead_letters=dead_letter_tag("x"))
    with pytest.raises(InvalidProgramError, match="OutputTag"):
        DeserializeFunction(SCHEMA, dead_letters="x")
    with pytest.raises(InvalidProgramError, match="DeserializationSchema"):
        DeserializeFunction(str)
