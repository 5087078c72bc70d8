"""Binding of FROM: tables, subqueries, joins, table functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions import registry
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.binder import refuse
from penstock.table.plan.changelog_functions import (
    ARGUMENTS,
    CHANGELOG_FUNCTIONS,
    changelog_function,
)
from penstock.table.plan.joins import join, temporal_join, with_state_ttl
from penstock.table.plan.schema import Field, Schema
from penstock.table.plan.scopes import Relation, Scope
from penstock.table.plan.sql_expressions import placed
from penstock.table.plan.subqueries import lateral_joined
from penstock.table.plan.windows import milliseconds, window_table_function
from penstock.table.sql.trees import Descriptor, NamedArgument, TableArgument, TableFunction

if TYPE_CHECKING:
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import JoinKind, Node
    from penstock.table.plan.queries import QueryBinder

_ARGUMENTS = {
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("STEP", "SIZE", "OFFSET"),
    "SESSION": ("GAP",),
}


def _arguments(tree: TableFunction, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments of a table function by name.

    Raises:
        ValidationException: The function has no such argument.
    """
    given: dict[str, Any] = {}
    for position, argument in enumerate(tree.expressions):
        if isinstance(argument, NamedArgument):
            given[str(argument.this).upper()] = argument.expression
        elif position < len(names):
            given[names[position]] = argument
    if len(tree.expressions) > len(names) or not given.keys() <= {*names}:
        raise ValidationException(f"{tree.this} takes {', '.join(names)}")
    return given


