"""Plans over small tables in memory, for tests of queries."""

from penstock.table import types
from penstock.table.plan import nodes as n
from penstock.table.plan.context import PlanningContext
from penstock.table.plan.queries import bind_query
from penstock.table.plan.schema import Field, Schema
from penstock.table.sql.parsing import parse_query
from penstock.table.types import TimeAttribute

ROWTIME = types.TimestampType(3).with_time_attribute(TimeAttribute.ROWTIME)
PROCTIME = types.LocalZonedTimestampType(3).with_time_attribute(TimeAttribute.PROCTIME)
TEXT = types.VarCharType(0x7FFFFFFF)


def scan(name, kinds=(0,), key=None, **columns):
    """Return the scan of a table that is never read."""
    fields = tuple(Field(column, kind) for column, kind in columns.items())
    return n.Scan(Schema(fields, key), name, None, frozenset(kinds))


TABLES = {
    "orders": scan("orders", id=types.IntType(), k=TEXT, n=types.IntType(), ts=ROWTIME),
    "rates": scan("rates", key=(0,), k=TEXT.not_null(), rate=types.IntType(), ts=ROWTIME),
}


def plan(sql, *, is_streaming=True):
    """Return the node of a query over these tables."""
    context = PlanningContext(
        lambda path, _: TABLES.get(path[-1]),
        list_tables=lambda: list(TABLES),
        is_streaming=is_streaming,
        text=sql,
    )
    return bind_query(parse_query(sql), context)
