"""Avro with a schema registry, in jobs of both runtimes."""

import io
import json
import logging
import socket
import struct
import threading

import pytest
from penstock.common import Row, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.formats.avro import AvroSchema
from penstock.datastream.formats.avro_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from penstock.datastream.formats.dead_letters import DeserializeFunction, dead_letter_tag
from penstock.errors import FormatError, InvalidProgramError, JobCancelledError, SourceError
from support.environments import in_process
from support.schema_registry import Registry
from support.threads import assert_over

fastavro = pytest.importorskip("fastavro")


def record(*fields):
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


ID, PRICE = {"name": "id", "type": "long"}, {"name": "price", "type": "double", "default": 0.5}
FIRST, SECOND = record(ID), record(ID, PRICE)
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
FAST = {"retry_delay_ms": 1, "max_retries": 2}


@pytest.fixture
def registry():
    found = Registry()
    yield found
    found.close()


@pytest.fixture(params=["native", "pure"])
def environment(request, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", request.param)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    return env


def reader(registry, schema=SECOND, **settings):
    return ConfluentRegistryAvroDeserializationSchema.for_generic(
        AvroSchema(schema), registry.url, **{**FAST, **settings}
    )


def writer(registry, schema=SECOND, subject="orders-value", **settings):
    return ConfluentRegistryAvroSerializationSchema.for_generic(
        subject, AvroSchema(schema), registry.url, **{**FAST, **settings}
    )


def message(number, schema, value):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), value)
    return struct.pack(">bI", 0, number) + stream.getvalue()


def test_records_of_several_versions_in_a_job(registry, environment):
    old = registry.add("orders-value", FIRST)
    new = registry.add("orders-value", SECOND)
    messages = [message(old, FIRST, {"id": n}) for n in range(100)]
    messages += [message(new, SECOND, {"id": n, "price": 2.0}) for n in range(100)]
    read = reader(registry)
    rows = environment.from_collection(messages, BYTES).process(
        DeserializeFunction(read), read.get_produced_type()
    )
    with rows.execute_and_collect() as found:
        assert sorted(found, key=lambda row: (row.price, row.id)) == [
            Row(id=n, price=price) for price in (0.5, 2.0) for n in range(100)
        ]
    # Each schema is requested once.
    assert sorted(registry.asked) == [("GET", "/schemas/ids/1"), ("GET", "/schemas/ids/2")]


NAME = {"name": "name", "type": "string"}
LETTERS = {"type": "enum", "name": "Letter", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("written", "value", "read", "expected"),
    [
        (record(ID, NAME), {"id": 1, "name": "x"}, record(ID, PRICE, NAME), Row(1, 0.5, "x")),
        (record(ID, PRICE, NAME), {"id": 1, "price": 2.0, "name": "x"}, record(NAME), Row("x")),
        (record(ID, NAME), {"id": 1, "name": "x"}, record(NAME, ID), Row("x", 1)),
        (
            record({**PRICE, "name": "cost"}, ID),
            {"cost": 2.0, "id": 1},
            record(ID, {**PRICE, "aliases": ["cost"]}),
            Row(1, 2.0),
        ),
        (
            record(ID).replace("Order", "Sale"),
            {"id": 1},
            record(ID).replace('"name": "Order"', '"name": "Order", "aliases": ["Sale"]'),
            Row(1),
        ),
        (record({**ID, "type": "int"}), {"id": 1}, record({**ID, "type": "double"}), Row(1.0)),
        (record(ID), {"id": 1}, record({**ID, "type": ["null", "long"]}), Row(1)),
        (record({**ID, "type": ["null", "long"]}), {"id": 1}, record(ID), Row(1)),
        (
            record({"name": "at", "type": LETTERS}),
            {"at": "B"},
            record({"name": "at", "type": {**LETTERS, "symbols": ["A"], "default": "A"}}),
            Row("A"),
        ),
    ],
    ids=[
        "added with a default",
        "removed",
        "in another order",
        "renamed",
        "record renamed",
        "wider",
        "null allowed",
        "null no longer allowed",
        "symbol removed",
    ],
)
def test_records_of_another_version_are_read(registry, written, value, read, expected):
    number = registry.add("orders-value", written)
    found = reader(registry, read).deserialize(message(number, written, value))
    assert list(found) == list(expected)


