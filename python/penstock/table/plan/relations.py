"""Relational operations on resolved expressions, shared by SQL and the Table API."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.logic import cast_to, conjunction
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.correlation import with_outer
from penstock.table.plan.schema import Field, Schema, materialized
from penstock.table.plan.windows import window_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node
    from penstock.table.types import DataType

#: Aggregates whose result for a group is NULL only if an argument is.
_AS_NULLABLE_AS_ARGUMENT = (
    "SUM", "AVG", "MIN", "MAX", "STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP", "FIRST_VALUE",
    "LAST_VALUE",
)  # fmt: skip


@dataclass(frozen=True)
class Grouping:
    """The groups of an aggregate.

    Attributes:
        keys: The grouping expressions.
        sets: The positions of the keys of each grouping set; None without grouping sets.
    """

    keys: tuple[Expression, ...]
    sets: tuple[tuple[int, ...], ...] | None = None


@dataclass
class Aggregated:
    """An aggregate, and the mapping from expressions over its input to its columns."""

    node: Node
    replacements: dict[Expression, Expression]

    def rewritten(self, expression: Expression) -> Expression:
        """Rewrite an expression over the input to one over the result.

        Raises:
            ValidationException: It reads a column that is neither grouped nor aggregated.
        """
        found = self.replacements.get(expression)
        if found is not None:
            return found
        if isinstance(expression, e.Column):
            raise ValidationException(f"Expression '{expression}' is not being grouped")
        if isinstance(expression, e.OuterColumn | e.Literal):
            return expression
        if isinstance(expression, e.Subquery):
            plan = with_outer(
                expression.plan,
                lambda outer: self.rewritten(e.Column(outer.type, outer.index, outer.name)),
            )
            expression = replace(expression, plan=plan)
        children = tuple(self.rewritten(child) for child in expression.children)
        return expression.with_children(children) if children else expression


def contains_aggregate(expression: Expression) -> bool:
    """Return whether an expression contains an aggregate outside of OVER."""
    if isinstance(expression, e.OverCall):
        parts = [*expression.partition, *(i.expression for i in expression.order)]
        parts.extend(expression.call.children)
        return any(contains_aggregate(part) for part in parts)
    if isinstance(expression, e.AggregateCall):
        return True
    return any(contains_aggregate(child) for child in expression.children)


def aggregate_calls(expression: Expression) -> list[e.AggregateCall]:
    """Return the aggregates of an expression, without the functions of OVER themselves."""
    if isinstance(expression, e.OverCall):
        parts = [*expression.call.children, *expression.partition]
        parts.extend(item.expression for item in expression.order)
        return [call for part in parts for call in aggregate_calls(part)]
    if isinstance(expression, e.AggregateCall):
        return [expression]
    return [call for child in expression.children for call in aggregate_calls(child)]


def as_column(node: Node, expression: Expression) -> tuple[Node, int]:
    """Return the node with the expression as a column, and the position of the column."""
    nodes, positions = as_columns(node, [expression])
    return nodes, positions[0]


def as_columns(node: Node, wanted: Sequence[Expression]) -> tuple[Node, list[int]]:
    """Return the node with expressions as columns, appended if necessary, and their positions."""
    columns: list[Expression] = n.columns(node)
    names = list(node.schema.names)
    positions = []
    for expression in wanted:
        if isinstance(expression, e.Column):
            positions.append(expression.index)
            continue
        if expression in columns:
            positions.append(columns.index(expression))
            continue
        positions.append(len(columns))
        columns.append(expression)
        names.append(f"$f{len(names)}")
    return n.project(node, columns, names), positions


# Groups -------------------------------------------------------------------------------------------


def aggregated(
    input: Node,
    grouping: Grouping,
    outputs: Sequence[Expression],
    *,
    key_names: Sequence[str] = (),
    count_window: tuple[int, int] | None = None,
) -> Aggregated:
    """Return the aggregate that computes expressions.

    Args:
        input: The rows.
        grouping: The groups.
        outputs: The expressions over the input that the query computes for the groups.
        key_names: Names of the keys that are not columns.
        count_window: Size and slide of windows over a number of rows, or None.
    """
    calls: list[e.AggregateCall] = []
    for output in outputs:
        for call in aggregate_calls(output):
            if call not in calls:
                calls.append(call)
    keys = list(dict.fromkeys(grouping.keys))
    columns: list[Expression] = list(keys)
    names = [_key_name(key, i, key_names) for i, key in enumerate(grouping.keys[: len(keys)])]
    positions: dict[Expression, int] = {}
    for call in calls:
        for part in call.children:
            if part not in positions:
                if part in keys and grouping.sets is None:
                    positions[part] = keys.index(part)
                    continue
                positions[part] = len(columns)
                columns.append(part)
                names.append(f"$f{len(names)}")
    projected = n.project(input, columns, names)
    moved = [_over_columns(call, positions, projected.schema) for call in calls]
    moved = [with_nullability(c, has_rows=bool(keys)) for c in moved]
    if grouping.sets is not None:
        return _grouping_sets(projected, grouping, keys, calls, moved)
    found = _group(projected, tuple(range(len(keys))), tuple(moved))
    if count_window is not None:
        schema = Schema(found.schema.fields)
        found = n.CountWindowAggregate(
            schema, projected, tuple(range(len(keys))), tuple(moved), *count_window
        )
    replacements = _replacements(found, keys, calls)
    return Aggregated(found, replacements)


def table_aggregated(
    input: Node, keys: Sequence[Expression], call: e.AggregateCall, names: Sequence[str]
) -> Node:
    """Return the rows of a table aggregate function, after the keys of their group.

    Args:
        input: The rows.
        keys: The grouping expressions.
        call: The call of the function, whose type is the row of its results.
        names: The names of the columns of the result.

    Raises:
        ValidationException: The number of names differs from that of the columns.
    """
    kind = call.type
    results = [f.data_type for f in kind] if isinstance(kind, types.RowType) else [kind]
    if len(names) != len(keys) + len(results):
        raise ValidationException(
            f"{len(names)} names are given for {len(keys)} keys and {len(results)} results of "
            f"'{call.name}'"
        )
    wide, positions = as_columns(input, [*keys, *call.children])
    places = dict(zip([*keys, *call.children], positions, strict=True))
    moved = _over_columns(call, places, wide.schema)
    key_positions = tuple(places[key] for key in keys)
    kinds = [*(materialized(key.type) for key in keys), *(r.nullable() for r in results)]
    fields = tuple(Field(name, t) for name, t in zip(names, kinds, strict=True))
    return n.TableAggregate(Schema(fields), wide, key_positions, moved)


def _key_name(key: Expression, position: int, names: Sequence[str]) -> str:
    if isinstance(key, e.Column) and key.name:
        return key.name
    return names[position] if position < len(names) else f"$f{position}"


def _over_columns(
    call: e.AggregateCall, positions: dict[Expression, int], schema: Schema
) -> e.AggregateCall:
    def column(part: Expression) -> Expression:
        index = positions[part]
        return e.Column(schema.fields[index].type, index, str(part))

    moved = call.with_children(tuple(column(part) for part in call.children))
    assert isinstance(moved, e.AggregateCall)
    return moved


def with_nullability(call: e.AggregateCall, *, has_rows: bool) -> e.AggregateCall:
    """Return a call with the nullability of its result, which always `has_rows` or may not."""
    if not isinstance(call.function, str) or call.condition is not None:
        return call
    if call.function == "COLLECT":
        return replace(call, type=call.type.not_null())
    is_collection = call.function in ("LISTAGG", "ARRAY_AGG")
    if is_collection or (has_rows and call.function in _AS_NULLABLE_AS_ARGUMENT):
        nullable = call.arguments[0].type.is_nullable
        return replace(call, type=call.type.with_nullability(nullable))
    return call


def _replacements(
    node: Node, keys: Sequence[Expression], calls: Sequence[e.AggregateCall]
) -> dict[Expression, Expression]:
    replacements: dict[Expression, Expression] = {}
    for position, old in enumerate([*keys, *calls]):
        field = node.schema.fields[position]
        replacements[old] = e.Column(field.type, position, field.name)
    return replacements


def _group(input: Node, keys: tuple[int, ...], calls: tuple[e.AggregateCall, ...]) -> Node:
    """Return the aggregate; a window aggregate if the keys include a window's start and end."""
    fields = [_key_field(input.schema.fields[i]) for i in keys]
    fields += [Field(f"EXPR${i}", call.type) for i, call in enumerate(calls)]
    key = tuple(range(len(keys)))
    window = window_columns(input)
    if window is not None and window.start in keys and window.end in keys:
        fields = [
            input.schema.fields[k] if k == window.time else field
            for k, field in zip([*keys, *[-1] * len(calls)], fields, strict=True)
        ]
        schema = Schema(tuple(fields))
        return n.WindowAggregate(
            schema, input, None, window.time if window.time is not None else -1, keys, calls, (),
            (window.start, window.end),
        )  # fmt: skip
    return n.Aggregate(Schema(tuple(fields), key or None), input, keys, calls)


