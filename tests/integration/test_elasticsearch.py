"""Elasticsearch's sinks against a server that follows the bulk protocol."""

import datetime
from dataclasses import dataclass
from decimal import Decimal

import pytest
from penstock.common import Row, RowKind, Types
from penstock.connectors.elasticsearch.actions import BulkAction
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    Elasticsearch8SinkBuilder,
    ElasticsearchEmitter,
    FlushBackoffType,
)
from penstock.errors import FormatError, InvalidProgramError, PenstockError, SinkError
from penstock.table import (
    ChangelogMode,
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    TableEnvironment,
)
from penstock.table.exceptions import ValidationException
from support.elasticsearch import ElasticNode
from support.environments import in_process
from support.reserved_ports import reserved_ports

FIELDS = ElasticsearchEmitter.static_index("users", "id")


COLUMNS = "(id INT, `day` TIMESTAMP(3), n BIGINT, PRIMARY KEY (id) NOT ENFORCED)"


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.get_config().set("parallelism.default", "1")
    return made


def declare(tables, columns, **options):
    pairs = ", ".join(f"'{key.replace('__', '.')}' = '{value}'" for key, value in options.items())
    tables.execute_sql(f"CREATE TABLE sink {columns} WITH ({pairs})")


@pytest.fixture
def node():
    made = ElasticNode()
    yield made
    made.stop()


def builder(node, emitter=FIELDS, kind=Elasticsearch7SinkBuilder):
    return kind().set_hosts(node.host).set_emitter(emitter)


def write(sink, *records):
    """Write records in this thread."""
    writer = sink.create_writer(None)
    try:
        for record in records:
            writer.write(record, None)
        writer.flush(False)
    finally:
        writer.close()


@pytest.mark.parametrize("kind", [Elasticsearch7SinkBuilder, Elasticsearch8SinkBuilder])
def test_documents_by_bulk_requests(node, kind):
    env = in_process()
    users = [{"id": str(n % 4), "name": f"é {n}"} for n in range(10)]
    stream = env.from_collection(users, Types.MAP(Types.STRING(), Types.STRING()))
    sink = builder(node, kind=kind).set_bulk_flush_max_actions(4)
    sink.set_connection_username("ann").set_connection_password("secret")
    stream.sink_to(sink.set_connection_path_prefix("/es/").build())
    env.execute()
    assert [len(bulk) for bulk in node.bulks] == [4, 4, 2]
    assert node.bulks[2] == [("update", "0"), ("update", "1")]
    names = {key: document["name"] for key, document in node.of_index("users").items()}
    assert names == {"0": "é 8", "1": "é 9", "2": "é 6", "3": "é 7"}
    path, headers = node.requests[0]
    assert path == "/es/_bulk"
    assert headers["authorization"] == "Basic YW5uOnNlY3JldA=="
    # Servers of another version reject the version in the type.
    assert headers["accept"] == "application/json"


@dataclass
class User:
    id: int
    place: str
    born: datetime.date
    worth: Decimal


def test_records_of_other_classes_are_documents(node):
    user = User(7, "here", datetime.date(2000, 1, 2), Decimal("1.50"))
    emitter = ElasticsearchEmitter.dynamic_index("place", "id")
    write(builder(node, emitter).build(), user, Row(id=8, place="there"))
    assert node.of_index("here") == {
        "7": {"id": 7, "place": "here", "born": "2000-01-02", "worth": 1.5}
    }
    assert node.of_index("there") == {"8": {"id": 8, "place": "there"}}