@pytest.mark.parametrize(
    ("written", "value", "read", "reason"),
    [
        (record(ID), {"id": 1}, record(ID, NAME), "No default value for field name in Order"),
        (record(ID), {"id": 1}, record({**ID, "type": "int"}), "long is not int"),
        (record(NAME), {"name": "x"}, record({**NAME, "type": "long"}), "string is not long"),
        (record({**ID, "type": ["null", "long"]}), {"id": None}, record(ID), "not found in long"),
        (record(ID).replace("Order", "Sale"), {"id": 1}, record(ID), "'Sale'.* is not .*'Order'"),
    ],
    ids=["no default", "narrower", "another type", "null", "another record"],
)
def test_records_of_an_incompatible_version_are_rejected(registry, written, value, read, reason):
    number = registry.add("orders-value", written)
    with pytest.raises(FormatError, match=f"{reason}.*; the schema is {number}"):
        reader(registry, read).deserialize(message(number, written, value))


def test_another_library_reads_the_written_records(registry):
    write = writer(registry)
    messages = [write.serialize(Row(id=n, price=1.0)) for n in range(3)]
    assert registry.asked == [("POST", "/subjects/orders-value/versions")]
    magic, number = struct.unpack_from(">bI", messages[2])
    assert (magic, registry.schemas[number]["schema"]) == (0, SECOND)
    stream = io.BytesIO(messages[2][5:])
    parsed = fastavro.parse_schema(json.loads(SECOND))
    assert fastavro.schemaless_reader(stream, parsed) == {"id": 2, "price": 1.0}
    assert reader(registry).deserialize(messages[2]) == Row(id=2, price=1.0)


def test_a_schema_that_refers_to_another(registry):
    inner = '{"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]}'
    outer = record({"name": "at", "type": "Place"})
    whole = record({"name": "at", "type": json.loads(inner)})
    registry.add("place", inner)
    named = [{"name": "Place", "subject": "place", "version": 1}]
    number = registry.add("orders-value", outer, references=named)
    data = message(number, whole, {"at": {"x": 7}})
    assert reader(registry, whole).deserialize(data).at.x == 7


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not begin with a zero byte"),
        (b"{}", "does not begin with a zero byte"),
        (struct.pack(">bI", 1, 1), "does not begin with a zero byte"),
        (struct.pack(">bI", 0, 99) + b"\2", "has no schema 99"),
        (struct.pack(">bI", 0, 1), "the schema is 1"),
        (struct.pack(">bI", 0, 1) + b"\2\2", "1 bytes follow the record"),
        (struct.pack(">bI", 0, 2) + b"\2", "PROTOBUF"),
    ],
)
def test_poison_is_a_dead_letter(registry, data, reason):
    registry.add("orders-value", FIRST)
    registry.add("orders-value", "syntax", schemaType="PROTOBUF")
    good = message(1, FIRST, {"id": 4})
    read, bad = reader(registry), dead_letter_tag("bad")
    with pytest.raises(FormatError, match=reason):
        read.deserialize(data)
    function = DeserializeFunction(read, dead_letters=bad)
    stream = in_process().from_collection([data, good], BYTES)
    rows = stream.process(function, read.get_produced_type())
    letters = rows.get_side_output(bad).map(lambda letter: letter.error, Types.STRING())
    texts = rows.map(str, Types.STRING()).union(letters)
    with texts.execute_and_collect() as found:
        assert [reason in text for text in sorted(found, key=lambda t: "Row" in t)] == [True, False]


