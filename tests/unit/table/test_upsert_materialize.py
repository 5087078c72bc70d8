"""Rows for a table with a key: the last remaining row of each key counts."""

import pytest

pytest.importorskip("sqlglot")

from penstock.datastream.data_stream.stream import DataStream
from penstock.table import types
from penstock.table.functions.evaluation import Session
from penstock.table.plan.nodes import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.table.plan.schema import Field, Schema
from penstock.table.plan.translation import Translation, TranslationContext
from penstock.testing import PipelineTestHarness
from unit.table.running import HarnessTable

SCHEMA = Schema((Field("key", types.IntType()), Field("text", types.VarCharType(9))))
KINDS = (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE)


class Materialized:
    def __init__(self, key=(0,), restored=None, own_key=None):
        schema = Schema(SCHEMA.fields, own_key)
        self.table = HarnessTable("t", schema, KINDS)
        self.harness = self.table.harness = PipelineTestHarness()
        context = TranslationContext(self.harness.environment, Session(), True, {})
        made = Translation(context).translate_upserts(self.table.node(), key, None)
        self.name = made.name
        self.harness.sink("result", DataStream(self.harness.environment, made))
        self.harness.open(restored)

    def changes(self, *rows):
        before = len(self.harness.values("result"))
        self.harness.process_element("t", self.table.batch(rows))
        found = []
        for batch in self.harness.values("result")[before:]:
            keys, texts, kinds = (column.to_pylist() for column in batch.columns)
            found.extend(zip(kinds, keys, texts, strict=True))
        return found


@pytest.fixture
def materialized():
    made = Materialized()
    yield made
    made.harness.close()


def test_the_last_row_that_is_left_is_written(materialized):
    changes = materialized.changes
    assert changes((INSERT, 1, "a")) == [(INSERT, 1, "a")]
    assert changes((INSERT, 1, "b")) == [(UPDATE_AFTER, 1, "b")]
    # The older row is deleted, and the table keeps the newer one.
    assert changes((UPDATE_BEFORE, 1, "a")) == []
    assert changes((UPDATE_AFTER, 1, "c")) == [(UPDATE_AFTER, 1, "c")]
    # The newest row is deleted, and the one before it counts again.
    assert changes((DELETE, 1, "c")) == [(UPDATE_AFTER, 1, "b")]
    assert changes((DELETE, 1, "b")) == [(DELETE, 1, "b")]
    assert changes((DELETE, 1, "b")) == []
    assert changes((INSERT, 1, "d")) == [(INSERT, 1, "d")]


def test_keys_do_not_touch_each_other(materialized):
    found = materialized.changes(
        (INSERT, 1, "a"), (INSERT, 2, "x"), (UPDATE_BEFORE, 1, "a"), (UPDATE_AFTER, 2, "a")
    )
    assert found == [(INSERT, 1, "a"), (INSERT, 2, "x"), (DELETE, 1, "a"), (UPDATE_AFTER, 2, "a")]


def test_a_query_with_the_key_of_the_table_passes_no_operator():
    for own, name in (((0,), "SinkMaterializer"), ((1,), "SinkMaterializer")):
        made = Materialized(own_key=own)
        assert (made.name == name) is (own != (0,))
        made.harness.close()
