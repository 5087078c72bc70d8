"""Relational nodes: the meaning of a query, before it becomes operators.

A node is immutable, knows its inputs and its schema, and prints as one line of ``explain()``.
Records between the operators of a plan are ``pyarrow.RecordBatch``es with the columns of the
node's schema in order.  Where a node may update or delete rows (``penstock.table.plan.changelog``
says of which nodes that holds), a last column ``ROW_KIND`` of type int8 gives each row's kind:
0 to 3 for +I, -U, +U, -D, as ``penstock.common.RowKind`` numbers them; without that column all rows
are inserted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from penstock.table.plan.expressions import Column, Expression, shifted
from penstock.table.plan.schema import Field, Schema

if TYPE_CHECKING:
    from penstock.table.plan.expressions import AggregateCall, Frame, OrderItem
    from penstock.table.plan.predicates import Predicate

#: The name of the column of row kinds of a batch of changes.
ROW_KIND: Final = "$row_kind"
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)

JoinKind: TypeAlias = Literal["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]
WindowKind: TypeAlias = Literal["TUMBLE", "HOP", "CUMULATE", "SESSION"]


@dataclass(frozen=True)
class Node:
    """A relation.

    Attributes:
        schema: Its columns.
    """

    schema: Schema

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose rows this one reads."""
        return ()

    def describe(self) -> str:
        """Return the node's line in ``explain()``, without its inputs."""
        return type(self).__name__


@dataclass(frozen=True)
class _OneInput(Node):
    """A node with one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True)
class _TwoInputs(Node):
    """A node with two inputs."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)


# Leaves -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan(Node):
    """The rows of a table.

    Attributes:
        name: The path of the table, for texts.
        source: Makes the stream of batches: ``source.transformation(context)`` gives a
            ``Transformation`` whose records are batches as described above.
        kinds: The row kinds that the table has.
        is_bounded: Whether the rows end.
        projected: The positions of the columns whose values are read; None for all.
        predicates: The conditions by which the source leaves rows out, as far as it can.
    """

    name: str
    source: Any
    kinds: frozenset[int] = frozenset({INSERT})
    is_bounded: bool = True
    projected: tuple[int, ...] | None = None
    predicates: tuple[Predicate, ...] = ()

    def describe(self) -> str:
        """Return the node's line."""
        names = self.schema.names
        parts = [self.name]
        if self.predicates:
            parts.append(f"filter=[{' AND '.join(map(str, self.predicates))}]")
        if self.projected is not None:
            names = [names[i] for i in self.projected]
            parts.append(f"project=[{', '.join(names)}]")
        return f"TableSourceScan(table=[[{', '.join(parts)}]], fields=[{', '.join(names)}])"


@dataclass(frozen=True)
class Values(Node):
    """Constant rows.

    Attributes:
        rows: The rows; expressions without columns.
    """

    rows: tuple[tuple[Expression, ...], ...]

    def describe(self) -> str:
        """Return the node's line."""
        rows = ", ".join("{ " + ", ".join(map(str, row)) + " }" for row in self.rows)
        return f"Values(tuples=[[{rows}]])"


# Rows, one by one ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Project(_OneInput):
    """Expressions of each row.

    Attributes:
        expressions: One for each column.
    """

    expressions: tuple[Expression, ...]

    def describe(self) -> str:
        """Return the node's line."""
        pairs = zip(self.expressions, self.schema.names, strict=True)
        shown = [str(e) if str(e) == name else f"{e} AS {name}" for e, name in pairs]
        return f"Calc(select=[{', '.join(shown)}])"


@dataclass(frozen=True)
class Filter(_OneInput):
    """The rows for which a condition is true.

    Attributes:
        condition: The condition.
    """

    condition: Expression

    def describe(self) -> str:
        """Return the node's line."""
        return f"Calc(where=[{self.condition}])"


@dataclass(frozen=True)
class AssignWatermarks(_OneInput):
    """Watermarks by an expression of each row; rows without a time are dropped as Flink does.

    Attributes:
        index: The position of the event-time column.
        watermark: The watermark that a row brings.
    """

    index: int
    watermark: Expression

    def describe(self) -> str:
        """Return the node's line."""
        rowtime = self.schema.fields[self.index].name
        return f"WatermarkAssigner(rowtime=[{rowtime}], watermark=[{self.watermark}])"


