"""Calls specific to the Table API: fields, SQL texts, functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.expression import Expression
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.udf import UserDefinedFunctionWrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.table.plan.binder import Binder
    from penstock.table.plan.nodes import Node
    from penstock.table.plan.scopes import Scope
    from penstock.table.table import Table
    from penstock.table.table_environment import TableEnvironment


_STRING = types.DataTypes.STRING()
#: The types of functions whose type in SQL is another one; nullable if an argument is.
_PLAIN_RESULTS: Final[dict[str, types.DataType]] = {
    "DATE_FORMAT": _STRING,
    "FROM_UNIXTIME": _STRING,
    "LOWER": _STRING,
    "LTRIM": _STRING,
    "OVERLAY": _STRING,
    "REVERSE": _STRING,
    "RTRIM": _STRING,
    "STR_TO_MAP": types.MapType(_STRING, _STRING),
    "SUBSTR": _STRING,
    "SUBSTRING": _STRING,
    "TRIM": _STRING,
    "UPPER": _STRING,
}


def resolve(
    of_sql: Callable[[str, Scope], e.Expression], binder: Binder, tree: Any, scope: Scope
) -> e.Expression:
    """Resolve an unresolved tree.

    Args:
        of_sql: Resolves an SQL expression.
        binder: Resolves the calls that also exist in SQL.
        tree: The tree.
        scope: The available names.

    Raises:
        ValidationException: A name is unknown, or a type does not fit.
    """

    def replaced(part: Any) -> Any:
        """Return a tree of calls that the binder knows, or the resolved call."""
        match part:
            case e.UnresolvedAlias():
                return replaced(part.argument)
            case e.UnresolvedCall(function="GET"):
                value = resolve(of_sql, binder, part.arguments[0], scope)
                return _field(binder, value, part.options[0])
            case e.UnresolvedCall(function="TO_DATE"):
                # In the Table API, unlike in SQL, the date of a non-NULL text is NOT NULL.
                values = [resolve(of_sql, binder, a, scope) for a in part.arguments]
                made = binder.call("TO_DATE", values)
                if any(value.type.is_nullable for value in values):
                    return made
                return replace(made, type=made.type.not_null())
            case e.UnresolvedCall(function=str() as name) if name in _PLAIN_RESULTS:
                # In the Table API, unlike in SQL, the type does not follow from that of the text.
                values = [resolve(of_sql, binder, a, scope) for a in part.arguments]
                made = binder.call(name, values, options=part.options)
                nullable = any(value.type.is_nullable for value in values)
                return replace(made, type=_PLAIN_RESULTS[name].with_nullability(nullable))
            case e.UnresolvedCall(function="ROW"):
                # In the Table API, unlike in SQL, the fields are f0, f1, and so on.
                values = [resolve(of_sql, binder, a, scope) for a in part.arguments]
                fields = [types.RowField(f"f{i}", v.type) for i, v in enumerate(values)]
                made = binder.call("ROW", values)
                return replace(made, type=types.RowType(fields, nullable=False))
            case e.UnresolvedCall(function="SQL"):
                return of_sql(part.options[0], scope)
            case e.UnresolvedCall(function="IN TABLE"):
                value = resolve(of_sql, binder, part.arguments[0], scope)
                plan = part.options[0]
                kind = types.BooleanType()
                return e.Subquery(kind, "IN", plan, (value,))
            case e.UnresolvedCall(function="+"):
                values = [resolve(of_sql, binder, a, scope) for a in part.arguments]
                if not isinstance(values[0].type, _TEXTS):
                    return e.UnresolvedCall("+", tuple(values))
                # In the Table API, unlike in SQL, a value is appended to a text.
                texts = (
                    v if isinstance(v.type, _TEXTS) else binder.cast(v, types.DataTypes.STRING())
                    for v in values
                )
                return e.UnresolvedCall("CONCAT", tuple(texts))
            case e.UnresolvedCall():
                arguments = tuple(replaced(argument) for argument in part.arguments)
                return e.UnresolvedCall(part.function, arguments, part.is_distinct, part.options)
            case e.UnresolvedCast():
                return e.UnresolvedCast(replaced(part.argument), part.type, part.is_try)
            case e.UnresolvedOver():
                order = tuple((replaced(item), descends) for item, descends in part.order)
                partition = tuple(map(replaced, part.partition))
                return e.UnresolvedOver(replaced(part.call), partition, order, part.frame)
        return part

    return binder.resolve(replaced(tree), scope)


_TEXTS = (types.CharType, types.VarCharType)


def _field(binder: Binder, value: e.Expression, key: Any) -> e.Expression:
    kind = value.type
    if not isinstance(kind, types.RowType):
        raise ValidationException(f"'{value}' of type {kind} has no field {key!r}: it is not a ROW")
    names = kind.field_names()
    if isinstance(key, int):
        if not 0 <= key < len(names):
            raise ValidationException(f"'{value}' has no field {key}: it has {len(names)}")
        key = names[key]
    if key not in names:
        raise ValidationException(f"'{value}' has no field '{key}': it has {', '.join(names)}")
    return binder.field(value, key)


def table_function(
    environment: TableEnvironment, table: Table, call: Any
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
    environment: TableEnvironment, table: Table, func: Any
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
            wanted = kind.lower().replace("_", " ")
            raise ValidationException(f"{func.name} is no {wanted} function")
        call = e.UnresolvedCall(func.taking_row(), (whole_row(table.plan_node),))
        return e.UnresolvedAlias(call, func.alias_names) if func.alias_names else call
    tree = func.tree if isinstance(func, Expression) else func
    inner = tree.argument if isinstance(tree, e.UnresolvedAlias) else tree
    if not isinstance(inner, e.UnresolvedCall):
        raise ValidationException(f"Expected an aggregate function or its call, got {func!r}")
    return tree
