"""Resolution of unresolved trees whose calls differ from those of SQL: fields, texts, ROW."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.plan import expressions as e

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.plan.binder import Binder
    from penstock.table.plan.scopes import Scope

_STRING = types.DataTypes.STRING()
#: The types of functions whose type in SQL is another one; nullable if an argument is.
_PLAIN_RESULTS: Final[dict[str, types.DataType]] = {
    "DATE_FORMAT": _STRING,
    "FROM_UNIXTIME": _STRING,
    "LOWER": _STRING,
    "LTRIM": _STRING,
    "OVERLAY": _STRING,
    "PARSE_URL": _STRING,
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
            case e.UnresolvedCall(function="TO_DATE" | "TO_TIMESTAMP" as name):
                # In the Table API, unlike in SQL, the time of a non-NULL text is NOT NULL.
                values = [resolve(of_sql, binder, a, scope) for a in part.arguments]
                made = binder.call(name, values)
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