@dataclass(frozen=True)
class Correlate(_OneInput):
    """Each row with each row that a table function returns for it.

    Attributes:
        function: ``UNNEST``, or the wrapper that ``udtf`` made.
        arguments: The arguments, of the row.
        is_outer: Whether a row without results stays, with NULLs.
        condition: Of the joined row; None for all.
        with_ordinality: Of UNNEST: whether the last column counts from 1.
    """

    function: Any
    arguments: tuple[Expression, ...]
    is_outer: bool = False
    condition: Expression | None = None
    with_ordinality: bool = False

    def describe(self) -> str:
        """Return the node's line."""
        name = getattr(self.function, "_name", self.function)
        kind = "LeftOuterJoin" if self.is_outer else "InnerJoin"
        arguments = ", ".join(map(str, self.arguments))
        return f"Correlate(invocation=[{name}({arguments})], joinType=[{kind}])"


@dataclass(frozen=True)
class Expand(_OneInput):
    """Each row once for each grouping set, with NULL for the columns outside of it.

    The last column is the number of the grouping set, which tells equal rows apart.

    Attributes:
        sets: The positions of the columns that each grouping set keeps.
        keys: The positions of all grouping columns.
    """

    sets: tuple[tuple[int, ...], ...]
    keys: tuple[int, ...]

    def describe(self) -> str:
        """Return the node's line."""
        names = self.input.schema.names
        sets = ", ".join("{" + ", ".join(names[i] for i in s) + "}" for s in self.sets)
        return f"Expand(projects=[{sets}])"


# Groups -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Aggregate(_OneInput):
    """Aggregates of the rows that have equal keys; the result has the keys and then the aggregates.

    Attributes:
        keys: Positions of the columns that make a group.
        calls: The aggregates.
        state_ttl_ms: The time to live of the state, of a hint; None for that of the configuration.
    """

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    state_ttl_ms: int | None = None

    def describe(self) -> str:
        """Return the node's line."""
        names = [self.input.schema.names[i] for i in self.keys]
        parts = [f"groupBy=[{', '.join(names)}]"] if names else []
        parts.append(f"select=[{', '.join([*names, *map(str, self.calls)])}]")
        if self.state_ttl_ms is not None:
            parts.append(f"stateTtl=[{self.state_ttl_ms} ms]")
        return f"GroupAggregate({', '.join(parts)})"


@dataclass(frozen=True)
class CountWindowAggregate(_OneInput):
    """Aggregates of a number of rows of each group, in the order of their arrival.

    Attributes:
        keys: Positions of the columns that make a group.
        calls: The aggregates.
        size: The number of rows of a window.
        slide: The number of rows between the starts of windows.
    """

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    size: int
    slide: int

    def describe(self) -> str:
        """Return the node's line."""
        select = ", ".join(map(str, self.calls))
        return f"GroupWindowAggregate(size=[{self.size}], slide=[{self.slide}], select=[{select}])"


@dataclass(frozen=True)
class TableAggregate(_OneInput):
    """The rows of a table aggregate function for each group, after the group's keys.

    Attributes:
        keys: Positions of the columns that make a group.
        call: The call of the function.
    """

    keys: tuple[int, ...]
    call: AggregateCall

    def describe(self) -> str:
        """Return the node's line."""
        names = [self.input.schema.names[i] for i in self.keys]
        grouped = f"groupBy=[{', '.join(names)}], " if names else ""
        return f"GroupTableAggregate({grouped}select=[{', '.join([*names, str(self.call)])}])"


@dataclass(frozen=True)
class Window:
    """Windows of time.

    Attributes:
        kind: How rows get windows.
        size_ms: The length; the gap of sessions; the greatest length of CUMULATE.
        slide_ms: The distance of HOP, the step of CUMULATE.
        offset_ms: The offset of the windows.
        is_rows: Whether sizes are numbers of rows instead of times.
    """

    kind: WindowKind
    size_ms: int
    slide_ms: int = 0
    offset_ms: int = 0
    is_rows: bool = False

    def __str__(self) -> str:
        sizes = [f"size=[{self.size_ms} ms]"]
        if self.slide_ms:
            sizes.append(f"{'step' if self.kind == 'CUMULATE' else 'slide'}=[{self.slide_ms} ms]")
        return f"{self.kind}({', '.join(sizes)})"


