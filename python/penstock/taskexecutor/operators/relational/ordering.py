"""Orders of rows, with NULLs first or last."""

from __future__ import annotations

from functools import total_ordering
from typing import TYPE_CHECKING, Any

from penstock.columns.order_ranks import OrderColumn, are_ranked
from penstock.taskexecutor.operators.relational.batches import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.table.plan.expressions import OrderItem
    from penstock.table.plan.schema import Schema


@total_ordering
class Descending:
    """Wraps a value and reverses its order."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and bool(self.value == other.value)

    def __lt__(self, other: Descending) -> bool:
        return bool(other.value < self.value)

    def __hash__(self) -> int:
        return hash(self.value)


def _descending(value: Any) -> object:
    """Return a value whose order is the reverse; of integers a number, which compares faster."""
    return -value if type(value) is int else Descending(value)


def order_columns(order: Sequence[OrderItem]) -> list[OrderColumn]:
    """Return the columns of an order, whose expressions are columns."""
    return [
        OrderColumn(item.expression.index, item.descending, item.nulls_first)  # type: ignore[attr-defined]
        for item in order
    ]


def sort_key(order: Sequence[OrderItem]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return the function that computes a row's sort key; order expressions are columns."""
    parts = order_columns(order)

    def key(row: Sequence[Any]) -> tuple[Any, ...]:
        made: list[Any] = []
        for index, descending, nulls_first in parts:
            value = row[index]
            if value is None:
                made.append((0 if nulls_first else 4,))
            elif value != value:
                # NaN is greater than all numbers, as in Java; unordered, it would break sorting.
                made.append((1 if descending else 3,))
            else:
                made.append((2, _descending(value) if descending else value))
        return tuple(made)

    return key


def can_rank(schema: Schema, order: Sequence[OrderItem]) -> bool:
    """Return whether kernels order the columns of an order as Python orders their values."""
    fields = arrow_schema(schema, has_kinds=False)
    return are_ranked(fields.field(column.position).type for column in order_columns(order))
