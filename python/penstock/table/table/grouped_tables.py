"""Intermediate tables of aggregations: grouped, windowed, or with OVER windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.expression.expression import Expression
from penstock.table.expression.text_expressions import expression_trees
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan import relations
from penstock.table.plan.relations import Grouping
from penstock.table.plan.schema import Field, Schema
from penstock.table.plan.subqueries import joined_subqueries
from penstock.table.plan.windows import milliseconds, window_table_function
from penstock.table.table.api_calls import aggregate_tree
from penstock.table.table.column_expansion import expanded, output_name, output_names, transformed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.nodes import Node
    from penstock.table.table.table import Table
    from penstock.table.window import GroupWindow, OverWindow


class GroupedTable:
    """Rows grouped by equal values.

    Args:
        table: The rows.
        keys: The unresolved trees of the grouping keys.
    """

    def __init__(self, table: Table, keys: Sequence[Any]) -> None:
        self._table = table
        self._keys = list(keys)

    def select(self, *fields: Expression[Any]) -> Table:
        """Return a row of keys and aggregates for each group."""
        table = self._table
        return grouped_select(table, self._keys, expression_trees(fields))

    def aggregate(self, func: Any) -> AggregatedTable:
        """Return the results of an aggregate function for each group, to select from."""
        return AggregatedTable(self._table, self._keys, func)

    def flat_aggregate(self, func: Any) -> FlatAggregateTable:
        """Return the rows of a table aggregate function for each group."""
        return FlatAggregateTable(self._table, self._keys, func)


def grouped_select(
    table: Table,
    key_trees: Sequence[Any],
    trees: Sequence[Any],
    count_window: tuple[int, int] | None = None,
    properties: Sequence[Any] = (),
) -> Table:
    """Return a row for each group, or for each window over a number of its rows.

    Args:
        table: The rows.
        key_trees: The unresolved trees of the keys.
        trees: The unresolved trees of the columns.
        count_window: The size and slide of windows of rows.
        properties: The unresolved columns that are properties of a window.
    """
    node = table.plan_node
    key_trees = expanded(key_trees, node.schema, table.resolve)
    keys = tuple(table.resolve(tree) for tree in key_trees)
    aliases = {
        tree.names[0]: tree.argument for tree in key_trees if isinstance(tree, e.UnresolvedAlias)
    }

    def key_of(part: Any) -> Any:
        if isinstance(part, e.UnresolvedColumn) and node.schema.index(part.name) is None:
            return aliases.get(part.name, part)
        return part

    trees = expanded(trees, node.schema, table.resolve)
    outputs = [table.resolve(transformed(tree, key_of)) for tree in trees]
    names = output_names(trees, outputs, [table.resolve(column) for column in properties])
    from penstock.table.table.table import check_unique

    check_unique(names)
    found = relations.aggregated(node, Grouping(keys), outputs, count_window=count_window)
    made = [found.rewritten(output) for output in outputs]
    grouped, made = joined_subqueries(found.node, made, are_conditions=False)
    return table.derived(n.project(grouped, made, names))


class GroupWindowedTable:
    """Rows assigned to windows.

    Args:
        table: The rows.
        window: The window.
    """

    def __init__(self, table: Table, window: GroupWindow) -> None:
        if window.name is None:
            raise ValidationException("A window needs a name: call alias(...)")
        self._table = table
        self._window = window

    def group_by(self, *fields: Expression[Any]) -> WindowGroupedTable:
        """Group the rows by the window's name and by other values.

        Raises:
            ValidationException: The window's name is not among the fields.
        """
        trees = expression_trees(fields)
        name = self._window.name
        keys = [tree for tree in trees if str(tree) != name]
        if len(keys) == len(trees):
            raise ValidationException(f"group_by of a window must name the window '{name}'")
        return WindowGroupedTable(self._table, self._window, keys)


class WindowGroupedTable:
    """Rows grouped within windows.

    Args:
        table: The rows.
        window: The window.
        keys: The unresolved trees of the other keys.
    """

    def __init__(self, table: Table, window: GroupWindow, keys: Sequence[Any]) -> None:
        self._table = table
        self._window = window
        self._keys = list(keys)

    def select(self, *fields: Expression[Any]) -> Table:
        """Return a row of keys, aggregates and window properties for each group and window.

        ``col("w").start``, ``.end``, ``.rowtime`` and ``.proctime`` are properties of the window
        ``w``.
        """
        if _is_of_rows(self._window.size):
            time = self._table.resolve(self._window.time)
            if getattr(time.type, "is_rowtime", False):
                raise TableException(
                    "Event-time grouping windows on row intervals are currently not supported."
                )
            size = self._window.size.options[0]
            slide = size if self._window.slide is None else self._window.slide.options[0]
            trees = expression_trees(fields)
            return grouped_select(self._table, self._keys, trees, (size, slide))
        windowed, columns = self._windowed()
        trees = [self._of_window(tree, columns) for tree in expression_trees(fields)]
        keys = [*self._keys, *columns.values()]
        return grouped_select(windowed, keys, trees, properties=list(columns.values()))

    def aggregate(self, func: Any) -> AggregatedTable:
        """Return the results of an aggregate function for each group and window, to select from."""
        windowed, columns = self._windowed()
        keys = [*self._keys, *columns.values()]
        return AggregatedTable(
            windowed, keys, func, lambda tree: self._of_window(tree, columns), len(self._keys)
        )

    def _of_window(self, tree: Any, columns: dict[str, Any]) -> Any:
        name = self._window.name
        properties = {
            "WINDOW_START": "window_start",
            "WINDOW_END": "window_end",
            "ROWTIME": "window_time",
            "PROCTIME": "window_time",
        }

        def change(part: Any) -> Any:
            if not isinstance(part, e.UnresolvedCall) or part.function not in properties:
                return part
            if len(part.arguments) != 1 or str(part.arguments[0]) != name:
                return part
            return columns[properties[part.function]]

        return transformed(tree, change)

    def _windowed(self) -> tuple[Table, dict[str, Any]]:
        """Return the rows with their window columns, and the names of these columns."""
        table, window = self._table, self._window
        node = table.plan_node
        time = table.resolve(window.time)
        if not isinstance(time, e.Column):
            raise ValidationException(f"A window is over a time attribute, got '{window.time}'")
        if _is_of_rows(window.size):
            raise TableException("Windows of a number of rows are not supported yet")
        size = milliseconds(table.resolve(window.size), "The size of a window")
        sizes = [size]
        if window.kind == "HOP":
            sizes = [milliseconds(table.resolve(window.slide), "The slide of a window"), size]
        partition: tuple[int, ...] = ()
        if window.kind == "SESSION":
            keys = [table.resolve(tree) for tree in self._keys]
            if not all(isinstance(key, e.Column) for key in keys):
                raise ValidationException("The keys beside a session window must be columns")
            partition = tuple(key.index for key in keys if isinstance(key, e.Column))
        made = window_table_function(
            node,
            window.kind,
            time.index,
            sizes,
            partition=partition,
            has_nullable_bounds=True,
            has_nullable_time=True,
            takes_plain_time=not table.environment.planner.is_streaming,
        )
        names = list(node.schema.names)
        columns: dict[str, Any] = {}
        for name in ("window_start", "window_end", "window_time"):
            unused = name if name not in names else f"${name}"
            names.append(unused)
            columns[name] = e.UnresolvedColumn(unused)
        found = [
            column if i < len(node.schema) else _nullable(column)
            for i, column in enumerate(n.columns(made))
        ]
        fields = zip(names, found, strict=True)
        schema = Schema(tuple(Field(name, column.type) for name, column in fields))
        renamed: Node = n.Project(schema, made, tuple(found))
        return table.derived(renamed), columns


def _nullable(column: e.Expression) -> e.Expression:
    return replace(column, type=column.type.nullable())


def _is_of_rows(tree: Any) -> bool:
    return isinstance(tree, e.UnresolvedCall) and tree.function == "ROW_INTERVAL"


class OverWindowedTable:
    """Rows with an OVER window each.

    Args:
        table: The rows.
        windows: The windows to which ``over`` can refer.
    """

    def __init__(self, table: Table, windows: Sequence[OverWindow]) -> None:
        self._table = table
        self._windows: dict[str | None, OverWindow] = {w.name: w for w in windows}
        if None in self._windows:
            raise ValidationException("An OVER window needs a name: call alias(...)")

    def select(self, *fields: Expression[Any]) -> Table:
        """Return, for each row, its columns and aggregates ``over`` its window."""
        trees = [transformed(tree, self._over) for tree in expression_trees(fields)]
        return self._table.select(*[Expression(tree) for tree in trees])

    def _over(self, tree: Any) -> Any:
        if not isinstance(tree, e.UnresolvedCall) or tree.function != "OVER":
            return tree
        call, name = tree.arguments
        window = self._windows.get(str(name))
        if window is None:
            raise ValidationException(
                f"There is no OVER window '{name}': there are {', '.join(map(str, self._windows))}"
            )
        order, descends = window.order, False
        if isinstance(order, e.UnresolvedCall) and order.function in ("ASC", "DESC"):
            descends = order.function == "DESC"
            order = order.arguments[0]
        return e.UnresolvedOver(call, window.partition, ((order, descends),), self._frame(window))

    def _frame(self, window: OverWindow) -> e.Frame:
        is_rows = window.is_of_rows
        return e.Frame(
            is_rows,
            self._bound(window.lower, default=None),
            self._bound(window.upper, default=0),
        )

    def _bound(self, tree: Any, *, default: Any) -> Any:
        if tree is None:
            return default
        if isinstance(tree, e.UnresolvedCall):
            match tree.function:
                case "UNBOUNDED_ROW" | "UNBOUNDED_RANGE":
                    return None
                case "CURRENT_ROW" | "CURRENT_RANGE":
                    return 0
                case "ROW_INTERVAL":
                    return tree.options[0]
        return milliseconds(self._table.resolve(tree), "The bound of an OVER window")


class AggregatedTable:
    """Results of an aggregate function for groups, to select from.

    Args:
        table: The rows.
        keys: The unresolved trees of the keys.
        func: The wrapper of an aggregate function, or its call as an expression.
        of_window: Replaces window properties; None without a window.
        shown_keys: The number of keys that are columns of the result; all by default.
    """

    def __init__(
        self,
        table: Table,
        keys: Sequence[Any],
        func: Any,
        of_window: Any = None,
        shown_keys: int | None = None,
    ) -> None:
        self._table = table
        self._keys = list(keys)
        self._func = func
        self._of_window = of_window
        self._shown_keys = shown_keys

    def select(self, *fields: Expression[Any]) -> Table:
        """Return the selected keys and fields of the aggregate's result."""
        table, func = self._table, self._func
        tree = aggregate_tree(table, func)
        names: list[str] = []
        if isinstance(tree, e.UnresolvedAlias):
            names, tree = list(tree.names), tree.argument
        call = table.resolve(tree)
        kind = call.type
        if not names and isinstance(kind, types.RowType):
            # Flink names the aggregate TMP_0, and its fields after it.
            names = [f"TMP_0${name}" for name in kind.field_names()]
        names = names or ["f0"]
        trees = [*self._keys, e.UnresolvedAlias(tree, ("$aggregate",))]
        made = grouped_select(table, self._keys, trees)
        node = made.plan_node
        number = len(self._keys)
        columns = n.columns(node)
        result = columns[number]
        fields_: list[e.Expression] = [result]
        if isinstance(kind, types.RowType):
            if len(names) != len(kind):
                raise ValidationException(
                    f"The aggregate has {len(kind)} fields, {len(names)} names are given"
                )
            binder = table.binder()
            fields_ = [binder.field(result, field.name) for field in kind]
        key_names = node.schema.names[:number]
        node = n.project(node, [*columns[:number], *fields_], [*key_names, *names])
        wanted = expression_trees(fields)
        if self._of_window is not None:
            wanted = [self._of_window(part) for part in wanted]
        if not fields:
            return table.derived(node)
        properties = self._keys if self._shown_keys is None else self._keys[self._shown_keys :]
        return table.derived(node).projected(wanted, properties if self._of_window else ())


