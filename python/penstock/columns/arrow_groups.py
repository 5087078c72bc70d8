"""Groups of an Arrow table, without pyarrow's datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


def grouped(table: pa.Table, keys: Sequence[str], wanted: Sequence[tuple[str, str]]) -> pa.Table:
    """Return the keys and aggregates of each group, in the order of their first rows.

    This is ``table.group_by(keys, use_threads=False).aggregate(wanted)``, which imports pyarrow's
    datasets and with them pandas: 0.25 s of CPU time in each worker.

    Args:
        table: The rows.
        keys: The columns by which they are grouped.
        wanted: Pairs of a column and a function; the result's column is called `COLUMN_FUNCTION`.
    """
    # Its public name is pyarrow.acero, which imports the datasets.
    from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions

    calls = [(name, f"hash_{function}", None, f"{name}_{function}") for name, function in wanted]
    plan = Declaration.from_sequence(
        [
            Declaration("table_source", TableSourceNodeOptions(table)),
            Declaration("aggregate", AggregateNodeOptions(calls, keys=list(keys))),
        ]
    )
    return plan.to_table(use_threads=False)
