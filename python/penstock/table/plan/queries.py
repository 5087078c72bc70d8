"""Binding of queries: converts sqlglot's trees to relational nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from penstock.common.calls.names import nearest_hint
from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.plan import expressions as e
from penstock.table.plan import from_clause, relations
from penstock.table.plan import nodes as n
from penstock.table.plan.binder import Binder, refuse
from penstock.table.plan.group_windows import GroupWindows
from penstock.table.plan.grouping import GroupingCalls, sets_of
from penstock.table.plan.joins import pushed_down
from penstock.table.plan.match import bind_match
from penstock.table.plan.relations import Aggregated, Grouping
from penstock.table.plan.rules import optimized
from penstock.table.plan.schema import Field, Schema
from penstock.table.plan.scopes import Relation, Scope
from penstock.table.plan.sql_expressions import SqlExpressions, placed
from penstock.table.plan.subqueries import joined_subqueries
from penstock.table.plan.values import values_node
from penstock.table.sql.trees import Function

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.context import PlanningContext
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node


#: Functions without parentheses: a column that is not named otherwise has their name.
_NAMED_MOMENTS: Final = (
    "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP",
)  # fmt: skip


def bind_query(tree: Any, context: PlanningContext) -> Node:
    """Return the node of a query.

    Args:
        tree: The tree that ``penstock.table.sql.parsing`` returned.
        context: The environment.

    Raises:
        ValidationException: A name is unknown or a type does not fit.
        TableException: Flink or penstock does not support the query.
    """
    return QueryBinder(context).query(tree, None)


class QueryBinder:
    """Binder of one statement.

    Attributes:
        context: The environment.
        binder: Resolves calls.
        scopes: The columns that can be named in a bound query or table argument, by the identity
            of its tree.
    """

    def __init__(self, context: PlanningContext) -> None:
        """Create a binder for a context."""
        self.context = context
        self.scopes: dict[int, Scope] = {}
        self.binder = Binder(context)
        self._named: list[dict[str, Node]] = []
        #: The state retention of the current query in ms, by the names of its tables.
        self._state_ttl_ms: dict[str, int] = {}

    def query(self, tree: Any, outer: Scope | None) -> Node:
        """Return the node of a query in an outer scope, which is None outside of subqueries."""
        named = self._with(tree, outer)
        try:
            node = self._modified(tree, outer)
            return optimized(node, is_streaming=self.context.is_streaming)
        except TableException as error:
            raise placed(error, tree, self.context.text) from None
        finally:
            if named:
                self._named.pop()

    def _with(self, tree: Any, outer: Scope | None) -> bool:
        clause = tree.args.get("with_") or tree.args.get("with")
        if clause is None:
            return False
        if clause.args.get("recursive"):
            refuse("WITH RECURSIVE")
        names: dict[str, Node] = {}
        self._named.append(names)
        for item in clause.expressions:
            node = self.query(item.this, outer)
            columns = [c.name for c in item.args["alias"].args.get("columns") or ()]
            names[item.alias] = renamed(node, columns, item.alias)
        return True

    def _modified(self, tree: Any, outer: Scope | None) -> Node:
        match tree:
            case exp.Select():
                return self._select(tree, outer)
            case exp.SetOperation():
                return self._ordered(tree, self._set_operation(tree, outer))
            case exp.Values():
                return self._ordered(tree, self.values(tree, outer))
            case exp.Subquery() | exp.Paren():
                return self._ordered(tree, self.query(tree.this, outer))
            case exp.Table():
                return self._ordered(tree, self.table(tree))
        refuse(f"{type(tree).__name__} as a query")

    # Tables ---------------------------------------------------------------------------------------

    def table(self, tree: exp.Table) -> Node:
        """Return the node of a table, a view or a query of WITH.

        Raises:
            ValidationException: The name does not exist.
        """
        path = tuple(part.name for part in tree.parts)
        found = self.query_of_with(path) or self.context.find_table(path, tree.meta.get("options"))
        if found is None:
            hint = nearest_hint(path[-1], self.context.list_tables())
            error = ValidationException(f"Object '{'.'.join(path)}' not found{hint}")
            raise placed(error, tree, self.context.text)
        return found

    def query_of_with(self, path: tuple[str, ...]) -> Node | None:
        """Return the query of WITH that has a name; None if there is none."""
        found = (names[path[0]] for names in reversed(self._named) if path[0] in names)
        return next(found, None) if len(path) == 1 else None

    def values(self, tree: exp.Values, outer: Scope | None) -> Node:
        """Return the node of VALUES."""
        scope = Scope(outer=outer)
        bound = self.expressions_in(scope)
        rows = []
        for row in tree.expressions:
            parts = row.expressions if isinstance(row, exp.Tuple) else [row]
            rows.append([bound.bind(part) for part in parts])
        return values_node(rows)

    def _set_operation(self, tree: exp.SetOperation, outer: Scope | None) -> Node:
        left, right = self.query(tree.this, outer), self.query(tree.expression, outer)
        is_all = tree.args.get("distinct") is False
        if isinstance(tree, exp.Union):
            made = relations.united([left, right])
            return made if is_all else relations.distinct(made)
        kind = "INTERSECT" if isinstance(tree, exp.Intersect) else "EXCEPT"
        return relations.set_operation(left, right, kind, is_all=is_all)

    # SELECT ---------------------------------------------------------------------------------------

    def expressions_in(
        self, scope: Scope, *, replaced: Any = lambda _: None, windows: Any = None
    ) -> SqlExpressions:
        """Return the binder of the expressions in a scope."""
        return SqlExpressions(
            self.binder,
            scope,
            bind_query=self.query,
            replaced=replaced,
            windows=windows,
        )

    def _select(self, tree: exp.Select, outer: Scope | None) -> Node:
        hint = tree.args.get("hint")
        enclosing = self._state_ttl_ms
        self._state_ttl_ms = {} if hint is None else dict(hint.meta["state_ttl_ms"])
        try:
            return self._selected(tree, outer)
        finally:
            self._state_ttl_ms = enclosing

    def state_ttl_ms(self, scope: Scope) -> int | None:
        """Return the state retention that a hint sets for the single relation of a scope."""
        if len(scope.relations) != 1 or not scope.relations[0].names:
            return None
        return self._state_ttl_ms.get(scope.relations[0].names[-1])

    def _selected(self, tree: exp.Select, outer: Scope | None) -> Node:
        node, scope = self._from(tree, outer)
        self.scopes[id(tree)] = scope
        ttl_ms = self.state_ttl_ms(scope)
        self._check_hint(scope)
        windows = {w.name: w for w in tree.args.get("windows") or ()}
        group_windows = GroupWindows(self.binder)
        where = tree.args.get("where")
        if where is not None:
            condition = self.expressions_in(scope).bind(where.this)
            if relations.contains_aggregate(condition):
                raise placed(
                    ValidationException("Aggregate expression is illegal in WHERE clause"),
                    where.this,
                    self.context.text,
                )
            self._refuse_over(condition, where.this, "WHERE")
            node = self._where(node, self.binder.condition(condition, "WHERE"))
            scope = from_clause.rescoped(scope, node)
        group = tree.args.get("group")
        if group is not None:
            node, scope = group_windows.applied(node, scope, group, self.expressions_in(scope))
        expressions = self.expressions_in(
            scope, replaced=group_windows.replacement, windows=windows
        )
        grouping_calls = GroupingCalls(expressions)
        grouping = self._grouping(group, expressions, group_windows)
        grouping_calls.grouping = grouping
        outputs, names = self._outputs(tree, scope, expressions)
        having = tree.args.get("having")
        having_condition = None
        if having is not None:
            having_condition = self.binder.condition(expressions.bind(having.this), "HAVING")
            self._refuse_over(having_condition, having.this, "HAVING")
        order = self._order_items(tree, expressions, names, outputs)
        number = len(outputs)
        if tree.args.get("qualify") is not None:
            # It is computed beside the outputs, since it may use the same aggregates and windows.
            outputs = [*outputs, self._qualify(tree.args["qualify"], expressions, names, outputs)]
        node, outputs, having_condition, order = self._grouped(
            node, grouping, outputs, having_condition, order, names, ttl_ms
        )
        if having_condition is not None:
            node, rest = joined_subqueries(node, [having_condition], are_conditions=True)
            node = relations.filtered(node, rest[0])
        node, outputs = joined_subqueries(node, outputs, are_conditions=False)
        node, both = relations.over_applied(
            node,
            [*outputs, *(item.expression for item in order)],
            is_streaming=self.context.is_streaming,
        )
        outputs, keys = both[: len(outputs)], both[len(outputs) :]
        order = [replace(item, expression=key) for item, key in zip(order, keys, strict=True)]
        for condition in outputs[number:]:
            node = relations.filtered(node, condition)
        outputs = outputs[:number]
        return self._finished(tree, node, outputs, names, order)

    def _refuse_over(self, bound: Expression, tree: Any, clause: str) -> None:
        """Reject functions with OVER in a clause that is computed before them."""
        if relations.over_calls(bound):
            raise placed(
                ValidationException(
                    f"Windowed aggregate expression is illegal in {clause} clause: QUALIFY filters "
                    "by it"
                ),
                tree,
                self.context.text,
            )

    def _qualify(
        self, tree: Any, expressions: SqlExpressions, names: list[str], outputs: list[Expression]
    ) -> Expression:
        """Return the condition of QUALIFY, in which output names take precedence."""
        bound = _with_aliases(tree.this, names, outputs, expressions)
        if not relations.over_calls(bound):
            raise placed(
                ValidationException(f"QUALIFY expression '{bound}' must contain a window function"),
                tree.this,
                self.context.text,
            )
        return self.binder.condition(bound, "QUALIFY")

    def _check_hint(self, scope: Scope) -> None:
        """Reject names in STATE_TTL that are not tables of the query."""
        known = [relation.names[-1] for relation in scope.relations if relation.names]
        for name in self._state_ttl_ms:
            if name not in known:
                raise ValidationException(
                    f"STATE_TTL names '{name}', which is not a table or alias of its query: "
                    f"{', '.join(known)}"
                )

    def _where(self, node: Node, condition: Expression) -> Node:
        """Apply a condition: first to the joined relations, then its subqueries."""
        parts = e.conjuncts(condition)
        plain = [p for p in parts if not any(isinstance(x, e.Subquery) for x in e.walk(p))]
        found = relations.all_of(plain)
        if found is not None:
            node = pushed_down(found, node)
        rest = relations.all_of([p for p in parts if p not in plain])
        if rest is not None:
            node, left = joined_subqueries(node, [rest], are_conditions=True)
            node = relations.filtered(node, left[0])
        return node

    def _from(self, tree: exp.Select, outer: Scope | None) -> tuple[Node, Scope]:
        clause = tree.args.get("from_") or tree.args.get("from")
        if clause is None:
            zero = e.Literal(types.IntType(nullable=False), 0)
            node: Node = n.Values(Schema((Field("ZERO", zero.type),)), ((zero,),))
            return node, Scope([Relation(("$values",), Schema(()))], outer)
        node, scope = from_clause.FromClause(self).bind(tree, clause, outer)
        match = tree.args.get("match")
        return (node, scope) if match is None else bind_match(self, node, scope, match)

    def _outputs(
        self, tree: exp.Select, scope: Scope, expressions: SqlExpressions
    ) -> tuple[list[Expression], list[str]]:
        outputs: list[Expression] = []
        names: list[str] = []
        for item in tree.expressions:
            inner = item.this if isinstance(item, exp.Alias) else item
            if isinstance(inner, exp.Star):
                columns: Sequence[e.Column] = scope.columns()
                outputs.extend(columns)
                names.extend(c.name for c in columns)
                continue
            if isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
                qualifier = tuple(p.name for p in inner.parts[:-1])
                self._star_of(qualifier, scope, outputs, names, inner)
                continue
            outputs.append(expressions.bind(inner))
            names.append(self.output_name(item, inner, len(names)))
        return outputs, unique_names(names)

    def _star_of(
        self,
        qualifier: tuple[str, ...],
        scope: Scope,
        outputs: list[Expression],
        names: list[str],
        tree: Any,
    ) -> None:
        try:
            columns = scope.columns(qualifier)
        except ValidationException as error:
            if not _is_column(scope, qualifier):
                raise placed(error, tree, self.context.text) from None
            row = scope.resolve(qualifier)
            if not isinstance(row.type, types.RowType):
                raise
            for field in row.type:
                outputs.append(self.binder.field(row, field.name))
                names.append(field.name)
            return
        outputs.extend(columns)
        names.extend(c.name for c in columns)

    @staticmethod
    def output_name(item: Any, inner: Any, position: int) -> str:
        """Return the name of an output column of SELECT, which is ``inner`` without its alias."""
        if isinstance(item, exp.Alias):
            return str(item.alias)
        if isinstance(inner, exp.Column):
            return str(inner.name)
        if isinstance(inner, exp.Dot) and isinstance(inner.expression, exp.Identifier):
            whole = inner.this
            while isinstance(whole, exp.Dot | exp.Paren):
                whole = whole.this
            if isinstance(whole, exp.Column):
                return str(inner.expression.name)
        if isinstance(inner, Function) and inner.this in _NAMED_MOMENTS:
            return str(inner.this)
        return f"EXPR${position}"

    # GROUP BY -------------------------------------------------------------------------------------

    def _grouping(
        self, group: Any, expressions: SqlExpressions, windows: GroupWindows
    ) -> Grouping | None:
        if group is None:
            return None
        plain: list[Expression] = list(windows.keys)
        sets: list[list[tuple[Expression, ...]]] = []
        for item in group.expressions:
            if isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets):
                sets.append(sets_of(item, expressions))
            elif not windows.is_window(item) and not _is_empty(item):
                bound = expressions.bind(item)
                if relations.contains_aggregate(bound):
                    raise placed(
                        ValidationException("Aggregate expression is illegal in GROUP BY clause"),
                        item,
                        self.context.text,
                    )
                self._refuse_over(bound, item, "GROUP BY")
                if not isinstance(bound, e.Literal):
                    plain.append(bound)
        for name in ("rollup", "cube", "grouping_sets"):
            sets.extend(sets_of(item, expressions) for item in group.args.get(name) or ())
        if not sets:
            return Grouping(tuple(dict.fromkeys(plain)))
        combined: list[tuple[Expression, ...]] = [tuple(plain)]
        for choices in sets:
            combined = [(*left, *right) for left in combined for right in choices]
        keys = tuple(dict.fromkeys(part for found in combined for part in found))
        positions = tuple(tuple(sorted({keys.index(part) for part in found})) for found in combined)
        return Grouping(keys, positions)

    def _grouped(
        self,
        node: Node,
        grouping: Grouping | None,
        outputs: list[Expression],
        having: Expression | None,
        order: list[e.OrderItem],
        names: list[str],
        ttl_ms: int | None,
    ) -> tuple[Node, list[Expression], Expression | None, list[e.OrderItem]]:
        everything = [*outputs, *(() if having is None else (having,))]
        everything.extend(item.expression for item in order)
        if grouping is None:
            if not any(relations.contains_aggregate(x) for x in everything):
                if having is not None:
                    raise ValidationException("HAVING needs GROUP BY or an aggregate")
                return node, outputs, having, order
            grouping = Grouping(())
        key_names = [
            names[outputs.index(key)] if key in outputs else f"$f{i}"
            for i, key in enumerate(grouping.keys)
        ]
        found: Aggregated = relations.aggregated(node, grouping, everything, key_names=key_names)
        grouped = found.node
        if ttl_ms is not None and isinstance(grouped, n.Aggregate):
            grouped = replace(grouped, state_ttl_ms=ttl_ms)
        return (
            grouped,
            [found.rewritten(x) for x in outputs],
            None if having is None else found.rewritten(having),
            [replace(item, expression=found.rewritten(item.expression)) for item in order],
        )

    # ORDER BY, LIMIT ------------------------------------------------------------------------------

    def _order_items(
        self,
        tree: Any,
        expressions: SqlExpressions,
        names: list[str],
        outputs: list[Expression],
    ) -> list[e.OrderItem]:
        clause = tree.args.get("order")
        if clause is None:
            return []
        items = []
        for item in clause.expressions:
            expression = _output_of(item.this, names, outputs)
            if expression is None:
                expression = _with_aliases(item.this, names, outputs, expressions)
            made = expressions.order_item(
                exp.Ordered(
                    this=exp.Null(),
                    desc=item.args.get("desc"),
                    nulls_first=item.args.get("nulls_first"),
                )
            )
            items.append(replace(made, expression=expression))
        return items

    def _finished(
        self,
        tree: exp.Select,
        node: Node,
        outputs: list[Expression],
        names: list[str],
        order: list[e.OrderItem],
    ) -> Node:
        offset, limit = self._limits(tree)
        if tree.args.get("distinct") is not None:
            projected = relations.distinct(n.project(node, outputs, names))
            items = []
            for item in order:
                if item.expression not in outputs:
                    raise ValidationException(
                        f"'{item.expression}' in ORDER BY is not selected, which DISTINCT needs"
                    )
                place = outputs.index(item.expression)
                field = projected.schema.fields[place]
                column = e.Column(field.type, place, field.name)
                items.append(replace(item, expression=column))
            return self._limited(projected, items, offset, limit)
        if not order and limit is None and not offset:
            return n.project(node, outputs, names)
        extra = [i.expression for i in order if i.expression not in outputs]
        wide = n.project(node, [*outputs, *extra], [*names, *(f"$o{i}" for i in range(len(extra)))])
        columns = [*outputs, *extra]
        items = []
        for item in order:
            place = columns.index(item.expression)
            field = wide.schema.fields[place]
            items.append(replace(item, expression=e.Column(field.type, place, field.name)))
        made = self._limited(wide, items, offset, limit)
        return n.project(made, n.columns(made)[: len(names)], names) if extra else made

    def _ordered(self, tree: Any, node: Node) -> Node:
        """Apply ORDER BY, LIMIT and OFFSET of a query that is not a SELECT."""
        scope = Scope.of(node.schema)
        self.scopes[id(tree)] = scope
        columns: list[Expression] = n.columns(node)
        order = self._order_items(tree, self.expressions_in(scope), node.schema.names, columns)
        offset, limit = self._limits(tree)
        return self._limited(node, order, offset, limit)

    def _limited(
        self, node: Node, order: list[e.OrderItem], offset: int, limit: int | None
    ) -> Node:
        if not order and limit is None and not offset:
            return node
        return relations.sorted_by(node, order, offset, limit)

    def _limits(self, tree: Any) -> tuple[int, int | None]:
        limit = tree.args.get("limit")
        offset = tree.args.get("offset")
        count = None
        if isinstance(limit, exp.Fetch):
            count = limit.args.get("count")
            count = 1 if count is None else self._number(count)
        elif limit is not None:
            count = self._number(limit.expression)
            if limit.args.get("offset") is not None:
                return self._number(limit.args["offset"]), count
        return (0 if offset is None else self._number(offset.expression)), count

    @staticmethod
    def _number(tree: Any) -> int:
        if isinstance(tree, exp.Literal) and not tree.is_string and str(tree.this).isdigit():
            return int(str(tree.this))
        raise ValidationException("LIMIT, FETCH and OFFSET take a number that is not negative")


def renamed(node: Node, names: Sequence[str], alias: str) -> Node:
    """Return a relation with other column names; itself if no names are given.

    Raises:
        ValidationException: The number of names differs from that of the columns.
    """
    if not names:
        return node
    if len(names) != len(node.schema):
        raise ValidationException(
            f"'{alias}' names {len(names)} columns, but it has {len(node.schema)}"
        )
    return n.project(node, n.columns(node), list(names))


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names made unique by numbers, as Calcite does."""
    taken: set[str] = set()
    made = []
    for name in names:
        candidate, number = name, 0
        while candidate in taken:
            candidate = f"{name}{number}"
            number += 1
        taken.add(candidate)
        made.append(candidate)
    return made