@dataclass(frozen=True)
class WindowTableFunction(_OneInput):
    """Each row once for each of its windows, with window_start, window_end and window_time.

    Attributes:
        window: The windows.
        time_index: The position of the time attribute.
        partition: For SESSION, positions of the columns that partition sessions.
    """

    window: Window
    time_index: int
    partition: tuple[int, ...] = ()

    @property
    def is_proctime(self) -> bool:
        """Return whether the windows are of processing time."""
        return self.input.schema.fields[self.time_index].is_proctime

    def describe(self) -> str:
        """Return the node's line."""
        time = self.input.schema.names[self.time_index]
        return f"WindowTableFunction(window=[{self.window}, time_col=[{time}]])"


@dataclass(frozen=True)
class WindowAggregate(_OneInput):
    """Aggregates of the rows that have equal keys and a window in common.

    The result has the keys, the aggregates, and then the properties of the window.

    Attributes:
        window: The windows; None if the input's columns ``bounds`` hold them.
        time_index: The position of the time attribute.
        keys: Positions of the columns that make a group.
        calls: The aggregates.
        properties: ``start``, ``end``, ``rowtime`` and ``proctime``, in the order of the columns.
        bounds: Positions of window_start and window_end if ``window`` is None.
    """

    window: Window | None
    time_index: int
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    properties: tuple[str, ...]
    bounds: tuple[int, int] | None = None

    def describe(self) -> str:
        """Return the node's line."""
        names = [self.input.schema.names[i] for i in self.keys]
        grouped = f"groupBy=[{', '.join(names)}], " if names else ""
        select = ", ".join([*names, *map(str, self.calls), *self.properties])
        window = self.window or "attached"
        return f"WindowAggregate({grouped}window=[{window}], select=[{select}])"


@dataclass(frozen=True)
class Over(_OneInput):
    """Each row with aggregates of the rows around it.

    Attributes:
        partition: Positions of the partitioning columns.
        order: The order of the rows; its expressions are columns.
        frame: The rows that an aggregate covers.
        calls: The aggregates, which are the last columns.
    """

    partition: tuple[int, ...]
    order: tuple[OrderItem, ...]
    frame: Frame
    calls: tuple[AggregateCall, ...]

    def describe(self) -> str:
        """Return the node's line."""
        names = [self.input.schema.names[i] for i in self.partition]
        partition = f"partitionBy=[{', '.join(names)}], " if names else ""
        order = ", ".join(map(str, self.order))
        calls = ", ".join(map(str, self.calls))
        window = f"orderBy=[{order}], window=[{self.frame}]"
        return f"OverAggregate({partition}{window}, select=[*, {calls}])"


@dataclass(frozen=True)
class Rank(_OneInput):
    """The first rows of each partition.

    Attributes:
        partition: Positions of the partitioning columns.
        order: The order of the rows; its expressions are columns.
        first: The first rank that stays, from 1.
        last: The last one; None for all.
        with_rank: Whether the last column of the result is the rank.
        bounds: Positions of window_start and window_end if the rows of a window are ranked when
            it ends; None if ranks are updated.
    """

    partition: tuple[int, ...]
    order: tuple[OrderItem, ...]
    first: int
    last: int | None
    with_rank: bool
    bounds: tuple[int, int] | None = None

    def describe(self) -> str:
        """Return the node's line."""
        names = ", ".join(self.input.schema.names[i] for i in self.partition)
        order = ", ".join(map(str, self.order))
        return (
            f"Rank(rankType=[ROW_NUMBER], rankRange=[rankStart={self.first}, "
            f"rankEnd={self.last}], partitionBy=[{names}], orderBy=[{order}])"
        )


@dataclass(frozen=True)
class Deduplicate(_OneInput):
    """One row of each key: the first or the last by time.

    Attributes:
        keys: Positions of the columns of the key.
        time_index: The position of the time attribute.
        keep_last: Whether the last row stays, else the first.
    """

    keys: tuple[int, ...]
    time_index: int
    keep_last: bool

    def describe(self) -> str:
        """Return the node's line."""
        names = ", ".join(self.input.schema.names[i] for i in self.keys)
        kept = "LastRow" if self.keep_last else "FirstRow"
        time = "ROWTIME" if self.input.schema.fields[self.time_index].is_rowtime else "PROCTIME"
        return f"Deduplicate(keep=[{kept}], key=[{names}], order=[{time}])"