def _key_field(field: Field) -> Field:
    return field.plain()


def _grouping_sets(
    input: Node,
    grouping: Grouping,
    keys: list[Expression],
    calls: list[e.AggregateCall],
    moved: list[e.AggregateCall],
) -> Aggregated:
    assert grouping.sets is not None
    kept_everywhere = set.intersection(*(set(s) for s in grouping.sets)) if grouping.sets else set()
    positions = tuple(range(len(keys)))
    fields = [
        Field(f.name, f.type if i in kept_everywhere or i >= len(keys) else f.type.nullable())
        for i, f in enumerate(input.schema.fields)
    ]
    fields.append(Field("$e", types.BigIntType(nullable=False)))
    expanded = n.Expand(Schema(tuple(fields)), input, grouping.sets, positions)
    group_keys = (*positions, len(fields) - 1)
    found = _group(expanded, group_keys, tuple(moved))
    replacements: dict[Expression, Expression] = {}
    for position, key in enumerate(keys):
        field = found.schema.fields[position]
        replacements[key] = e.Column(field.type, position, field.name)
    number = len(keys)
    marker = e.Column(types.BigIntType(nullable=False), number, "$e")
    for position, call in enumerate(calls):
        place = number + 1 + position
        field = found.schema.fields[place]
        replacements[call] = e.Column(field.type, place, field.name)
    replacements[GROUP_MARKER] = marker
    return Aggregated(found, replacements)


