"""The node of VALUES, whose columns have common types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.exceptions import ValidationException
from penstock.table.plan import nodes as n
from penstock.table.plan.schema import Field, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node


def values_node(rows: list[list[Expression]], names: Sequence[str] = ()) -> Node:
    """Return VALUES of rows, whose columns have common types.

    Raises:
        ValidationException: The lengths of rows differ, or a column has no common type.
    """
    from penstock.table.functions import type_rules
    from penstock.table.functions.logic import cast_to

    if len({len(row) for row in rows}) > 1:
        raise ValidationException("The rows of VALUES have different numbers of columns")
    fields = []
    cast_rows = [list(row) for row in rows]
    for position in range(len(rows[0])):
        kind = type_rules.common_type([row[position].type for row in rows])
        if kind is None:
            raise ValidationException(
                f"Values passed to VALUES operator must have compatible types: column "
                f"{position + 1} has " + ", ".join(str(row[position].type) for row in rows)
            )
        name = names[position] if position < len(names) else f"EXPR${position}"
        fields.append(Field(name, kind))
        for row in cast_rows:
            row[position] = cast_to(row[position], kind)
    return n.Values(Schema(tuple(fields)), tuple(tuple(row) for row in cast_rows))