@dataclass(frozen=True)
class Sort(_OneInput):
    """Rows in an order, all or some.

    Attributes:
        order: The order; its expressions are columns.  Empty of LIMIT alone.
        offset: How many rows are left out.
        limit: How many rows stay; None for all.
    """

    order: tuple[OrderItem, ...]
    offset: int = 0
    limit: int | None = None

    def describe(self) -> str:
        """Return the node's line."""
        parts = [f"orderBy=[{', '.join(map(str, self.order))}]"] if self.order else []
        if self.offset:
            parts.append(f"offset=[{self.offset}]")
        if self.limit is not None:
            parts.append(f"fetch=[{self.limit}]")
        return f"{'Sort' if self.order else 'Limit'}({', '.join(parts)})"


@dataclass(frozen=True)
class Match(_OneInput):
    """Matches of a pattern among the rows of each partition: MATCH_RECOGNIZE.

    Attributes:
        specification: The pattern, its definitions and measures.
    """

    specification: Any

    def describe(self) -> str:
        """Return the node's line."""
        names = [self.input.schema.names[i] for i in self.specification.partition]
        partition = f"partitionBy=[{', '.join(names)}], " if names else ""
        return f"Match({partition}{self.specification})"


# Several relations --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Join(_TwoInputs):
    """Pairs of rows.

    The result has the columns of the left and then of the right side; of SEMI and ANTI only those
    of the left.

    Attributes:
        kind: Which rows without a match stay.
        left_keys: Positions of the left columns that must equal ``right_keys``.
        right_keys: Positions of columns of the right side.
        condition: The condition of the joined row besides the keys; None for nothing.
        is_null_aware: Of NOT IN: whether a NULL on the right leaves no row.
        equates_nulls: Whether NULL equals NULL, as in set operations.
        state_ttl_ms: The times to live of the state of both sides, of a hint; None for that of the
            configuration.
    """

    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    condition: Expression | None = None
    is_null_aware: bool = False
    equates_nulls: bool = False
    state_ttl_ms: tuple[int | None, int | None] = (None, None)

    def describe(self) -> str:
        """Return the node's line."""
        parts = [f"joinType=[{self.kind}]", f"where=[{self._where()}]"]
        if self.state_ttl_ms != (None, None):
            left, right = ("default" if t is None else f"{t} ms" for t in self.state_ttl_ms)
            parts.append(f"stateTtl=[{left}, {right}]")
        return f"Join({', '.join(parts)})"

    def _where(self) -> str:
        left, right = self.left.schema.names, self.right.schema.names
        pairs = zip(self.left_keys, self.right_keys, strict=True)
        parts = [f"({left[i]} = {right[j]})" for i, j in pairs]
        if self.condition is not None:
            parts.append(str(self.condition))
        return " AND ".join(parts) or "true"


@dataclass(frozen=True)
class IntervalJoin(Join):
    """A join whose rows are near in time.

    Attributes:
        left_time: The position of the left time attribute.
        right_time: The position of the right one.
        lower_ms: The least right time relative to the left one, inclusive.
        upper_ms: The greatest one, inclusive.
    """

    left_time: int = 0
    right_time: int = 0
    lower_ms: int = 0
    upper_ms: int = 0

    def describe(self) -> str:
        """Return the node's line."""
        bounds = f"leftLowerBound={self.lower_ms}, leftUpperBound={self.upper_ms}"
        where = f"where=[{self._where()}]"
        return f"IntervalJoin(joinType=[{self.kind}], windowBounds=[{bounds}], {where})"


@dataclass(frozen=True)
class TemporalJoin(Join):
    """Each left row with the version of the right side at its time.

    Attributes:
        left_time: The position of the time attribute of the left side.
        right_time: The position of the right one; None if the current version is joined.
    """

    left_time: int = 0
    right_time: int | None = None

    def describe(self) -> str:
        """Return the node's line."""
        return f"TemporalJoin(joinType=[{self.kind}], where=[{self._where()}])"


@dataclass(frozen=True)
class LookupJoin(Join):
    """Each left row with the rows that a table returns for its key on arrival.

    Attributes:
        source: The lookup source of the right side.
    """

    source: Any = None

    def describe(self) -> str:
        """Return the node's line."""
        return f"LookupJoin(joinType=[{self.kind}], lookup=[{self._where()}])"