class FromClause:
    """Binder of the FROM clause of one SELECT."""

    def __init__(self, queries: QueryBinder) -> None:
        """Create a binder that uses a statement's binder."""
        self._queries = queries
        self._context = queries.context

    def bind(self, tree: exp.Select, clause: Any, outer: Scope | None) -> tuple[Node, Scope]:
        """Return the joined rows and the names of their columns."""
        node, names = self._relation(clause.this, outer)
        scope = Scope([Relation(names, node.schema)], outer)
        for joined in [*(clause.this.args.get("joins") or ()), *(tree.args.get("joins") or ())]:
            try:
                node, scope = self._join(node, scope, joined)
            except TableException as error:
                raise placed(error, joined, self._context.text) from None
        return node, scope

    # One relation ---------------------------------------------------------------------------------

    def _relation(self, tree: Any, outer: Scope | None) -> tuple[Node, tuple[str, ...]]:
        alias = tree.args.get("alias")
        columns = [] if alias is None else [c.name for c in alias.args.get("columns") or ()]
        name = tree.alias or ""
        match tree:
            case exp.Table():
                node = self._queries.table(tree)
                names = (name,) if name else self._full_path(tree)
            case exp.Subquery():
                node, names = self._subquery(tree, outer), (name,) if name else ()
            case exp.Values():
                node, names = self._queries.values(tree, outer), (name,) if name else ()
                if name and not columns and len(node.schema) == 1:
                    columns = [name]
            case TableFunction():
                make = self._changelog if str(tree.this) in CHANGELOG_FUNCTIONS else self._window
                node, names = make(tree, outer), (name,) if name else ()
            case exp.Unnest() | exp.Lateral():
                single = n.Values(Schema(()), ((),))
                node = self._correlated(single, Scope(outer=outer), tree, is_outer=False)
                return node, (name,) if name else ()
            case _:
                refuse(f"{type(tree).__name__} in FROM")
        from penstock.table.plan.queries import renamed

        return renamed(node, columns, name), names

    def _full_path(self, tree: exp.Table) -> tuple[str, ...]:
        """Return the parts of a table's name that may qualify columns."""
        path = tuple(part.name for part in tree.parts)
        is_query = self._queries.query_of_with(path) is not None
        return path if is_query else self._context.full_path(path)

    def _subquery(self, tree: exp.Subquery, outer: Scope | None) -> Node:
        return self._queries.query(tree.this if tree.args.get("with_") is None else tree, outer)

    def _changelog(self, tree: TableFunction, outer: Scope | None) -> Node:
        kind = str(tree.this)
        given = _arguments(tree, ARGUMENTS)
        table, code = given.get("INPUT"), given.get("OP")
        if not isinstance(table, TableArgument) or table.expressions:
            raise ValidationException(f"First argument must be a table for {kind}.")
        if code is not None and not isinstance(code, Descriptor):
            raise ValidationException(f"The argument 'op' of {kind} is a DESCRIPTOR")
        mapping = given.get("OP_MAPPING")
        return changelog_function(
            kind,
            self._table_argument(table, outer),
            None if code is None else [column.name for column in code.expressions],
            None if mapping is None else self._queries.expressions_in(Scope()).bind(mapping),
        )

    def _table_argument(self, table: TableArgument, outer: Scope | None) -> Node:
        if not isinstance(table.this, exp.Table):
            return self._queries.query(table.this, outer)
        node = self._queries.table(table.this)
        names = self._full_path(table.this)
        self._queries.scopes[id(table)] = Scope.of(node.schema, names)
        return node

    def _window(self, tree: TableFunction, outer: Scope | None) -> Node:
        kind = str(tree.this)
        wanted = ("DATA", "TIMECOL", *_ARGUMENTS[kind])
        given = _arguments(tree, wanted)
        table, time = given.get("DATA"), given.get("TIMECOL")
        missing = [w for w in wanted if w not in given and w != "OFFSET"]
        if missing or not isinstance(table, TableArgument) or not isinstance(time, Descriptor):
            raise ValidationException(f"{kind} takes {', '.join(wanted)}; check {missing}")
        node = self._table_argument(table, outer)
        scope = Scope.of(node.schema, tuple(p.name for p in getattr(table.this, "parts", ())))
        column = time.expressions[0].name
        index = node.schema.index(column)
        if index is None:
            scope.resolve((column,))
            raise AssertionError
        bound = self._queries.expressions_in(scope)
        sizes = [
            milliseconds(bound.bind(given[name]), f"{name} of {kind}")
            for name in _ARGUMENTS[kind]
            if name in given
        ]
        number = 2 if kind in ("HOP", "CUMULATE") else 1
        offset = sizes[number] if len(sizes) > number else 0
        partition = [bound.bind(part) for part in table.expressions]
        return window_table_function(
            node,
            kind,  # type: ignore[arg-type]
            index,
            sizes[:number],
            offset_ms=offset,
            partition=tuple(p.index for p in partition if isinstance(p, e.Column)),
            takes_plain_time=not self._context.is_streaming,
        )

    # Joins ----------------------------------------------------------------------------------------

    def _join(self, left: Node, scope: Scope, tree: exp.Join) -> tuple[Node, Scope]:
        kind = self._kind(tree)
        on, using = tree.args.get("on"), tree.args.get("using")
        inner = tree.this
        lateral = _lateral(inner)
        if lateral is not None:
            return self._lateral_join(left, scope, lateral, kind, on)
        version = inner.args.get("version") if isinstance(inner, exp.Table) else None
        right, names = self._relation(inner, scope.outer)
        wider = Scope([*scope.relations], scope.outer)
        wider.add(names, right.schema)
        if version is not None:
            time = self._queries.expressions_in(scope).bind(version.expression)
            condition = None
            if on is not None:
                condition = self._condition(wider, on)
            made = temporal_join(left, right, kind, condition, time, names)
            return made, self._scope_of(made, scope, names, len(left.schema))
        if using is not None or tree.args.get("method") == "NATURAL":
            return self._using(left, right, scope, names, kind, using)
        times = (
            self._queries.state_ttl_ms(scope),
            self._queries.state_ttl_ms(Scope([Relation(names, right.schema)])),
        )
        if on is None:
            made = with_state_ttl(join(left, right, kind, None), times)
            return made, self._scope_of(None, wider, names, 0)
        condition = self._condition(wider, on)
        made = with_state_ttl(join(left, right, kind, condition), times)
        return made, self._scope_of(made, scope, names, len(left.schema))

    def _condition(self, scope: Scope, on: Any) -> Expression:
        bound = self._queries.expressions_in(scope).bind(on)
        return self._queries.binder.condition(bound, "ON")

    @staticmethod
    def _kind(tree: exp.Join) -> JoinKind:
        side, kind = str(tree.args.get("side") or "").upper(), str(tree.args.get("kind") or "")
        if side in ("LEFT", "RIGHT", "FULL"):
            return side  # type: ignore[return-value]
        if kind.upper() in ("SEMI", "ANTI"):
            return kind.upper()  # type: ignore[return-value]
        return "INNER"

    @staticmethod
    def _scope_of(made: Node | None, scope: Scope, names: tuple[str, ...], width: int) -> Scope:
        """Return the scope of a join, with the nullability of its result."""
        if made is None:
            return scope
        relations = []
        for relation in scope.relations:
            fields = made.schema.fields[relation.start : relation.start + len(relation.schema)]
            if len(relation.schema) and relation.names != ("$values",):
                renamed = Schema(
                    tuple(
                        Field(f.name, g.type) for f, g in zip(relation.schema, fields, strict=True)
                    )
                )
                relations.append(replace(relation, schema=renamed))
            else:
                relations.append(relation)
        if len(made.schema) > width:
            relations.append(Relation(names, Schema(made.schema.fields[width:]), width))
        return Scope(relations, scope.outer)

    def _using(
        self,
        left: Node,
        right: Node,
        scope: Scope,
        names: tuple[str, ...],
        kind: JoinKind,
        using: Any,
    ) -> tuple[Node, Scope]:
        shared = (
            [c.name for c in using]
            if using is not None
            else [name for name in left.schema.names if name in right.schema.names]
        )
        width = len(left.schema)
        tests = []
        for name in shared:
            one = scope.resolve((name,))
            other = right.schema.index(name)
            if other is None:
                raise ValidationException(f"Column '{name}' of USING is not on the right side")
            field = right.schema.fields[other]
            tests.append(registry.call("=", one, e.Column(field.type, width + other, name)))
        condition = None
        if tests:
            condition = tests[0] if len(tests) == 1 else registry.call("AND", *tests)
        made = join(left, right, kind, condition)
        result = self._scope_of(made, scope, names, width)
        hidden = frozenset(width + i for i, f in enumerate(right.schema) if f.name in shared)
        return self._merged(made, result, shared, hidden, kind)

    @staticmethod
    def _merged(
        made: Node, scope: Scope, shared: list[str], hidden: frozenset[int], kind: JoinKind
    ) -> tuple[Node, Scope]:
        """Return a join with the columns of USING first, from the side that has a row."""
        left = Scope(scope.relations[:-1], scope.outer)
        right = Scope(scope.relations[-1:], scope.outer)
        values = [_merged_column(left.resolve((s,)), right.resolve((s,)), kind) for s in shared]
        columns, names = n.columns(made), made.schema.names
        made = n.project(made, [*columns, *values], [*names, *shared])
        merged = Relation((), Schema(made.schema.fields[len(columns) :]), len(columns))
        found = [left.resolve((s,)) for s in shared]
        hidden |= {column.index for column in found if isinstance(column, e.Column)}
        others = [replace(r, hidden=r.hidden | hidden) for r in scope.relations]
        return made, Scope([merged, *others], scope.outer)

    # LATERAL and UNNEST ---------------------------------------------------------------------------

    def _lateral_join(
        self, left: Node, scope: Scope, tree: Any, kind: JoinKind, on: Any
    ) -> tuple[Node, Scope]:
        if kind not in ("INNER", "LEFT"):
            raise TableException(f"A {kind} JOIN with a table function is not supported")
        if isinstance(tree, exp.Lateral) and isinstance(tree.this, exp.Subquery):
            return self._lateral_subquery(left, scope, tree, kind, on)
        node = self._correlated(left, scope, tree, is_outer=kind == "LEFT")
        names = (tree.alias,) if tree.alias else ()
        result = self._scope_of(node, scope, names, len(left.schema))
        condition = None if on is None else self._condition(result, on)
        if condition is not None and not _is_true(condition):
            if kind == "LEFT" and not isinstance(tree, exp.Unnest):
                raise TableException(
                    "A LEFT JOIN with a table function takes no condition but TRUE"
                )
            if kind == "LEFT":
                assert isinstance(node, n.Correlate), "LEFT keeps rows in the node itself"
                node = replace(node, condition=condition)
            else:
                node = n.filtered(node, condition)
        return node, result

    def _lateral_subquery(
        self, left: Node, scope: Scope, tree: exp.Lateral, kind: JoinKind, on: Any
    ) -> tuple[Node, Scope]:
        from penstock.table.plan.queries import renamed

        plan = self._queries.query(tree.this.this, Scope(scope.relations, scope.outer))
        alias = tree.args.get("alias")
        columns = [] if alias is None else [c.name for c in alias.args.get("columns") or ()]
        plan = renamed(plan, columns, tree.alias or "")
        names = (tree.alias,) if tree.alias else ()
        condition = None
        if on is not None:
            wider = Scope([*scope.relations], scope.outer)
            wider.add(names, plan.schema)
            condition = self._condition(wider, on)
        is_always = condition is None or _is_true(condition)
        if kind == "LEFT" and not is_always:
            raise TableException("A LEFT JOIN LATERAL takes no condition but TRUE")
        node = lateral_joined(left, plan, kind)
        result = self._scope_of(node, scope, names, len(left.schema))
        return (node if is_always else n.filtered(node, condition)), result

    def _correlated(self, left: Node, scope: Scope, tree: Any, *, is_outer: bool) -> Node:
        alias = tree.args.get("alias")
        columns = [] if alias is None else [c.name for c in alias.args.get("columns") or ()]
        if isinstance(tree, exp.Unnest):
            made = self._unnest(left, scope, tree, columns, is_outer=is_outer)
        else:
            made = self._table_function(left, scope, tree, columns, is_outer=is_outer)
        return made

    def _unnest(
        self, left: Node, scope: Scope, tree: exp.Unnest, columns: list[str], *, is_outer: bool
    ) -> Node:
        if len(tree.expressions) != 1:
            raise ValidationException("UNNEST takes one array, map or multiset")
        value = self._queries.expressions_in(scope).bind(tree.expressions[0])
        kind = value.type
        offset = tree.args.get("offset") or None
        if isinstance(kind, types.MapType):
            fields = [Field("KEY", kind.key_type), Field("VALUE", kind.value_type)]
        elif isinstance(kind, types.ArrayType):
            element = kind.element_type
            if isinstance(element, types.RowType):
                fields = [Field(f.name, f.data_type) for f in element]
            else:
                fields = [Field("EXPR$0", element)]
        else:
            raise ValidationException(f"UNNEST takes an array, map or multiset, got <{kind}>")
        if offset is not None:
            fields.append(Field("ORDINALITY", types.IntType(nullable=False)))
            if isinstance(offset, exp.Identifier) and columns:
                columns = [*columns, offset.name]
        fields = _renamed_fields(fields, columns, "UNNEST")
        if tree.alias and not columns and len(fields) == (1 if offset is None else 2):
            fields[0] = Field(tree.alias, fields[0].type)
        return self._correlate(
            left, "UNNEST", (value,), fields, is_outer, with_ordinality=offset is not None
        )

    def _table_function(
        self, left: Node, scope: Scope, tree: Any, columns: list[str], *, is_outer: bool
    ) -> Node:
        call = tree.this
        if isinstance(call, exp.Anonymous) and str(call.this).upper() == "TABLE":
            (call,) = call.expressions
        if not isinstance(call, exp.Anonymous):
            refuse(f"LATERAL {type(call).__name__}")
        name = call.this if isinstance(call.this, str) else call.this.name
        wrapper = self._context.find_function(tuple(name.split(".")))
        if wrapper is None:
            raise ValidationException(f"No match found for function signature {name}(…)")
        if wrapper.kind != "TABLE":
            raise ValidationException(f"'{name}' is not a table function: LATERAL TABLE needs one")
        bound = self._queries.expressions_in(scope)
        arguments = tuple(bound.bind(part) for part in call.expressions)
        fields = [Field(f.name, f.data_type) for f in wrapper.result_row]
        fields = _renamed_fields(fields, columns, name)
        return self._correlate(left, wrapper, arguments, fields, is_outer)

    @staticmethod
    def _correlate(
        left: Node,
        function: Any,
        arguments: tuple[Expression, ...],
        fields: list[Field],
        is_outer: bool,
        *,
        with_ordinality: bool = False,
    ) -> Node:
        return correlate(
            left, function, arguments, fields, is_outer, with_ordinality=with_ordinality
        )


