"""Expansion of columns in ``select``: ranges, all columns, exclusions, row fields, and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.plan.expressions import (
    AggregateCall,
    Column,
    Expression,
    OverCall,
    UnresolvedAlias,
    UnresolvedCall,
    UnresolvedCast,
    UnresolvedColumn,
    UnresolvedLiteral,
)
from penstock.table.plan.relations import aggregate_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from penstock.table.plan.schema import Schema


def expanded(
    trees: Sequence[Any], schema: Schema, resolve: Callable[[Any], Expression]
) -> list[Any]:
    """Replace trees that represent several columns by one tree for each.

    Args:
        trees: Unresolved trees.
        schema: The columns of the table.
        resolve: Resolves a tree over these columns.

    Raises:
        ValidationException: A range names an unknown column.
    """
    found: list[Any] = []
    for tree in trees:
        match tree:
            case UnresolvedColumn(name="*"):
                found.extend(UnresolvedColumn(name) for name in schema.names)
            case UnresolvedCall(function="WITH_COLUMNS"):
                for part in tree.arguments:
                    found.extend(_columns_of(part, schema))
            case UnresolvedCall(function="WITHOUT_COLUMNS"):
                left_out = {
                    str(column) for part in tree.arguments for column in _columns_of(part, schema)
                }
                kept = [name for name in schema.names if name not in left_out]
                found.extend(UnresolvedColumn(name) for name in kept)
            case UnresolvedCall(function="FLATTEN"):
                found.extend(_flattened(tree.arguments[0], resolve))
            case _:
                found.append(tree)
    return found


def _columns_of(tree: Any, schema: Schema) -> list[Any]:
    match tree:
        case UnresolvedCall(function="RANGE"):
            first, last = (_position(end, schema) for end in tree.options)
            if first > last:
                raise ValidationException(f"The range {tree.options} of columns is empty")
            return [UnresolvedColumn(name) for name in schema.names[first : last + 1]]
        case UnresolvedColumn(name="*"):
            return [UnresolvedColumn(name) for name in schema.names]
        case UnresolvedLiteral(value=int()):
            return [UnresolvedColumn(schema.names[_position(tree.value, schema)])]
    return [tree]


def _position(end: Any, schema: Schema) -> int:
    """Return the position of a column, given by name or by number from 1."""
    if isinstance(end, int):
        if not 1 <= end <= len(schema):
            raise ValidationException(
                f"There is no column {end}: the table has {len(schema)} columns"
            )
        return end - 1
    position = schema.index(str(end))
    if position is None:
        raise ValidationException(
            f"Column '{end}' not found: the table has {', '.join(schema.names)}"
        )
    return position


def _flattened(tree: Any, resolve: Callable[[Any], Expression]) -> list[Any]:
    resolved = resolve(tree)
    if not isinstance(resolved.type, types.RowType):
        return [tree]
    return [UnresolvedCall("GET", (tree,), options=(field.name,)) for field in resolved.type]


def _is_path(tree: Any) -> bool:
    """Return whether a tree is a column or a field within one, which name the result."""
    while isinstance(tree, UnresolvedCall) and tree.function == "GET":
        tree = tree.arguments[0]
    return isinstance(tree, UnresolvedColumn)


def output_name(tree: Any, resolved: Expression, position: int) -> str:
    """Return the name of an expression's column."""
    match tree:
        case UnresolvedAlias():
            return str(tree.names[0])
        case UnresolvedColumn():
            return str(tree.name)
        case UnresolvedCall(function="GET") if _is_path(tree):
            outer = output_name(tree.arguments[0], resolved, position)
            field = tree.options[0]
            return f"{outer}$_{field}" if isinstance(field, int) else f"{outer}${field}"
        case UnresolvedCast(argument=UnresolvedColumn(), is_try=False):
            return f"{tree.argument.name}-{tree.type}"
    if isinstance(resolved, Column) and resolved.name and not isinstance(tree, UnresolvedCall):
        return resolved.name
    return f"_c{position}"


def output_names(
    trees: Sequence[Any], outputs: Sequence[Expression], properties: Collection[Expression] = ()
) -> list[str]:
    """Return the names of the columns of expressions, which may aggregate.

    Aggregates and properties of windows are numbered in the order in which they occur, as in Flink:
    one that is a column without an alias has the name ``EXPR$n``.

    Args:
        trees: The unresolved trees.
        outputs: The resolved ones.
        properties: The resolved columns that are properties of a window.
    """
    numbered: dict[Expression, str] = {}

    def visit(expression: Expression) -> None:
        if isinstance(expression, AggregateCall) or expression in properties:
            numbered.setdefault(expression, f"EXPR${len(numbered)}")
        elif isinstance(expression, OverCall):
            for call in aggregate_calls(expression):
                visit(call)
        else:
            for child in expression.children:
                visit(child)

    for output in outputs:
        visit(output)
    return [
        numbered[output]
        if output in numbered and not isinstance(tree, UnresolvedAlias)
        else output_name(tree, output, i)
        for i, (tree, output) in enumerate(zip(trees, outputs, strict=True))
    ]


def transformed(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return an unresolved tree with ``change`` applied to each part, calls before arguments.

    ``change`` returns the replacement of a part, or the part itself.
    """
    from dataclasses import replace

    made = change(tree)
    if made is not tree:
        return made
    match tree:
        case UnresolvedCall():
            arguments = tuple(transformed(part, change) for part in tree.arguments)
            return tree if arguments == tree.arguments else replace(tree, arguments=arguments)
        case UnresolvedAlias():
            return replace(tree, argument=transformed(tree.argument, change))
    if hasattr(tree, "argument"):
        return replace(tree, argument=transformed(tree.argument, change))
    return tree