#: Placeholder of the number of the grouping set until the aggregate exists.
GROUP_MARKER = e.Column(types.BigIntType(nullable=False), -1, "$grouping")


def grouping_id(arguments: Sequence[Expression], grouping: Grouping) -> Expression:
    """Return GROUPING or GROUPING_ID: one bit per argument, set if the grouping set omits it."""
    keys = list(dict.fromkeys(grouping.keys))
    values = []
    for kept in grouping.sets or (tuple(range(len(keys))),):
        bits = 0
        for argument in arguments:
            if argument not in keys:
                raise ValidationException(f"'{argument}' in GROUPING is not being grouped")
            bits = bits * 2 + (keys.index(argument) not in kept)
        values.append(bits)
    return _by_group_set(values)


def group_id(grouping: Grouping) -> Expression:
    """Return GROUP_ID: the number of equal grouping sets before that of the row."""
    sets = grouping.sets or ((),)
    return _by_group_set([sets[:position].count(kept) for position, kept in enumerate(sets)])


def _by_group_set(values: Sequence[int]) -> Expression:
    """Return the expression whose value depends on the number of the grouping set."""
    kind = types.BigIntType(nullable=False)
    results = tuple(e.Literal(kind, value) for value in values)
    if len(results) == 1:
        return results[0]
    conditions = tuple(
        e.Call(types.BooleanType(nullable=False), "=", (GROUP_MARKER, e.Literal(kind, i)))
        for i in range(len(results) - 1)
    )
    return e.Case(kind, conditions, results)


# OVER ---------------------------------------------------------------------------------------------


def over_calls(expression: Expression) -> list[e.OverCall]:
    """Return the calls with OVER in an expression."""
    return [part for part in e.walk(expression) if isinstance(part, e.OverCall)]


def over_applied(
    input: Node, outputs: Sequence[Expression], *, is_streaming: bool
) -> tuple[Node, list[Expression]]:
    """Return the node with the results of OVER, and the expressions that read them.

    Raises:
        TableException: A stream has windows of several kinds.
    """
    calls: list[e.OverCall] = []
    for output in outputs:
        calls.extend(call for call in over_calls(output) if call not in calls)
    if not calls:
        return input, list(outputs)
    groups: dict[tuple[Any, ...], list[e.OverCall]] = {}
    for call in calls:
        frame = call.frame if _has_frame(call) else _ranking_frame()
        groups.setdefault((call.partition, call.order, frame), []).append(call)
    if is_streaming and len(groups) > 1:
        # Functions without their own frame use the frame of the others.
        frames = {key[2] for key in groups if key[2] != _ranking_frame()}
        windows = {key[:2] for key in groups}
        if len(windows) > 1 or len(frames) > 1:
            raise TableException(
                "Over Agg: all aggregates of a query over a stream must have the same OVER window: "
                "the same PARTITION BY, ORDER BY and frame"
            )
    replaced: dict[Expression, Expression] = {}
    node = input
    for (partition, order, frame), members in groups.items():
        node = _over(node, partition, order, frame, members, replaced)
    return node, [_replaced(output, replaced) for output in outputs]


def _has_frame(call: e.OverCall) -> bool:
    return call.call.function not in _WITHOUT_FRAME


_WITHOUT_FRAME = (
    "LAG", "LEAD", "ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE",
)  # fmt: skip


def _ranking_frame() -> e.Frame:
    return e.Frame(True, None, 0)