class FlatAggregateTable:
    """Rows of a table aggregate function for groups, to select from.

    Args:
        table: The rows.
        keys: The unresolved trees of the keys.
        func: The wrapper of a table aggregate function, or its call as an expression.
    """

    def __init__(self, table: Table, keys: Sequence[Any], func: Any) -> None:
        self._table = table
        self._keys = list(keys)
        self._func = func

    def select(self, *fields: Expression[Any]) -> Table:
        """Return the selected keys and columns of the function's rows."""
        table = self._table
        tree = aggregate_tree(table, self._func, "TABLE_AGGREGATE")
        names: list[str] = []
        if isinstance(tree, e.UnresolvedAlias):
            names, tree = list(tree.names), tree.argument
        call = table.resolve(tree)
        if not isinstance(call, e.AggregateCall):
            raise ValidationException(f"'{call}' is not a table aggregate function")
        kind = call.type
        if not names:
            names = kind.field_names() if isinstance(kind, types.RowType) else ["f0"]
        trees = expanded(self._keys, table.plan_node.schema, table.resolve)
        keys = [table.resolve(key) for key in trees]
        key_names = [output_name(t, k, i) for i, (t, k) in enumerate(zip(trees, keys, strict=True))]
        node = relations.table_aggregated(table.plan_node, keys, call, [*key_names, *names])
        made = table.derived(node)
        return made.select(*fields) if fields else made