@dataclass(frozen=True)
class WindowJoin(Join):
    """Pairs of rows of one window.

    Attributes:
        left_bounds: Positions of window_start and window_end on the left.
        right_bounds: The same on the right.
    """

    left_bounds: tuple[int, int] = (0, 0)
    right_bounds: tuple[int, int] = (0, 0)

    def describe(self) -> str:
        """Return the node's line."""
        return f"WindowJoin(joinType=[{self.kind}], where=[{self._where()}])"


@dataclass(frozen=True)
class Union(Node):
    """The rows of all inputs.

    Attributes:
        relations: The inputs; their columns have equal types.
    """

    relations: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The united relations."""
        return self.relations

    def describe(self) -> str:
        """Return the node's line."""
        return f"Union(all=[true], union=[{', '.join(self.schema.names)}])"


@dataclass(frozen=True)
class SetOperation(_TwoInputs):
    """INTERSECT or EXCEPT.

    Attributes:
        kind: Which.
        is_all: Whether equal rows are counted.
    """

    kind: Literal["INTERSECT", "EXCEPT"]
    is_all: bool

    def describe(self) -> str:
        """Return the node's line."""
        return f"{self.kind.capitalize()}(all=[{str(self.is_all).lower()}])"


@dataclass(frozen=True)
class Sink(_OneInput):
    """The rows on their way to a table.

    Attributes:
        name: The path of the table, for texts.
        sink: Takes the stream of batches: ``sink.consume(transformation, context)``.
        kinds: The row kinds that the table takes.
    """

    name: str
    sink: Any
    kinds: frozenset[int] = frozenset({INSERT})

    def describe(self) -> str:
        """Return the node's line."""
        return f"Sink(table=[{self.name}], fields=[{', '.join(self.schema.names)}])"


# Builders -----------------------------------------------------------------------------------------


def project(
    input: Node, expressions: tuple[Expression, ...] | list[Expression], names: list[str]
) -> Node:
    """Return the projection; the input itself where it has the columns already."""
    expressions = tuple(expressions)
    if _is_identity(expressions, len(input.schema)) and names == input.schema.names:
        return input
    fields = tuple(Field(n, e.type) for e, n in zip(expressions, names, strict=True))
    return Project(Schema(fields, _kept_key(input, expressions)), input, expressions)


def filtered(input: Node, condition: Expression | None) -> Node:
    """Return the filter; the input itself without a condition."""
    return input if condition is None else Filter(input.schema, input, condition)


def columns(node: Node, *, offset: int = 0) -> list[Expression]:
    """Return the columns of a node as expressions, ``offset`` positions further."""
    found: list[Expression] = [
        Column(field.type, position, field.name) for position, field in enumerate(node.schema)
    ]
    return [shifted(column, offset) for column in found] if offset else found


def joined_schema(left: Node, right: Node, kind: JoinKind) -> Schema:
    """Return the schema of a join: a side that may be missing is nullable."""
    fields = list(left.schema.fields)
    if kind in ("RIGHT", "FULL"):
        fields = [Field(f.name, f.type.nullable()) for f in fields]
    if kind in ("SEMI", "ANTI"):
        return Schema(tuple(fields), left.schema.primary_key)
    others = list(right.schema.fields)
    if kind in ("LEFT", "FULL"):
        others = [Field(f.name, f.type.nullable()) for f in others]
    return Schema(tuple(fields + others))


def _is_identity(expressions: tuple[Expression, ...], width: int) -> bool:
    return len(expressions) == width and all(
        isinstance(e, Column) and e.index == i for i, e in enumerate(expressions)
    )


def _kept_key(input: Node, expressions: tuple[Expression, ...]) -> tuple[int, ...] | None:
    key = input.schema.primary_key
    if key is None:
        return None
    places = {
        e.index: i for i, e in reversed(list(enumerate(expressions))) if isinstance(e, Column)
    }
    return tuple(places[i] for i in key) if all(i in places for i in key) else None


def explain_tree(node: Node, depth: int = 0) -> str:
    """Return the lines of a node and its inputs, each input further to the right."""
    prefix = "" if depth == 0 else "   " * (depth - 1) + "+- "
    lines = [f"{prefix}{node.describe()}"]
    lines.extend(explain_tree(child, depth + 1) for child in node.inputs)
    return "\n".join(lines)
