"""The rows of VALUES as a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.table.functions.evaluation import Evaluator
from penstock.taskexecutor.operators.relational.batches import arrow_schema, empty_columns

if TYPE_CHECKING:
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.nodes import Values


def values_batch(node: Values, session: Session) -> Any:
    """Return the rows of VALUES."""
    schema = arrow_schema(node.schema, has_kinds=False)
    if not len(schema):
        return empty_columns(len(node.rows))
    if not node.rows:
        return pa.RecordBatch.from_pylist([], schema=schema)
    single = pa.RecordBatch.from_arrays([pa.nulls(1)], ["$"])
    columns = []
    for position in range(len(schema)):
        cells = [row[position] for row in node.rows]
        found = Evaluator(cells, session).evaluate(single)
        columns.append(pa.concat_arrays(found))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
