"""Relational nodes: the semantics of a query, before its translation to operators.

A node is immutable, has inputs and a schema, and is printed as one line of ``explain()``.
Records between the operators of a plan are ``pyarrow.RecordBatch``es with the columns of the
node's schema in order.  If a node may update or delete rows (see
``penstock.table.plan.changelog``), a last column ``ROW_KIND`` of type int8 has each row's kind:
0 to 3 for +I, -U, +U, -D, as ``penstock.common.RowKind`` numbers them; without that column all
rows are insertions.
"""

from penstock.table.plan.nodes.aggregates import (
    Aggregate,
    CountWindowAggregate,
    Over,
    TableAggregate,
    Window,
    WindowAggregate,
    WindowKind,
    WindowTableFunction,
)
from penstock.table.plan.nodes.joins import (
    IntervalJoin,
    Join,
    JoinKind,
    LookupJoin,
    SetOperation,
    TemporalJoin,
    Union,
    WindowJoin,
    joined_schema,
)
from penstock.table.plan.nodes.node import Node, explain_tree
from penstock.table.plan.nodes.orders import Deduplicate, Match, Rank, Sort
from penstock.table.plan.nodes.row_kinds import (
    ADDED,
    DELETE,
    INSERT,
    ROW_KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
)
from penstock.table.plan.nodes.rows import (
    AssignWatermarks,
    Correlate,
    Expand,
    Filter,
    FromChangelog,
    Project,
    ToChangelog,
    columns,
    filtered,
    project,
)
from penstock.table.plan.nodes.tables import Scan, Sink, Values

__all__ = [
    "ADDED",
    "DELETE",
    "INSERT",
    "ROW_KIND",
    "UPDATE_AFTER",
    "UPDATE_BEFORE",
    "Aggregate",
    "AssignWatermarks",
    "Correlate",
    "CountWindowAggregate",
    "Deduplicate",
    "Expand",
    "Filter",
    "FromChangelog",
    "IntervalJoin",
    "Join",
    "JoinKind",
    "LookupJoin",
    "Match",
    "Node",
    "Over",
    "Project",
    "Rank",
    "Scan",
    "SetOperation",
    "Sink",
    "Sort",
    "TableAggregate",
    "TemporalJoin",
    "ToChangelog",
    "Union",
    "Values",
    "Window",
    "WindowAggregate",
    "WindowJoin",
    "WindowKind",
    "WindowTableFunction",
    "columns",
    "explain_tree",
    "filtered",
    "joined_schema",
    "project",
]
