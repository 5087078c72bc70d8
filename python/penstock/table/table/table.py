"""Table: a relation of the Table API, built by calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.exceptions import TableException, ValidationException
from penstock.table.expression.expression import Expression
from penstock.table.expression.text_expressions import expression_tree, expression_trees
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan import relations
from penstock.table.plan.binder import Binder
from penstock.table.plan.scopes import Scope
from penstock.table.plan.subqueries import joined_subqueries
from penstock.table.table.api_calls import fields_node, row_function, table_function
from penstock.table.table.column_expansion import expanded, output_name, output_names
from penstock.table.table.grouped_tables import (
    AggregatedTable,
    FlatAggregateTable,
    GroupedTable,
    GroupWindowedTable,
    OverWindowedTable,
)
from penstock.table.table_schema import TableSchema
from penstock.table.udf.wrappers import UserDefinedFunctionWrapper

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from penstock.table.plan.nodes import Node
    from penstock.table.schema.resolved_schema import ResolvedSchema
    from penstock.table.table_context import TableContext
    from penstock.table.table_descriptor import TableDescriptor
    from penstock.table.table_pipeline import TablePipeline
    from penstock.table.table_result.table_result import TableResult
    from penstock.table.window import GroupWindow, OverWindow


class Table:
    """A relation: the rows of a table or of a query.

    Columns are attributes: ``table.name`` is ``col("name")``.

    Args:
        node: The plan of the relation.
        environment: The environment of the table.
    """

    def __init__(self, node: Node, environment: TableContext) -> None:
        self._node = node
        self._environment = environment
        self._path: str | None = None
        #: The query of SQL with these rows, if there is one.
        self._query: str | None = None

    @property
    def plan_node(self) -> Node:
        """The plan of the relation (beyond PyFlink)."""
        return self._node

    @property
    def environment(self) -> TableContext:
        """The environment of the table (beyond PyFlink)."""
        return self._environment

    def __str__(self) -> str:
        if self._path is None:
            self._path = self._environment.register_unnamed(self)
        return self._path

    def __getattr__(self, name: str) -> Expression[Any]:
        """Return a column.

        Raises:
            AttributeError: The table has no such column.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        names = self._node.schema.names
        if name not in names:
            raise AttributeError(
                f"The current table has no column named '{name}', available columns: "
                f"[{', '.join(names)}]"
            )
        return Expression(e.UnresolvedColumn(name))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._node.schema.names]

    # Building ---------------------------------------------------------------------------------

    def derived(self, node: Node) -> Table:
        """Return the table of a plan in the same environment (beyond PyFlink)."""
        return Table(node, self._environment)

    def binder(self) -> Binder:
        """Return the binder of expressions (beyond PyFlink)."""
        return Binder(self._environment.planner.context())

    def resolve(self, tree: Any, scope: Scope | None = None) -> e.Expression:
        """Resolve an unresolved tree over this table (beyond PyFlink)."""
        own = Scope.of(self._node.schema) if scope is None else scope
        return self._environment.resolve(self.binder(), tree, own)

    def projected(self, trees: Sequence[Any], properties: Sequence[Any] = ()) -> Table:
        """Return a table of expressions, which may aggregate the whole table (beyond PyFlink).

        Args:
            trees: The unresolved trees of the expressions.
            properties: The unresolved columns that are properties of a window.
        """
        trees = expanded(trees, self._node.schema, self.resolve)
        outputs = [self.resolve(tree) for tree in trees]
        names = output_names(trees, outputs, [self.resolve(column) for column in properties])
        check_unique(names)
        node = self._node
        if any(relations.contains_aggregate(output) for output in outputs):
            found = relations.aggregated(node, relations.Grouping(()), outputs)
            node, outputs = found.node, [found.rewritten(output) for output in outputs]
        node, outputs = joined_subqueries(node, outputs, are_conditions=False)
        node, outputs = relations.over_applied(
            node, outputs, is_streaming=self._environment.planner.is_streaming
        )
        return self.derived(n.project(node, outputs, names))

    def select(self, *fields: Expression[Any]) -> Table:
        """Return a table with these columns."""
        return self.projected(expression_trees(fields))

    def alias(self, field: str, *fields: str) -> Table:
        """Rename columns; those after the given names keep their names.

        A single text may have several names, separated by commas, as in Flink 1.

        Raises:
            ValidationException: There are more names than columns, or a name is duplicated.
        """
        given = [field, *fields] if fields else [name.strip() for name in field.split(",")]
        names = self._node.schema.names
        if len(given) > len(names):
            raise ValidationException(
                f"alias has {len(given)} names for {len(names)} columns: {', '.join(names)}"
            )
        names = [*given, *names[len(given) :]]
        check_unique(names)
        return self.derived(n.project(self._node, n.columns(self._node), names))

    def filter(self, predicate: Expression[bool]) -> Table:
        """Return the rows for which a condition is true."""
        return self.where(predicate)

    def where(self, predicate: Expression[bool]) -> Table:
        """Return the rows for which a condition is true."""
        binder = self.binder()
        condition = binder.condition(self.resolve(expression_tree(predicate)), "WHERE")
        node, rest = joined_subqueries(self._node, [condition], are_conditions=True)
        if isinstance(node, n.Join) and node is not self._node:
            return self.derived(relations.filtered(node, rest[0]))
        return self.derived(with_filter(node, rest[0]))

    def group_by(self, *fields: Expression[Any]) -> GroupedTable:
        """Group the rows by equal values."""
        return GroupedTable(self, expression_trees(fields))

    def distinct(self) -> Table:
        """Return the rows without duplicates."""
        return self.derived(relations.distinct(self._node))

    # Columns ----------------------------------------------------------------------------------

    def add_columns(self, *fields: Expression[Any]) -> Table:
        """Add columns.

        Raises:
            ValidationException: The table has a column with the name.
        """
        return self.projected([e.UnresolvedColumn("*"), *expression_trees(fields)])

    def add_or_replace_columns(self, *fields: Expression[Any]) -> Table:
        """Add columns, or replace those with the same names."""
        trees = expression_trees(fields)
        added = {output_name(tree, self.resolve(tree), i): tree for i, tree in enumerate(trees)}
        kept = [added.pop(name, e.UnresolvedColumn(name)) for name in self._node.schema.names]
        return self.projected([*kept, *added.values()])

    def rename_columns(self, *fields: Expression[Any]) -> Table:
        """Rename some columns: ``col("a").alias("b")``.

        Raises:
            ValidationException: An argument is not an alias of a column, or the column is unknown.
        """
        names = list(self._node.schema.names)
        for tree in expression_trees(fields):
            is_renaming = isinstance(tree, e.UnresolvedAlias) and isinstance(
                tree.argument, e.UnresolvedColumn
            )
            if not is_renaming:
                raise ValidationException(f"rename_columns takes columns with an alias, got {tree}")
            names[self._position(tree.argument.name)] = tree.names[0]
        check_unique(names)
        return self.derived(n.project(self._node, n.columns(self._node), names))

    def drop_columns(self, *fields: Expression[Any]) -> Table:
        """Remove some columns.

        Raises:
            ValidationException: The column does not exist.
        """
        trees = expanded(expression_trees(fields), self._node.schema, self.resolve)
        dropped = {self._position(str(tree)) for tree in trees}
        kept = [i for i in range(len(self._node.schema)) if i not in dropped]
        if not kept:
            raise ValidationException("drop_columns leaves no column")
        columns = n.columns(self._node)
        names = self._node.schema.names
        return self.derived(
            n.project(self._node, [columns[i] for i in kept], [names[i] for i in kept])
        )

    def _position(self, name: str) -> int:
        position = self._node.schema.index(name)
        if position is None:
            raise ValidationException(
                f"Column '{name}' does not exist: the table has "
                f"{', '.join(self._node.schema.names)}"
            )
        return position

    # Joins ------------------------------------------------------------------------------------

    def join(self, right: Table, join_predicate: Expression[bool] | None = None) -> Table:
        """Return pairs of rows; a join without a condition needs a ``where``."""
        return self._joined(right, "INNER", join_predicate)

    def left_outer_join(
        self, right: Table, join_predicate: Expression[bool] | None = None
    ) -> Table:
        """Return pairs of rows, and the left rows without a match."""
        return self._joined(right, "LEFT", join_predicate)

    def right_outer_join(self, right: Table, join_predicate: Expression[bool]) -> Table:
        """Return pairs of rows, and the right rows without a match."""
        return self._joined(right, "RIGHT", join_predicate)

    def full_outer_join(self, right: Table, join_predicate: Expression[bool]) -> Table:
        """Return pairs of rows, and the rows of both sides without a match."""
        return self._joined(right, "FULL", join_predicate)

    def _joined(self, right: Table, kind: Any, predicate: Expression[bool] | None) -> Table:
        from penstock.table.plan.joins import has_equality, join

        self._check_environment(right)
        scope = Scope.of(self._node.schema)
        scope.add((), right._node.schema)
        shared = sorted(set(self._node.schema.names) & set(right._node.schema.names))
        if shared:
            raise ValidationException(
                f"join relations with ambiguous names: [{', '.join(shared)}]; rename columns first"
            )
        condition = None
        if predicate is not None:
            binder = self.binder()
            condition = binder.condition(self.resolve(expression_tree(predicate), scope), "JOIN")
            if not has_equality(condition, len(self._node.schema)):
                raise ValidationException(
                    f"Invalid join condition: {condition}. At least one equi-join predicate is "
                    "required."
                )
        return self.derived(join(self._node, right._node, kind, condition))

    def _check_environment(self, right: Table) -> None:
        if right._environment is not self._environment:
            raise ValidationException("Only tables of one TableEnvironment can be combined")

    def join_lateral(
        self, table_function_call: Any, join_predicate: Expression[bool] | None = None
    ) -> Table:
        """Return each row with each row that a table function returns for it."""
        return self._correlated(table_function_call, join_predicate, is_outer=False)

    def left_outer_join_lateral(
        self, table_function_call: Any, join_predicate: Expression[bool] | None = None
    ) -> Table:
        """Return each row with each row that a table function returns for it, or with NULLs."""
        return self._correlated(table_function_call, join_predicate, is_outer=True)

    def _correlated(
        self, call: Any, predicate: Expression[bool] | None, *, is_outer: bool
    ) -> Table:
        from penstock.table.plan.from_clause import correlate

        wrapper, arguments, names = table_function(self._environment, self, call)
        fields = function_fields(wrapper, names)
        shared = sorted({f.name for f in fields} & set(self._node.schema.names))
        if shared:
            raise ValidationException(
                f"join relations with ambiguous names: [{', '.join(shared)}]; name the columns of "
                f"{wrapper.name} by alias(...)"
            )
        node = correlate(self._node, wrapper, tuple(arguments), fields, is_outer)
        made = self.derived(node)
        if predicate is None:
            return made
        if is_outer:
            condition = made.resolve(expression_tree(predicate))
            if isinstance(condition, e.Literal) and condition.value is True:
                return made
            raise TableException("A left_outer_join_lateral can have the condition TRUE only")
        return made.where(predicate)

    # Changes ----------------------------------------------------------------------------------

    def to_changelog(self, *arguments: Expression[Any]) -> Table:
        """Return each change as an insertion, with a code for its kind in the first column.

        Args:
            *arguments: ``descriptor(name).as_argument("op")`` is the column's name, ``op`` by
                default; ``map_(kinds, code, …).as_argument("op_mapping")`` the codes, where
                ``kinds`` is such as "INSERT, UPDATE_AFTER"; changes without a code are dropped.

        Raises:
            ValidationException: An argument does not suit.
        """
        return self._of_changelog("TO_CHANGELOG", arguments)

    def from_changelog(self, *arguments: Expression[Any]) -> Table:
        """Return the changes that a column of codes describes, without the column.

        Args:
            *arguments: As in `to_changelog`, but the map is from codes to kinds.

        Raises:
            ValidationException: An argument does not suit.
        """
        return self._of_changelog("FROM_CHANGELOG", arguments)

    def _of_changelog(self, name: str, arguments: Sequence[Any]) -> Table:
        from penstock.table.plan.changelog_functions import changelog_arguments, changelog_function

        columns, mapping = changelog_arguments(map(expression_tree, arguments))
        bound = None if mapping is None else self.resolve(mapping, Scope())
        return self.derived(changelog_function(name, self._node, columns, bound))

    # Sets -------------------------------------------------------------------------------------

    def union(self, right: Table) -> Table:
        """Return the rows of both tables without duplicates; in batch mode only, as in Flink."""
        self._only_batch("union", "union_all(...).distinct()")
        return self.derived(relations.distinct(self._united(right)))

    def union_all(self, right: Table) -> Table:
        """Return the rows of both tables."""
        return self.derived(self._united(right))

    def _united(self, right: Table) -> Node:
        self._check_environment(right)
        return relations.united([self._node, right._node])

    def intersect(self, right: Table) -> Table:
        """Return the rows that are in both tables, once; in batch mode only, as in Flink."""
        return self._set_operation(right, "INTERSECT", "intersect", is_all=False)

    def intersect_all(self, right: Table) -> Table:
        """Return the rows that are in both tables; in batch mode only, as in Flink."""
        return self._set_operation(right, "INTERSECT", "intersect_all", is_all=True)

    def minus(self, right: Table) -> Table:
        """Return the rows that are not in the right table, once; in batch mode only."""
        return self._set_operation(right, "EXCEPT", "minus", is_all=False)

    def minus_all(self, right: Table) -> Table:
        """Return the rows without as many occurrences as in the right table; in batch mode only."""
        return self._set_operation(right, "EXCEPT", "minus_all", is_all=True)

    def _set_operation(self, right: Table, kind: Any, name: str, *, is_all: bool) -> Table:
        self._only_batch(name, f"SQL's {kind}")
        self._check_environment(right)
        return self.derived(relations.set_operation(self._node, right._node, kind, is_all=is_all))

    def _only_batch(self, name: str, instead: str) -> None:
        if self._environment.planner.is_streaming:
            raise ValidationException(
                f"The {name} operation on two unbounded tables is currently not supported: use "
                f"{instead}, or batch mode"
            )

    # Order ------------------------------------------------------------------------------------

    def order_by(self, *fields: Expression[Any]) -> Table:
        """Sort the rows, by ``col("a").asc`` and ``col("b").desc``; NULL is the greatest value."""
        items = []
        for given in expression_trees(fields):
            tree, descends = given, False
            if isinstance(tree, e.UnresolvedCall) and tree.function in ("ASC", "DESC"):
                descends = tree.function == "DESC"
                tree = tree.arguments[0]
            items.append(e.OrderItem(self.resolve(tree), descends, descends))
        return self.derived(relations.sorted_by(self._node, items))

    def offset(self, offset: int) -> Table:
        """Skip the first ``offset`` rows, in batch mode also of rows without an order.

        Raises:
            ValidationException: The rows of a stream are not sorted.
        """
        if not isinstance(self._node, n.Sort) and not self._environment.planner.is_streaming:
            return self.derived(n.Sort(self._node.schema, self._node, (), offset, None))
        node = self._sort("offset")
        return self.derived(n.Sort(node.schema, node.input, node.order, offset, node.limit))

    def fetch(self, fetch: int) -> Table:
        """Return the first ``fetch`` rows of an order.

        Raises:
            ValidationException: The rows are not sorted, or the number is negative.
        """
        if fetch < 0:
            raise ValidationException(f"fetch takes a number from 0 on, got {fetch}")
        if not isinstance(self._node, n.Sort):
            return self.derived(n.Sort(self._node.schema, self._node, (), 0, fetch))
        node = self._sort("fetch")
        return self.derived(n.Sort(node.schema, node.input, node.order, node.offset, fetch))

    def _sort(self, name: str) -> n.Sort:
        if not isinstance(self._node, n.Sort):
            raise ValidationException(f"{name} needs an order: call order_by(...) before")
        return self._node

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """Return ``fetch`` rows, after skipping ``offset`` rows."""
        if offset:
            if isinstance(self._node, n.Sort):
                return self.offset(offset).fetch(fetch)
            return self.derived(n.Sort(self._node.schema, self._node, (), offset, fetch))
        return self.fetch(fetch)

    # Windows ----------------------------------------------------------------------------------

    def window(self, window: GroupWindow) -> GroupWindowedTable:
        """Assign the rows to windows, whose name can be used for grouping."""
        return GroupWindowedTable(self, window)

    def over_window(self, *over_windows: OverWindow) -> OverWindowedTable:
        """Define windows around each row, to which ``over`` in ``select`` refers."""
        return OverWindowedTable(self, over_windows)

    # Python functions on rows -----------------------------------------------------------------

    def map(self, func: Any) -> Table:
        """Return the result of a scalar function with a ROW result for each row.

        Raises:
            ValidationException: The argument is no scalar function.
        """
        wrapper, arguments = row_function(self._environment, self, func)
        if wrapper.kind not in ("SCALAR", "ASYNC_SCALAR"):
            raise ValidationException(
                f"Only a scalar function can be used in map(...), {wrapper.name!r} is none"
            )
        call = self.binder().python_call(wrapper, arguments)
        names = list(wrapper.alias_names) or None
        return self.derived(fields_node(self._node, call, names))

    def flat_map(self, func: Any) -> Table:
        """Return the rows that a table function returns for each row.

        Raises:
            ValidationException: The argument is no table function.
        """
        from penstock.table.plan.from_clause import correlate

        if isinstance(func, UserDefinedFunctionWrapper):
            wrapper, arguments = row_function(self._environment, self, func)
            names: Sequence[str] = wrapper.alias_names
        else:
            wrapper, arguments, names = table_function(self._environment, self, func)
        if wrapper.kind != "TABLE":
            raise ValidationException(
                f"Only a table function can be used in flat_map(...), {wrapper.name!r} is none"
            )
        fields = function_fields(wrapper, names)
        node = correlate(self._node, wrapper, tuple(arguments), fields, False)
        width = len(self._node.schema)
        columns = n.columns(node)[width:]
        return self.derived(n.project(node, columns, [field.name for field in fields]))

    def aggregate(self, func: Any) -> AggregatedTable:
        """Return the results of an aggregate function for all rows, to select from."""
        return AggregatedTable(self, [], func)

    def flat_aggregate(self, func: Any) -> FlatAggregateTable:
        """Return the rows of a table aggregate function for all rows."""
        return FlatAggregateTable(self, [], func)

    # Results ----------------------------------------------------------------------------------

    def get_schema(self) -> TableSchema:
        """Return the names and types of the columns."""
        from penstock.table.table_result.table_result import collected_type

        types = [collected_type(kind) for kind in self._node.schema.types]
        return TableSchema(self._node.schema.names, types, self.get_resolved_schema())

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return the columns."""
        return self._environment.schema_of(self)

    def print_schema(self) -> None:
        """Print the columns."""
        print(self.get_resolved_schema(), flush=True)

    def execute(self) -> TableResult:
        """Run the query and return its rows."""
        return self._environment.jobs.query(self._node)

    def to_pandas(self) -> pd.DataFrame:
        """Run the query and return its final rows as a frame."""
        from penstock.table.planning.job import row_type_of
        from penstock.table.table.frames import frame_of

        row_type = row_type_of(self._node)
        result = self._environment.jobs.query(self._node)
        # Otherwise the job would run on as long as a notebook keeps the traceback of an interrupt.
        with result.collect():
            return frame_of(row_type, result.batches())

    def execute_insert(
        self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False
    ) -> TableResult:
        """Start a job that writes the rows into a table; the result can wait for its end."""
        return self.insert_into(table_path_or_descriptor, overwrite).execute()

    def insert_into(
        self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False
    ) -> TablePipeline:
        """Return the insertion of the rows into a table."""
        return self._environment.pipeline(self, table_path_or_descriptor, overwrite)

    def explain(self, *extra_details: int) -> str:
        """Return the plan as text."""
        return self._environment.explain_nodes([self._node], extra_details)

    def print_explain(self, *extra_details: int) -> None:
        """Print the plan."""
        print(self.explain(*extra_details), flush=True)


def with_filter(node: Node, condition: e.Expression | None) -> Node:
    """Return the rows for which a condition is true; for a join, add it to the join's condition."""
    from penstock.table.plan.joins import join

    if condition is None or type(node) is not n.Join or node.kind != "INNER":
        return relations.filtered(node, condition)
    width = len(node.left.schema)
    keys = [
        equality(node, left, width + right)
        for left, right in zip(node.left_keys, node.right_keys, strict=True)
    ]
    parts = [*keys, *e.conjuncts(node.condition), *e.conjuncts(condition)]
    return join(node.left, node.right, "INNER", relations.all_of(parts))


def equality(node: n.Join, left: int, right: int) -> e.Expression:
    """Return the condition that compares two columns of a joined row."""
    from penstock.table.functions import registry

    fields = [*node.left.schema.fields, *node.right.schema.fields]
    columns = [e.Column(fields[i].type, i, fields[i].name) for i in (left, right)]
    return registry.call("=", *columns)


def check_unique(names: Sequence[str]) -> None:
    """Check that the names differ.

    Raises:
        ValidationException: A name occurs twice.
    """
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise ValidationException(
            f"Ambiguous column name: {', '.join(twice)}; rename columns by alias(...)"
        )


def function_fields(wrapper: Any, names: Sequence[str]) -> list[Any]:
    """Return the columns of a table function, renamed if names are given.

    Raises:
        ValidationException: The numbers of names and columns differ.
    """
    from penstock.table.plan.schema import Field

    fields = [Field(field.name, field.data_type) for field in wrapper.result_row]
    if not names:
        return fields
    if len(names) != len(fields):
        raise ValidationException(
            f"{wrapper.name} has {len(fields)} columns, {len(names)} names are given: "
            f"{', '.join(names)}"
        )
    return [Field(name, field.type) for name, field in zip(names, fields, strict=True)]