def test_change_rows_update_and_delete_documents(node):
    def change(kind, key, name):
        row = Row.of_kind(kind, key, name)
        row.set_field_names(["id", "name"])
        return row

    deletion = change(RowKind.DELETE, "b", None)
    write(
        builder(node).build(),
        change(RowKind.INSERT, "a", "x"),
        change(RowKind.INSERT, "b", "y"),
        change(RowKind.UPDATE_BEFORE, "a", "x"),
        change(RowKind.UPDATE_AFTER, "a", "z"),
        deletion,
    )
    assert node.of_index("users") == {"a": {"id": "a", "name": "z"}}
    # The old row of an update is deleted if the new one has another id, or does not follow.
    write(
        builder(node).build(),
        change(RowKind.INSERT, "c", "v"),
        change(RowKind.UPDATE_BEFORE, "a", "z"),
        change(RowKind.UPDATE_AFTER, "d", "z"),
        change(RowKind.UPDATE_BEFORE, "c", "v"),
    )
    assert node.of_index("users") == {"d": {"id": "d", "name": "z"}}
    # A deletion before the insertion, as after a reordering, leaves the document.
    write(
        builder(node).build(),
        change(RowKind.DELETE, "e", "w"),
        change(RowKind.INSERT, "e", "w"),
    )
    assert sorted(node.of_index("users")) == ["d", "e"]
    log = builder(node, ElasticsearchEmitter.static_index("log")).build()
    with pytest.raises(FormatError, match="-D: changes need a key_field"):
        write(log, deletion)


def test_records_without_a_key_are_new_documents(node):
    emitter = ElasticsearchEmitter.static_index("log")
    write(builder(node, emitter).build(), {"n": 1}, {"n": 1})
    assert [operation for operation, _ in node.bulks[0]] == ["index", "index"]
    assert list(node.of_index("log").values()) == [{"n": 1}] * 2


def test_a_function_makes_actions_of_every_kind(node):
    def actions(number):
        place = {"_index": "numbers", "_id": number}
        if number == 9:
            return ({**place, "_id": n, "_op_type": "delete"} for n in (1, 5))
        return {**place, "_op_type": "create", "_source": {"n": number}}

    write(builder(node, ElasticsearchEmitter.of(actions)).build(), 1, 2, 9)
    assert node.of_index("numbers") == {"2": {"n": 2}}


class Own(ElasticsearchEmitter):
    """An emitter of a user, whose constructor does not call that of the base."""

    def __init__(self, index):
        self.index = index

    def actions(self, record):
        yield {"_index": self.index, "_id": record, "n": record}
        if record > 1:
            yield {"_index": self.index, "_id": record - 1, "_op_type": "delete"}


def test_an_emitter_of_ones_own_returns_actions(node):
    write(builder(node, Own("numbers")).build(), 1, 2)
    assert node.of_index("numbers") == {"2": {"n": 2}}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (5, "it is not a dictionary"),
        ({"_index": "a", "_op_type": "upsert"}, "'_op_type' must be one of index, create"),
        ({"n": 1}, "'_index' must name an index"),
        ({"_index": "a", "_op_type": "delete"}, "'delete' needs '_id'"),
    ],
)
def test_an_action_that_is_none_is_an_error(node, given, words):
    with pytest.raises(InvalidProgramError, match=words):
        write(builder(node, ElasticsearchEmitter.of(lambda _: given)).build(), 1)


def test_busy_nodes_get_actions_again_after_longer_times(node, caplog):
    node.statuses, node.busy = [503, 0], ["b", "b"]
    sink = builder(node).set_bulk_flush_backoff_strategy(FlushBackoffType.EXPONENTIAL, 4, 1)
    write(sink.build(), {"id": "a", "n": 1}, {"id": "b", "n": 2})
    assert node.bulks == [[("update", "a"), ("update", "b")], [("update", "b")], [("update", "b")]]
    assert node.of_index("users") == {"a": {"id": "a", "n": 1}, "b": {"id": "b", "n": 2}}
    told = [r.getMessage() for r in caplog.records if r.name == "penstock.connectors.batching"]
    delays = [text.rpartition("retrying in ")[2] for text in told]
    assert delays == ["1 ms", "2 ms", "4 ms", "8 ms"]