def test_a_registry_that_is_away_for_a_moment_is_asked_again(registry, caplog):
    registry.add("orders-value", FIRST)
    registry.refusals = [500, 429]
    with caplog.at_level(logging.WARNING):
        assert reader(registry).deserialize(message(1, FIRST, {"id": 4})).id == 4
    assert caplog.text.count("retrying in") == 2


@pytest.mark.parametrize("policy", [{}, {"skip_malformed": True}])
def test_a_registry_that_stays_away_fails_the_job_and_buries_nothing(registry, policy):
    registry.refusals = [500] * 3
    env = in_process()
    stream = env.from_collection([message(1, FIRST, {"id": 4})], BYTES)
    stream.process(DeserializeFunction(reader(registry), **policy)).print()
    with pytest.raises(SourceError, match="does not respond"):
        env.execute()


def test_a_registry_that_says_nothing_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "http://{}:{}".format(*silent.getsockname())
        settings = {"timeout_ms": 50, "max_retries": 0}
        read = ConfluentRegistryAvroDeserializationSchema.for_generic(
            AvroSchema(FIRST), url, **settings
        )
        with pytest.raises(SourceError, match=r"does not respond.*TimeoutError"):
            read.deserialize(message(1, FIRST, {"id": 4}))
        write = ConfluentRegistryAvroSerializationSchema.for_generic(
            "orders-value", AvroSchema(FIRST), url, **settings
        )
        with pytest.raises(SourceError, match=r"does not respond.*TimeoutError"):
            write.serialize(Row(id=4))


def test_a_refusal_names_the_subject_and_the_words(registry):
    with pytest.raises(SourceError, match=r"refuses POST /subjects/a%2Fb/versions: 409 .*incompat"):
        writer(registry, FIRST.replace("Order", "Forbidden"), "a/b").serialize(Row(id=1))
    registry.refusals = [401]
    with pytest.raises(SourceError, match="401"):
        reader(registry).deserialize(message(1, FIRST, {"id": 4}))


def test_user_and_password_are_sent_and_not_shown(registry):
    registry.add("orders-value", FIRST)
    registry.url = registry.url.replace("http://", "http://me:se%20cret@")
    read = reader(registry, headers={"X-Team": "orders"})
    read.deserialize(message(1, FIRST, {"id": 4}))
    assert registry.headers["Authorization"] == "Basic bWU6c2UgY3JldA=="
    assert registry.headers["X-Team"] == "orders"
    with pytest.raises(FormatError) as found:
        read.deserialize(struct.pack(">bI", 0, 99) + b"\2")
    assert "cret" not in str(found.value)


def test_a_job_is_cancelled_while_a_registry_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as server:
        env = in_process()
        threads = set(threading.enumerate())
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        read = ConfluentRegistryAvroDeserializationSchema.for_generic(
            AvroSchema(FIRST), url, timeout_ms=3_600_000
        )
        stream = env.from_collection([message(1, FIRST, {"id": 4})], BYTES)
        stream.process(DeserializeFunction(read)).print()
        job = env.execute_async()
        connection, _ = server.accept()
        with connection:
            job.cancel().result()
            with pytest.raises(JobCancelledError):
                job.get_job_execution_result().result()
    assert_over(threads)


def test_arguments_that_cannot_be_meant_so(registry):
    with pytest.raises(InvalidProgramError, match="takes an AvroSchema"):
        ConfluentRegistryAvroDeserializationSchema.for_generic(FIRST, registry.url)
    with pytest.raises(InvalidProgramError, match="takes a URL of http"):
        ConfluentRegistryAvroDeserializationSchema.for_generic(AvroSchema(FIRST), "ftp://a")
    with pytest.raises(InvalidProgramError, match="max_retries is at least 0"):
        reader(registry, max_retries=-1)
    with pytest.raises(InvalidProgramError, match="name of a subject"):
        writer(registry, subject="")
