"""Calls of the Table API over rows: table functions, functions of whole rows, aggregates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.expression.expression import Expression
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.udf.wrappers import UserDefinedFunctionWrapper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.nodes import Node
    from penstock.table.table.table import Table
    from penstock.table.table_context import TableContext


def table_function(
    environment: TableContext, table: Table, call: Any
) -> tuple[Any, list[e.Expression], Sequence[str]]:
    """Return wrapper, arguments and column names of a table function's call.

    Raises:
        ValidationException: The call is not of a table function.
    """
    tree = call.tree if isinstance(call, Expression) else call
    names: Sequence[str] = ()
    if isinstance(tree, e.UnresolvedAlias):
        names, tree = tree.names, tree.argument
    if isinstance(tree, UserDefinedFunctionWrapper):
        wrapper, arguments = row_function(environment, table, tree)
        return wrapper, arguments, names or wrapper.alias_names
    if not isinstance(tree, e.UnresolvedCall):
        raise ValidationException(f"Expected the call of a table function, got {tree}")
    wrapper = tree.function
    if isinstance(wrapper, str):
        wrapper = environment.catalogs.find_function(tuple(wrapper.split(".")))
    if wrapper is None or getattr(wrapper, "kind", "") != "TABLE":
        raise ValidationException(f"'{tree.function}' is not a table function")
    arguments = [table.resolve(argument) for argument in tree.arguments]
    return wrapper, arguments, names or wrapper.alias_names


def row_function(
    environment: TableContext, table: Table, func: Any
) -> tuple[Any, list[e.Expression]]:
    """Return the wrapper of a function and its arguments: those of a call, or the whole row.

    Raises:
        ValidationException: The argument is neither.
    """
    if isinstance(func, UserDefinedFunctionWrapper):
        return func.taking_row(), [whole_row(table.plan_node)]
    tree = func.tree if isinstance(func, Expression) else func
    names: Sequence[str] = ()
    if isinstance(tree, e.UnresolvedAlias):
        names, tree = tree.names, tree.argument
    if not isinstance(tree, e.UnresolvedCall):
        raise ValidationException(f"Expected a function or its call, got {func!r}")
    wrapper = tree.function
    if isinstance(wrapper, str):
        wrapper = environment.catalogs.find_function(tuple(wrapper.split(".")))
    if wrapper is None:
        raise ValidationException(f"The function '{tree.function}' is unknown")
    if names:
        wrapper.alias(*names)
    return wrapper, [table.resolve(argument) for argument in tree.arguments]


def whole_row(node: Node) -> e.Expression:
    """Return the row of a relation as a single value."""
    from penstock.table.functions import registry

    columns = n.columns(node)
    made = registry.call("ROW", *columns)
    fields = [types.RowField(f.name, f.type) for f in node.schema]
    return replace(made, type=types.RowType(fields, nullable=False))


def fields_node(node: Node, call: e.Expression, names: Sequence[str] | None) -> Node:
    """Return a relation whose columns are the fields of a call's ROW result.

    Raises:
        ValidationException: The numbers of names and fields differ.
    """
    kind = call.type
    if not isinstance(kind, types.RowType):
        return n.project(node, [call], [*(names or ("f0",))][:1])
    if names is not None and len(names) != len(kind):
        raise ValidationException(f"{len(names)} names are given for {len(kind)} fields")
    with_row = n.project(node, [call], ["$row"])
    from penstock.table.plan.scopes import fields_of

    row = n.columns(with_row)[0]
    fields = [fields_of(row, (field.name,)) for field in kind]
    return n.project(with_row, fields, list(names or kind.field_names()))


def aggregate_tree(table: Table, func: Any, kind: str = "AGGREGATE") -> Any:
    """Return the unresolved call of an aggregate function, over the whole row if it has none.

    Args:
        table: The rows.
        func: The function, or its call.
        kind: AGGREGATE or TABLE_AGGREGATE.

    Raises:
        ValidationException: The argument is not an aggregate function.
    """
    if isinstance(func, UserDefinedFunctionWrapper):
        if func.kind != kind:
            raise ValidationException(f"{func.name} is a {func.kind} function, not {kind}")
        call = e.UnresolvedCall(func.taking_row(), (whole_row(table.plan_node),))
        return e.UnresolvedAlias(call, func.alias_names) if func.alias_names else call
    tree = func.tree if isinstance(func, Expression) else func
    inner = tree.argument if isinstance(tree, e.UnresolvedAlias) else tree
    if not isinstance(inner, e.UnresolvedCall):
        raise ValidationException(f"Expected an aggregate function or its call, got {func!r}")
    return tree