def test_a_rejected_action_does_not_overwrite_a_later_one_of_its_document(node):
    node.busy = ["a"]
    sink = builder(node).set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 1, 0)
    write(sink.build(), {"id": "a", "n": 1}, {"id": "b", "n": 0}, {"id": "a", "n": 2})
    assert node.bulks[1] == [("update", "a"), ("update", "a")]
    assert node.of_index("users")["a"]["n"] == 2


@pytest.mark.parametrize(
    ("statuses", "busy", "record", "words"),
    [
        ([503], [], {}, "did not accept 1 of 1 entries, tried 1 times: status 503: told: so"),
        ([0], [], {}, "tried 1 times: ConnectionError"),
        ([401], [], {}, "with status 401: told: so; check the user name"),
        ([], ["a"], {}, "status 429: es_rejected_execution_exception: queue is full"),
        ([], [], {"n": "x"}, "'update' of document 'a' in index 'users' .* parse field"),
    ],
)
def test_a_rejected_action_fails_the_job(node, statuses, busy, record, words):
    node.statuses, node.busy = statuses, busy
    with pytest.raises(SinkError, match=words):
        write(builder(node).build(), {"id": "a", **record})


@pytest.mark.parametrize("record", [5, {"id": None}, {"id": "a", "n": object()}])
def test_a_record_that_is_no_document_is_an_error(node, record):
    emitter = FIELDS if isinstance(record, dict) else ElasticsearchEmitter.static_index("users")
    with pytest.raises(FormatError, match="ElasticsearchSink"):
        write(builder(node, emitter).build(), record)


def test_actions_wait_no_longer_than_the_interval(node):
    writer = builder(node).set_bulk_flush_interval(1).build().create_writer(None)
    writer.write({"id": "a"}, None)
    # The test ends when the clock's thread has sent it; without a clock the test times out.
    while not node.bulks:
        pass
    writer.close()


def test_without_a_guarantee_checkpoints_do_not_wait(node):
    sink = builder(node).set_delivery_guarantee(DeliveryGuarantee.NONE).build()
    writer = sink.create_writer(None)
    writer.write({"id": "a"}, None)
    writer.flush(False)
    assert node.bulks == []
    writer.flush(True)
    assert node.bulks == [[("update", "a")]]
    writer.close()


def test_another_node_takes_over(node):
    (port,) = reserved_ports()
    absent = f"127.0.0.1:{port}"
    sink = Elasticsearch7SinkBuilder().set_hosts([absent, node.host]).set_emitter(FIELDS).build()
    for number in range(4):  # whichever node is first
        write(sink, {"id": str(number)})
    assert len(node.of_index("users")) == 4


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda b: b.build(), "call set_emitter before"),
        (lambda b: b.set_emitter(FIELDS).build(), "call set_hosts before"),
        (lambda b: b.set_hosts("ftp://h"), "a host is http://host:9200"),
        (lambda b: b.set_hosts("http://ann:pw@h"), "without user or path, got 'h'"),
        (lambda b: b.set_hosts([]), "at least one host"),
        (lambda b: b.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE), "no transactions"),
        (lambda b: b.set_bulk_flush_max_actions(0), "num_max_actions must be at least 1, or -1"),
        (lambda b: b.set_bulk_flush_interval("1"), "interval_millis"),
        (lambda b: b.set_emitter(5), "takes an ElasticsearchEmitter, got 5"),
        (lambda b: b.get_http_host_class(), "pass strings to set_hosts"),
    ],
)
def test_wrong_settings_are_errors(make, words):
    with pytest.raises(PenstockError, match=words):
        make(Elasticsearch7SinkBuilder())


def test_types_of_documents_are_those_of_the_version(node):
    typed = ElasticsearchEmitter.static_index("users", "id", "person")
    with pytest.raises(InvalidProgramError, match="Elasticsearch 8 has no document types"):
        builder(node, typed, Elasticsearch8SinkBuilder).build()
    with pytest.raises(InvalidProgramError, match="Elasticsearch 6 needs a document type"):
        builder(node, FIELDS, Elasticsearch6SinkBuilder).build()
    action = BulkAction("index", "users", "1", b"{}", {"_type": "person"})
    assert action.lines() == b'{"index":{"_index":"users","_type":"person","_id":"1"}}\n{}\n'
    builder(node, typed, Elasticsearch6SinkBuilder).build()