def rescoped(scope: Scope, node: Node) -> Scope:
    """Return a scope whose columns have the types of the joined node."""
    made = []
    for relation in scope.relations:
        width = len(relation.schema)
        fields = node.schema.fields[relation.start : relation.start + width]
        pairs = zip(relation.schema, fields, strict=False)
        if len(fields) == width:
            schema = Schema(tuple(Field(f.name, g.type) for f, g in pairs))
            relation = replace(relation, schema=schema)
        made.append(relation)
    return Scope(made, scope.outer)


def correlate(
    left: Node,
    function: Any,
    arguments: tuple[Expression, ...],
    fields: list[Field],
    is_outer: bool,
    *,
    with_ordinality: bool = False,
) -> Node:
    """Return each row with the rows that a table function returns for it."""
    if is_outer:
        fields = [Field(f.name, f.type.nullable()) for f in fields]
    schema = Schema((*left.schema.fields, *fields))
    return n.Correlate(
        schema, left, function, arguments, is_outer, None, with_ordinality=with_ordinality
    )


def _renamed_fields(fields: list[Field], names: list[str], what: str) -> list[Field]:
    if not names:
        return fields
    if len(names) != len(fields):
        raise ValidationException(
            f"{len(names)} names are given for the {len(fields)} columns of {what}"
        )
    return [Field(name, field.type) for name, field in zip(names, fields, strict=True)]


def _lateral(tree: Any) -> Any:
    if isinstance(tree, exp.Unnest | exp.Lateral):
        return tree
    return None


def _is_true(condition: Expression) -> bool:
    return isinstance(condition, e.Literal) and condition.value is True


def _merged_column(left: Expression, right: Expression, kind: JoinKind) -> Expression:
    """Return the value of a column of USING, which both sides have unless one has no row."""
    if left.type.nullable() == right.type.nullable() and kind != "FULL":
        is_surer = left.type.is_nullable and not right.type.is_nullable
        if kind == "RIGHT" or (kind == "INNER" and is_surer):
            return right
        return left
    return registry.call("COALESCE", left, right)
