"""Upserts and tombstones on a real broker: a topic ends with the rows that a dictionary has."""

import json
from itertools import pairwise

import pytest
from integration.kafka.test_kafka_sink import environment, sink_of
from integration.test_change_rows import ORDER, change, random_changes, records_of
from penstock.common import RowKind
from penstock.connectors.change_rows import is_deletion, is_old_row
from penstock.table import DataTypes, Schema, StreamTableEnvironment
from penstock.table.changelog_mode import ChangelogMode

pytestmark = pytest.mark.kafka


def with_keys_that_stay(changes):
    """Return changes in which an update to another key is a deletion and an insertion."""
    made = list(changes)
    for place, (old, new) in enumerate(pairwise(changes)):
        if old.get_row_kind() is RowKind.UPDATE_BEFORE and (old.shop, old.id) != (new.shop, new.id):
            made[place] = change(RowKind.DELETE, *old)
            made[place + 1] = change(RowKind.INSERT, *new)
    return made


def rows_of(messages):
    """Return the rows of a topic: the last value of each key that is no tombstone."""
    log = {message.key(): message.value() for message in messages}
    assert None in log.values()
    rows = [json.loads(value) for value in log.values() if value is not None]
    return {(row["id"], row["shop"], row["item"]) for row in rows}


def test_a_topic_has_the_last_row_of_each_key(broker, topics):
    """Two writers write the changes of each key in order, with tombstones for deletions."""
    changes, expected = random_changes(7)
    topic = topics.create(partitions=3)
    env = environment(parallelism=2)
    rows = env.from_collection(changes, ORDER).set_parallelism(1)
    schema = records_of(lambda builder: builder.set_upsert_key("shop", "id"), topic=topic)
    rows.sink_to(sink_of(broker, schema))
    env.execute()
    assert rows_of(topics.read(topic)) == expected


def test_a_table_of_upserts_is_written_and_read(broker, topics):
    """Deletions become tombstones, which delete rows of the table that reads the topic."""
    changes, expected = random_changes(8)
    changes = [row for row in with_keys_that_stay(changes) if not is_old_row(row)]
    topic = topics.create(partitions=2)
    env = environment(parallelism=2)
    tables = StreamTableEnvironment.create(env)
    schema = Schema.new_builder().column("id", DataTypes.BIGINT().not_null())
    schema.column("shop", DataTypes.STRING().not_null()).column("item", DataTypes.STRING())
    stream = env.from_collection(changes, ORDER).set_parallelism(1)
    table = tables.from_changelog_stream(
        stream, schema.primary_key("shop", "id").build(), ChangelogMode.upsert()
    )
    tables.create_temporary_view("changes", table)
    tables.execute_sql(
        f"""CREATE TABLE orders (id BIGINT, shop STRING, item STRING,
            PRIMARY KEY (shop, id) NOT ENFORCED) WITH (
            'connector' = 'upsert-kafka', 'topic' = '{topic}', 'key.format' = 'json',
            'properties.bootstrap.servers' = '{broker.servers}', 'value.format' = 'json',
            'scan.bounded.mode' = 'latest-offset')"""
    )
    tables.execute_sql("INSERT INTO orders SELECT id, shop, item FROM changes").wait()
    assert rows_of(topics.read(topic)) == expected
    rows = set()
    with tables.execute_sql("SELECT * FROM orders").collect() as read:
        for row in read:
            rows.remove(tuple(row)) if is_deletion(row) else rows.add(tuple(row))
    assert rows == expected
