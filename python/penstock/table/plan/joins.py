"""Joins of plans: equalities become keys, and joins within time bounds are recognised."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions.logic import conjunction
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.relations import as_columns
from penstock.table.plan.schema import Schema
from penstock.table.plan.windows import window_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import JoinKind, Node

_MILLISECOND = datetime.timedelta(milliseconds=1)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def join(
    left: Node,
    right: Node,
    kind: JoinKind,
    condition: Expression | None,
    *,
    is_null_aware: bool = False,
) -> Node:
    """Return a join; conditions are over the columns of the left side, then of the right side.

    Conditions on a single side are applied to its input if the kind of join allows it.
    """
    width = len(left.schema)
    own_left, own_right, both = _parted(e.conjuncts(condition), width)
    if kind in ("INNER", "RIGHT", "SEMI"):
        left, own_left = n.filtered(left, conjunction(own_left)), []
    if kind in ("INNER", "LEFT", "SEMI", "ANTI") and not (kind == "ANTI" and is_null_aware):
        moved = [e.shifted(part, -width) for part in own_right]
        right, own_right = n.filtered(right, conjunction(moved)), []
    rest = [*own_left, *own_right, *both]
    return _keyed(left, right, kind, rest, is_null_aware=is_null_aware)


def _parted(
    parts: Sequence[Expression], width: int
) -> tuple[list[Expression], list[Expression], list[Expression]]:
    left, right, both = [], [], []
    for part in parts:
        columns = e.columns_of(part)
        is_outer = any(isinstance(x, e.OuterColumn | e.Subquery) for x in e.walk(part))
        if columns and max(columns) < width and not is_outer:
            left.append(part)
        elif columns and min(columns) >= width and not is_outer:
            right.append(part)
        else:
            both.append(part)
    return left, right, both


def _keyed(
    left: Node, right: Node, kind: JoinKind, parts: list[Expression], *, is_null_aware: bool
) -> Node:
    width, other = len(left.schema), len(right.schema)
    pairs: list[tuple[Expression, Expression]] = []
    rest: list[Expression] = []
    for part in parts:
        pair = _equality(part, width)
        if pair is None:
            rest.append(part)
        else:
            pairs.append(pair)
    wide_left, left_keys = as_columns(left, [one for one, _ in pairs])
    wide_right, right_keys = as_columns(right, [e.shifted(o, -width) for _, o in pairs])
    # Columns that only the keys read follow those of each side.
    new_width = len(wide_left.schema)
    places = {i: i for i in range(width)} | {width + i: new_width + i for i in range(other)}
    condition = conjunction([e.moved(part, places) for part in rest])
    schema = n.joined_schema(wide_left, wide_right, kind)
    schema = Schema(schema.without_times().fields, schema.primary_key)
    made = _near_in_time(n.Join(
        schema, wide_left, wide_right, kind, tuple(left_keys), tuple(right_keys), condition,
        is_null_aware,
    ))  # fmt: skip
    if new_width == width and len(wide_right.schema) == other:
        return made
    kept = [*range(width), *range(new_width, new_width + other)]
    if kind in ("SEMI", "ANTI"):
        kept = list(range(width))
    columns = n.columns(made)
    return n.project(made, [columns[i] for i in kept], [made.schema.names[i] for i in kept])


def has_equality(condition: Expression, width: int) -> bool:
    """Return whether a condition requires that a value of each side is equal to one of the other.

    Args:
        condition: The condition, over the columns of both sides.
        width: The number of columns of the left side.
    """
    return any(_equality(part, width) is not None for part in e.conjuncts(condition))


def _equality(part: Expression, width: int) -> tuple[Expression, Expression] | None:
    if not isinstance(part, e.Call) or part.function != "=":
        return None
    one, other = part.arguments
    sides = [e.columns_of(one), e.columns_of(other)]
    if not sides[0] or not sides[1]:
        return None
    if max(sides[0]) < width <= min(sides[1]):
        return one, other
    if max(sides[1]) < width <= min(sides[0]):
        return other, one
    return None


# Near in time -------------------------------------------------------------------------------------


def _near_in_time(made: n.Join) -> Node:
    """Return a window or interval join if the join is one, otherwise the join itself."""
    window = _window_join(made)
    if window is not None:
        return window
    return _interval_join(made) or made


def _window_join(made: n.Join) -> Node | None:
    left, right = window_columns(made.left), window_columns(made.right)
    if left is None or right is None:
        return None
    pairs = set(zip(made.left_keys, made.right_keys, strict=True))
    if (left.start, right.start) not in pairs or (left.end, right.end) not in pairs:
        return None
    schema = n.joined_schema(made.left, made.right, made.kind)
    return n.WindowJoin(
        schema, made.left, made.right, made.kind, made.left_keys, made.right_keys, made.condition,
        made.is_null_aware, made.equates_nulls,
        left_bounds=(left.start, left.end), right_bounds=(right.start, right.end),
    )  # fmt: skip


def _interval_join(made: n.Join) -> Node | None:
    if made.kind in ("SEMI", "ANTI"):
        return None
    width = len(made.left.schema)
    lower: int | None = None
    upper: int | None = None
    times: set[tuple[int, int]] = set()
    rest = []
    for part in e.conjuncts(made.condition):
        found = _bound(part, made, width)
        if found is None:
            rest.append(part)
            continue
        left_time, right_time, operator, distance = found
        times.add((left_time, right_time))
        # The condition is: right time operator left time + distance.
        if operator in (">", ">=", "="):
            least = distance + (operator == ">")
            lower = least if lower is None else max(lower, least)
        if operator in ("<", "<=", "="):
            most = distance - (operator == "<")
            upper = most if upper is None else min(upper, most)
    pairs = zip(made.left_keys, made.right_keys, strict=True)
    for left_key, right_key in pairs:
        if _is_time(made.left, left_key) and _is_time(made.right, right_key):
            times.add((left_key, right_key))
            lower = upper = 0
    if lower is None or upper is None or len(times) != 1:
        return None
    ((left_time, right_time),) = times
    keys = [
        (one, other)
        for one, other in zip(made.left_keys, made.right_keys, strict=True)
        if (one, other) not in times
    ]
    return n.IntervalJoin(
        n.joined_schema(made.left, made.right, made.kind),
        made.left,
        made.right,
        made.kind,
        tuple(one for one, _ in keys),
        tuple(other for _, other in keys),
        conjunction(rest),
        left_time=left_time,
        right_time=right_time,
        lower_ms=lower,
        upper_ms=upper,
    )


def _is_time(node: Node, position: int) -> bool:
    return node.schema.fields[position].is_time


def _bound(part: Expression, made: n.Join, width: int) -> tuple[int, int, str, int] | None:
    """Return left time, right time, operator and distance in ms of a condition on both times."""
    if not isinstance(part, e.Call) or part.function not in _MIRRORED:
        return None
    one, other = _moved_time(part.arguments[0]), _moved_time(part.arguments[1])
    if one is None or other is None:
        return None
    operator = part.function
    if one[0] < width <= other[0]:
        one, other, operator = other, one, _MIRRORED[operator]
    if not other[0] < width <= one[0]:
        return None
    right_time, left_time = one[0] - width, other[0]
    if not _is_time(made.left, left_time) or not _is_time(made.right, right_time):
        return None
    return left_time, right_time, operator, other[1] - one[1]


#: Functions that add an interval to a time.
_MOVES = ("+", "-", "TIME +", "TIME -")


def _moved_time(expression: Expression) -> tuple[int, int] | None:
    """Return the column of a time, and the interval that is added to it, in ms."""
    distance = 0
    while True:
        if isinstance(expression, e.Column):
            return expression.index, distance
        if isinstance(expression, e.Cast) and expression.is_implicit:
            expression = expression.argument
            continue
        if not isinstance(expression, e.Call) or expression.function not in _MOVES:
            return None
        value, by = expression.arguments
        is_back = expression.function in ("-", "TIME -")
        if isinstance(value, e.Literal) and not is_back:
            value, by = by, value
        if not isinstance(by, e.Literal) or not isinstance(by.value, datetime.timedelta):
            return None
        step = by.value // _MILLISECOND
        distance += -step if is_back else step
        expression = value


# Versions -----------------------------------------------------------------------------------------


def temporal_join(
    left: Node,
    right: Node,
    kind: JoinKind,
    condition: Expression | None,
    time: Expression,
    names: tuple[str, ...],
) -> Node:
    """Return the join of each left row with the version of the right side at its time.

    Raises:
        ValidationException: The right side has no key or no time, or the join lacks the key.
    """
    if kind not in ("INNER", "LEFT"):
        raise TableException(f"A temporal join is INNER or LEFT, not {kind}")
    if not isinstance(time, e.Column) or not left.schema.fields[time.index].is_time:
        raise ValidationException(
            "Temporal table join currently only supports 'FOR SYSTEM_TIME AS OF' left table's time "
            f"attribute field, got '{time}'"
        )
    table = ".".join(names)
    is_proctime = left.schema.fields[time.index].is_proctime
    source = right.source if isinstance(right, n.Scan) else None
    if is_proctime and hasattr(source, "key_lookup"):
        return _lookup_join(left, right, kind, condition, source)
    made = _keyed(left, right, kind, e.conjuncts(condition), is_null_aware=False)
    inner = made.input if isinstance(made, n.Project) else made
    assert isinstance(inner, n.Join)
    key = version_key(right)
    if key is None:
        raise ValidationException(
            f"Temporal Table Join requires primary key in versioned table, but no primary key can "
            f"be found in '{table}'"
        )
    if not set(key) <= set(inner.right_keys):
        raise ValidationException(
            f"Temporal table's primary key [{', '.join(right.schema.names[i] for i in key)}] must "
            f"be included in the equivalence condition of the temporal join with '{table}'"
        )
    right_time = next((i for i, f in enumerate(inner.right.schema.fields) if f.is_rowtime), None)
    if right_time is None and not is_proctime:
        raise ValidationException(
            f"Event-Time Temporal Table Join requires both primary key and row time attribute in "
            f"versioned table, but no row time attribute can be found in '{table}'"
        )
    schema = n.joined_schema(inner.left, inner.right, kind)
    changed = n.TemporalJoin(
        schema,
        inner.left,
        inner.right,
        kind,
        inner.left_keys,
        inner.right_keys,
        inner.condition,
        left_time=time.index,
        right_time=None if is_proctime else right_time,
    )
    if isinstance(made, n.Project):
        return n.project(changed, made.expressions, made.schema.names)
    return changed


def version_key(node: Node) -> tuple[int, ...] | None:
    """Return the key columns of a versioned relation; None for other relations."""
    if node.schema.primary_key is not None:
        return node.schema.primary_key
    match node:
        case n.Deduplicate():
            return node.keys
        case n.Filter() | n.AssignWatermarks():
            return version_key(node.input)
        case n.Project():
            key = version_key(node.input)
            places = {x.index: i for i, x in enumerate(node.expressions) if isinstance(x, e.Column)}
            if key is not None and all(i in places for i in key):
                return tuple(places[i] for i in key)
    return None


def _lookup_join(
    left: Node, right: Node, kind: JoinKind, condition: Expression | None, source: Any
) -> Node:
    made = _keyed(left, right, kind, e.conjuncts(condition), is_null_aware=False)
    inner = made.input if isinstance(made, n.Project) else made
    assert isinstance(inner, n.Join)
    if not inner.right_keys:
        raise TableException("A lookup join needs an equality with a column of its table")
    if max(inner.right_keys) >= len(right.schema):
        raise ValidationException(
            "A lookup join compares columns of its table as they are, and an equality of this one "
            "has an expression, or a column of another type: CAST the other side instead"
        )
    changed = n.LookupJoin(
        n.joined_schema(inner.left, inner.right, kind),
        inner.left,
        inner.right,
        kind,
        inner.left_keys,
        inner.right_keys,
        inner.condition,
        source=source,
    )
    if isinstance(made, n.Project):
        return n.project(changed, made.expressions, made.schema.names)
    return changed


def pushed_down(condition: Expression, node: Node) -> Node:
    """Push the conditions of a filter into the join below it, as far as possible."""
    if type(node) is not n.Join or node.kind != "INNER" or node.is_null_aware:
        return n.filtered(node, condition)
    parts = e.conjuncts(condition)
    for one, other in zip(node.left_keys, node.right_keys, strict=True):
        left, right = node.left.schema.fields[one], node.right.schema.fields[other]
        column = e.Column(right.type, len(node.left.schema) + other, right.name)
        parts.append(
            e.Call(types.BooleanType(), "=", (e.Column(left.type, one, left.name), column))
        )
    parts.extend(e.conjuncts(node.condition))
    width = len(node.left.schema)
    own_left, own_right, both = _parted(parts, width)
    left_node, right_node = node.left, node.right
    if own_left:
        found = conjunction(own_left)
        assert found is not None
        left_node = pushed_down(found, left_node)
    if own_right:
        found = conjunction([e.shifted(part, -width) for part in own_right])
        assert found is not None
        right_node = pushed_down(found, right_node)
    made = _keyed(left_node, right_node, "INNER", both, is_null_aware=False)
    return with_state_ttl(made, node.state_ttl_ms)


def with_state_ttl(node: Node, times_ms: tuple[int | None, int | None]) -> Node:
    """Return a join, or the projection of one, with the state retention of a hint."""
    if times_ms == (None, None):
        return node
    if isinstance(node, n.Project):
        return replace(node, input=with_state_ttl(node.input, times_ms))
    return replace(node, state_ttl_ms=times_ms) if type(node) is n.Join else node
