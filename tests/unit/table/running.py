"""Runs queries over batches in the test's thread, and settles their changes."""

from collections import Counter

from penstock.datastream.data_stream.stream import DataStream
from penstock.table.functions.evaluation import Session
from penstock.table.plan import nodes as n
from penstock.table.plan.changelog import new_rows_only
from penstock.table.plan.context import PlanningContext
from penstock.table.plan.nodes import ROW_KIND
from penstock.table.plan.operator_building import TranslationContext
from penstock.table.plan.queries import bind_query
from penstock.table.plan.rules import optimized
from penstock.table.plan.schema import Field, Schema
from penstock.table.plan.translation import translate_optimized
from penstock.table.planning.sharing import Sharing
from penstock.table.sql.parsing import parse_query
from penstock.taskexecutor.operators.relational.batches import ChangeBuffer
from penstock.testing import PipelineTestHarness


class HarnessTable:
    """A table whose rows the test passes to the harness under the table's name."""

    def __init__(self, name, schema, kinds):
        self.name = name
        self.schema = schema
        self.kinds = frozenset(kinds)
        self.harness = None

    @classmethod
    def of(cls, name, kinds=(0,), **columns):
        """Return a table of columns with their types."""
        return cls(name, Schema(tuple(Field(c, kind) for c, kind in columns.items())), kinds)

    def node(self):
        return n.Scan(self.schema, self.name, self, self.kinds)

    def transformation(self, context):
        del context
        return self.harness.source(self.name).transformation

    def batch(self, rows):
        """Return rows as a batch; of an updating table they begin with the row kind."""
        has_kinds = len(self.kinds) > 1
        buffer = ChangeBuffer(self.schema, has_kinds=has_kinds)
        for row in rows:
            buffer.add(row[0] if has_kinds else 0, row[1:] if has_kinds else row)
        return buffer.take()


class RunningQuery:
    """One query in a harness; several may run one after the other."""

    def __init__(
        self,
        sql,
        tables,
        *,
        is_streaming=True,
        settings=None,
        restored=None,
        time_zone="UTC",
        configuration=None,
        reads_old_rows=True,
        is_shared=False,
    ):
        self.harness = PipelineTestHarness(configuration)
        self.tables = {table.name: table for table in tables}
        nodes = {}
        for table in tables:
            table.harness = self.harness
            nodes[table.name] = table.node()
        context = PlanningContext(
            lambda path, _: nodes.get(path[-1]),
            is_streaming=is_streaming,
            session=Session(time_zone),
            text=sql,
        )
        node = bind_query(parse_query(sql), context)
        self.schema: Schema = node.schema
        node = optimized(node, is_streaming=is_streaming)
        if is_shared:
            node = Sharing().shared(node)
        made = translate_optimized(
            node,
            TranslationContext(
                self.harness.environment,
                Session(time_zone),
                is_streaming,
                dict(settings or {}),
                new_rows_only([(node, reads_old_rows)]),
            ),
        )
        self.harness.sink("result", DataStream(self.harness.environment, made))
        self.harness.open(restored)

    def give(self, table, rows):
        """Process rows of a table as one batch."""
        found = self.tables[table]
        if rows and table in self.harness._inputs:
            self.harness.process_element(table, found.batch(rows))

    def flush(self):
        """Process the batches that wait for others."""
        self.harness._opened().prepare_snapshot_pre_barrier(0)

    def end(self):
        """End the inputs."""
        self.harness.run_sources()
        self.harness.end_inputs()

    def changes(self):
        """Return pairs of a row kind and a row, also of batches that wait for others."""
        self.flush()
        found = []
        for batch in self.harness.values("result"):
            columns = [column.to_pylist() for column in batch.columns]
            if batch.schema.names[-1:] == [ROW_KIND]:
                *columns, kinds = columns
            else:
                kinds = [0] * batch.num_rows
            assert len(columns) == len(self.schema)
            rows = zip(*columns, strict=True)
            found.extend((kind, tuple(row)) for kind, row in zip(kinds, rows, strict=True))
        return found

    def close(self):
        """Close the harness."""
        self.harness.close()


def settled(changes):
    """Return the bag of rows that changes leave; fail if a change removes a missing row."""
    rows = Counter()
    for kind, row in changes:
        key = tuple(row)
        if kind in (0, 2):
            rows[key] += 1
        else:
            assert rows[key] > 0, f"{row} was taken back and is not there"
            rows[key] -= 1
    return +rows


def run(sql, tables, given, **settings):
    """Return the changes of a query over batches: pairs of a table and rows."""
    query = RunningQuery(sql, tables, **settings)
    try:
        for table, rows in given:
            query.give(table, rows)
        query.end()
        return query.changes()
    finally:
        query.close()