def _is_column(scope: Scope, parts: tuple[str, ...]) -> bool:
    try:
        scope.resolve(parts)
    except ValidationException:
        return False
    return True


def _output_of(tree: Any, names: list[str], outputs: list[Expression]) -> Expression | None:
    """Return the output to which ORDER BY refers by position or alias; otherwise None."""
    if isinstance(tree, exp.Literal) and not tree.is_string and str(tree.this).isdigit():
        position = int(str(tree.this))
        if not 1 <= position <= len(outputs):
            raise ValidationException(f"Ordinal {position} of ORDER BY is out of range")
        return outputs[position - 1]
    if isinstance(tree, exp.Column) and not tree.table and tree.name in names:
        return outputs[names.index(tree.name)]
    return None


def _with_aliases(
    tree: Any, names: list[str], outputs: list[Expression], expressions: SqlExpressions
) -> Expression:
    """Bind an expression of ORDER BY, in which output names take precedence."""
    inner = expressions.replaced

    def replaced(part: Any) -> Expression | None:
        if isinstance(part, exp.Column) and not part.table and part.name in names:
            return outputs[names.index(part.name)]
        return inner(part)

    expressions.replaced = replaced
    try:
        return expressions.bind(tree)
    finally:
        expressions.replaced = inner


def _is_empty(item: Any) -> bool:
    """Return whether a part of GROUP BY is (), which has no keys."""
    return isinstance(item, exp.Tuple) and not item.expressions