def _over(
    node: Node,
    partition: tuple[Expression, ...],
    order: tuple[e.OrderItem, ...],
    frame: e.Frame,
    members: list[e.OverCall],
    replaced: dict[Expression, Expression],
) -> Node:
    wanted = [*partition, *(item.expression for item in order)]
    for member in members:
        wanted.extend(member.call.children)
    node, positions = as_columns(node, wanted)
    schema = node.schema

    def column(position: int) -> e.Column:
        field = schema.fields[position]
        return e.Column(field.type, position, field.name)

    places = iter(positions)
    keys = tuple(next(places) for _ in partition)
    items = tuple(replace(item, expression=column(next(places))) for item in order)
    calls = []
    for member in members:
        children = tuple(column(next(places)) for _ in member.call.children)
        call = member.call.with_children(children)
        assert isinstance(call, e.AggregateCall)
        calls.append(call)
    fields = list(schema.fields)
    for number, (member, call) in enumerate(zip(members, calls, strict=True)):
        place = len(schema.fields) + number
        fields.append(Field(f"w{number}$o{place}", call.type))
        replaced[member] = e.Column(call.type, place, fields[-1].name)
    return n.Over(Schema(tuple(fields)), node, keys, items, frame, tuple(calls))


def _replaced(expression: Expression, values: dict[Expression, Expression]) -> Expression:
    found = values.get(expression)
    if found is not None:
        return found
    children = expression.children
    if not children:
        return expression
    return expression.with_children(tuple(_replaced(child, values) for child in children))


# Sets and orders ----------------------------------------------------------------------------------


def aligned(relations: Sequence[Node], what: str) -> list[Node]:
    """Cast the columns of relations to common types.

    Raises:
        ValidationException: The numbers of columns differ, or types have no common one.
    """
    widths = {len(r.schema) for r in relations}
    if len(widths) > 1:
        raise ValidationException(
            f"Column count mismatch in {what}: "
            + " and ".join(str(len(r.schema)) for r in relations)
        )
    names = relations[0].schema.names
    kinds: list[DataType] = []
    for position in range(len(names)):
        found = [r.schema.fields[position].type for r in relations]
        common = _common_column(found)
        if common is None:
            shown = ", ".join(map(str, found))
            raise ValidationException(f"Type mismatch in column {position + 1} of {what}: {shown}")
        kinds.append(common)
    made = []
    for relation in relations:
        columns = [
            column if _same_time(column.type, kind) else cast_to(column, kind)
            for column, kind in zip(n.columns(relation), kinds, strict=True)
        ]
        projected = n.project(relation, columns, names)
        made.append(replace(projected, schema=_typed(projected.schema, kinds)))
    return made


def _same_time(one: DataType, other: DataType) -> bool:
    return one.nullable() == other.nullable()


def _common_column(found: list[Any]) -> DataType | None:
    first = found[0]
    attribute = getattr(first, "time_attribute", None)
    if attribute is not None and all(
        getattr(t, "time_attribute", None) is attribute for t in found
    ):
        common = rules.common_type(found)
        return None if common is None else common.with_time_attribute(attribute)  # type: ignore[attr-defined]
    return rules.common_type(found)


def _typed(schema: Schema, kinds: list[DataType]) -> Schema:
    return Schema(tuple(Field(f.name, kind) for f, kind in zip(schema, kinds, strict=True)))


def united(relations: Sequence[Node]) -> Node:
    """Return UNION ALL."""
    inputs = aligned(relations, "UNION")
    return n.Union(inputs[0].schema, tuple(inputs))


def distinct(node: Node) -> Node:
    """Return the rows without duplicates."""
    keys = tuple(range(len(node.schema)))
    window = window_columns(node)
    if window is not None and window.start in keys and window.end in keys:
        return _group(node, keys, ())
    return n.Aggregate(Schema(node.schema.without_times().fields, keys), node, keys, ())


def set_operation(left: Node, right: Node, kind: Any, *, is_all: bool) -> Node:
    """Return INTERSECT or EXCEPT."""
    left, right = aligned([left, right], kind)
    fields = left.schema.without_times().fields
    return n.SetOperation(Schema(fields), left, right, kind, is_all)


def sorted_by(
    node: Node, order: Sequence[e.OrderItem], offset: int = 0, limit: int | None = None
) -> Node:
    """Return the rows in an order; columns that only the order reads are removed again."""
    names = node.schema.names
    width = len(names)
    wider, positions = as_columns(node, [item.expression for item in order])
    items = tuple(
        replace(
            item,
            expression=e.Column(wider.schema.fields[p].type, p, wider.schema.fields[p].name),
        )
        for item, p in zip(order, positions, strict=True)
    )
    made: Node = n.Sort(wider.schema, wider, items, offset, limit)
    if len(wider.schema) > width:
        made = n.project(made, n.columns(made)[:width], names)
    return made


def filtered(node: Node, condition: Expression | None) -> Node:
    """Return the rows for which a condition is true."""
    return n.filtered(node, condition)


def all_of(conditions: Sequence[Expression]) -> Expression | None:
    """Return the AND of conditions; None without any."""
    return conjunction(conditions)