@pytest.mark.parametrize("version", ["7", "8"])
def test_a_query_that_updates_writes_the_last_row_of_each_key(node, tables, version):
    declare(
        tables,
        COLUMNS,
        connector=f"elasticsearch-{version}",
        hosts=f"http://{node.host}",
        index="days-{day|yyyy.MM.dd}",
    )
    tables.execute_sql(
        "INSERT INTO sink SELECT id, MAX(TIMESTAMP '2024-05-06 07:08:09'), SUM(n) FROM "
        "(VALUES (1, 2), (2, 5), (1, 3)) AS t (id, n) GROUP BY id"
    ).wait()
    day = "2024-05-06 07:08:09"
    assert node.of_index("days-2024.05.06") == {
        "1": {"id": 1, "day": day, "n": 5},
        "2": {"id": 2, "day": day, "n": 5},
    }


def test_changes_of_a_table_become_updates_and_deletions(node):
    env = in_process()
    streams = StreamTableEnvironment.create(env)
    declare(
        streams,
        "(a STRING, b BOOLEAN, n INT, PRIMARY KEY (a, b) NOT ENFORCED)",
        connector="elasticsearch-7",
        hosts=f"http://{node.host};http://{node.host}",
        index="t-{a}",
        **{"document-id__key-delimiter": "$", "sink__bulk-flush__max-actions": "2"},
    )
    rows = [
        Row.of_kind(RowKind.INSERT, "x", True, 1),
        Row.of_kind(RowKind.INSERT, "y", False, 2),
        Row.of_kind(RowKind.UPDATE_AFTER, "x", True, 3),
        Row.of_kind(RowKind.DELETE, "y", False, 2),
    ]
    kind = Types.ROW_NAMED(["a", "b", "n"], [Types.STRING(), Types.BOOLEAN(), Types.INT()])
    schema = Schema.new_builder().column("a", "STRING NOT NULL").column("b", "BOOLEAN NOT NULL")
    schema = schema.column("n", "INT").primary_key("a", "b").build()
    source = streams.from_changelog_stream(
        env.from_collection(rows, kind), schema, ChangelogMode.upsert()
    )
    source.execute_insert("sink").wait()
    assert node.of_index("t-x") == {"x$true": {"a": "x", "b": True, "n": 3}}
    assert node.of_index("t-y") == {}


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("(a INT)", {"index": "t-{b}"}, "Unknown column 'b' in 'index'='t-{b}'"),
        ("(a INT)", {"index": "t-{a|yyyy}"}, "only a date, time or timestamp has the form"),
        ("(a INT)", {"hosts": "ftp://h"}, "a host is http://host:9200"),
        ("(a INT)", {"sink__bulk-flush__backoff__strategy": "SOMETIMES"}, "CONSTANT, EXPON"),
        ("(a INT)", {"document-type": "x"}, "Unsupported options .*document-type"),
        ("(a BYTES, PRIMARY KEY (a) NOT ENFORCED)", {}, "cannot be part of the id"),
    ],
)
def test_wrong_options_of_a_table_are_errors(tables, columns, options, words):
    given = {"connector": "elasticsearch-7", "hosts": "http://h:9200", "index": "t", **options}
    declare(tables, columns, **given)
    value = "X'00'" if "BYTES" in columns else "1"
    with pytest.raises(ValidationException, match=words):
        tables.execute_sql(f"INSERT INTO sink VALUES ({value})")


def test_an_index_cannot_be_read(tables):
    declare(tables, "(a INT)", connector="elasticsearch-8", hosts="http://h:9200", index="t")
    with pytest.raises(ValidationException, match="can only be used as a sink"):
        tables.execute_sql("SELECT * FROM sink")
