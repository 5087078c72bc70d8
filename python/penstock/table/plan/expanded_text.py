"""Queries with qualified names, in the form that Flink uses for views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from penstock.table.exceptions import ValidationException
from penstock.table.plan.expanded_expressions import (
    ExpressionWriter,
    UnwrittenError,
    text_literal,
)
from penstock.table.plan.queries import QueryBinder
from penstock.table.quoting import dotted, quoted
from penstock.table.sql.trees import NamedArgument, TableFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.table.plan.context import PlanningContext
    from penstock.table.plan.scopes import Relation, Scope

_SET_OPERATIONS: Final = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def expanded_text(
    tree: Any,
    context: PlanningContext,
    *,
    object_path: Callable[[Sequence[str]], Sequence[str]],
    function_path: Callable[[Sequence[str]], Sequence[str] | None],
) -> str | None:
    """Return a query with qualified names, and with columns instead of ``*``.

    Args:
        tree: The tree of a query.
        context: The context of the query.
        object_path: Qualifies the name of a table or view.
        function_path: Qualifies the name of a user function; None for other functions.

    Returns:
        The text; None if the query has a part that is not expanded, such as MATCH_RECOGNIZE.

    Raises:
        ValidationException: The query is invalid.
    """
    binder = QueryBinder(context)
    binder.query(tree, None)
    try:
        return _Writer(binder.scopes, object_path, function_path).query(tree)
    except UnwrittenError:
        return None


class _Writer(ExpressionWriter):
    """Writes the queries of one statement."""

    def __init__(
        self,
        scopes: dict[int, Scope],
        object_path: Callable[[Sequence[str]], Sequence[str]],
        function_path: Callable[[Sequence[str]], Sequence[str] | None],
    ) -> None:
        super().__init__(scopes, function_path)
        self._object_path = object_path
        self._named: list[str] = []
        self._number_of_aliases = 0
        self._output_names: list[str] = []
        self._given_names: set[str] = set()

    # Queries ------------------------------------------------------------------------------------

    def query(self, tree: Any) -> str:
        """Return the text of a query."""
        enclosing = self.scope, self._output_names, self._given_names
        names = len(self._named)
        try:
            prefix = self._with(tree)
            return prefix + self._body(tree)
        finally:
            self.scope, self._output_names, self._given_names = enclosing
            del self._named[names:]

    def _with(self, tree: Any) -> str:
        clause = tree.args.get("with_")
        if clause is None:
            return ""
        parts = []
        for item in clause.expressions:
            columns = self._column_list(item.args["alias"])
            parts.append(f"{quoted(item.alias)}{columns} AS ({self.query(item.this)})")
            self._named.append(item.alias)
        return f"WITH {', '.join(parts)} "

    def _body(self, tree: Any) -> str:
        match tree:
            case exp.Select():
                return self._select(tree)
            case exp.SetOperation():
                return self._set_operation(tree)
            case exp.Values() if not self._is_ordered(tree):
                return self._values(tree)
            case exp.Subquery() | exp.Paren() if not self._is_ordered(tree):
                return self.query(tree.this)
        raise UnwrittenError

    @staticmethod
    def _is_ordered(tree: Any) -> bool:
        return any(tree.args.get(part) is not None for part in ("order", "limit", "offset"))

    def _set_operation(self, tree: exp.SetOperation) -> str:
        word = _SET_OPERATIONS[type(tree)]
        if tree.args.get("distinct") is False:
            word += " ALL"
        sides = []
        for side in (tree.this, tree.expression):
            inner = side.this if isinstance(side, exp.Subquery) else side
            text = self.query(inner)
            sides.append(f"({text})" if self._is_ordered(inner) else text)
        made = f"\n{word}\n".join(sides)
        if not self._is_ordered(tree):
            return made
        self.scope = self.scope_of(tree)
        alias = self._new_alias()
        self._output_names = [column.name for column in self.scope.columns()]
        self._given_names = set()
        columns = ", ".join(dotted((alias, name)) for name in self._output_names)
        return f"SELECT {columns}\nFROM ({made}) AS {quoted(alias)}{self._order(tree)}"

    def _values(self, tree: exp.Values) -> str:
        rows = [row if isinstance(row, exp.Tuple) else exp.Tuple(expressions=[row.copy()])
                for row in tree.expressions]  # fmt: skip
        return "VALUES " + ",\n".join(self.expression(row) for row in rows)

    def _select(self, tree: exp.Select) -> str:
        if tree.args.get("match") is not None:
            raise UnwrittenError
        self.scope = self.scope_of(tree)
        source = self._from(tree)
        outputs = ", ".join(self._outputs(tree))
        words = "SELECT DISTINCT" if tree.args.get("distinct") is not None else "SELECT"
        parts = [f"{words} {outputs}", *source]
        for clause, word in (("where", "WHERE"), ("group", "GROUP BY"), ("having", "HAVING"),
                             ("windows", "WINDOW"), ("qualify", "QUALIFY")):  # fmt: skip
            part = tree.args.get(clause)
            if clause == "group" and part is not None:
                parts.append(f"{word} {', '.join(self._groups(part))}")
            elif clause == "windows" and part:
                parts.append(f"{word} " + ", ".join(self.named_window(w) for w in part))
            elif part:
                condition = part.this
                if clause == "qualify":
                    self._check_names(condition)
                parts.append(f"{word} {self.expression(condition)}")
        return "\n".join(parts) + self._order(tree)

    def _outputs(self, tree: exp.Select) -> list[str]:
        assert self.scope is not None
        made: list[str] = []
        self._output_names = []
        self._given_names = set()
        for item in tree.expressions:
            inner = item.this if isinstance(item, exp.Alias) else item
            is_star = isinstance(inner, exp.Star)
            if is_star or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                if is_star and any(relation.hidden for relation in self.scope.relations):
                    raise UnwrittenError  # Flink merges columns of USING in its own form
                qualifier = () if is_star else tuple(part.name for part in inner.parts[:-1])
                for column in self._star(qualifier):
                    made.append(dotted(column))
                    self._output_names.append(column[-1])
                continue
            text = self.expression(inner)
            name = QueryBinder.output_name(item, inner, len(made))
            self._output_names.append(name)
            is_itself = isinstance(inner, exp.Column) and not inner.table and inner.name == name
            if isinstance(item, exp.Alias) and not is_itself:
                self._given_names.add(name)
            made.append(f"{text} AS {quoted(name)}" if isinstance(item, exp.Alias) else text)
        return made

    def _star(self, qualifier: tuple[str, ...]) -> list[tuple[str, str]]:
        assert self.scope is not None
        try:
            columns = self.scope.columns(qualifier)
        except ValidationException:
            raise UnwrittenError from None
        return [
            (self.alias_of(self.scope, self.scope.relation_of(column)), column.name)
            for column in columns
        ]

    def _groups(self, group: exp.Group) -> list[str]:
        return [
            self._group(item)
            for name in ("expressions", "rollup", "cube", "grouping_sets")
            for item in group.args.get(name) or ()
        ]

    def _group(self, item: Any) -> str:
        words = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"}
        word = words.get(type(item))
        if word is not None:
            return f"{word}({', '.join(self._group(part) for part in item.expressions)})"
        if isinstance(item, exp.Tuple):
            return f"({', '.join(map(self.expression, item.expressions))})"
        text = self.expression(item)
        is_window = isinstance(item, exp.Anonymous) and text.startswith(("TUMBLE(", "HOP(",
                                                                         "SESSION("))  # fmt: skip
        return f"${text}" if is_window else text

    def _order(self, tree: Any) -> str:
        parts = []
        if tree.args.get("order") is not None:
            items = map(self._ordering, tree.args["order"].expressions)
            parts.append(f"ORDER BY {', '.join(items)}")
        limit, offset = tree.args.get("limit"), tree.args.get("offset")
        if isinstance(limit, exp.Limit) and limit.args.get("offset") is not None:
            parts.append(f"OFFSET {self.expression(limit.args['offset'])} ROWS")
        if offset is not None:
            parts.append(f"OFFSET {self.expression(offset.expression)} ROWS")
        if limit is not None:
            is_fetch = isinstance(limit, exp.Fetch)
            count = limit.args.get("count") if is_fetch else limit.expression
            number = "1" if count is None else self.expression(count)
            parts.append(f"FETCH NEXT {number} ROWS ONLY")
        return "".join(f"\n{part}" for part in parts)

    def _ordering(self, item: exp.Ordered) -> str:
        inner = item.this
        is_output = isinstance(inner, exp.Column) and not inner.table
        if is_output and inner.name in self._output_names:
            return self.order_item(item, quoted(inner.name))
        self._check_names(inner)
        return self.order_item(item, self.expression(inner))

    def _check_names(self, tree: Any) -> None:
        """Check that an expression has no names of AS, for which Flink writes the outputs.

        Raises:
            UnwrittenError: It has one.
        """
        for column in tree.find_all(exp.Column):
            if not column.table and column.name in self._given_names:
                raise UnwrittenError

    # FROM ---------------------------------------------------------------------------------------

    def _from(self, tree: exp.Select) -> list[str]:
        clause = tree.args.get("from_")
        if clause is None:
            return []
        scope = self.scope
        assert scope is not None
        start = 0
        joins = [*(clause.this.args.get("joins") or ()), *(tree.args.get("joins") or ())]
        texts = []
        relations = iter(scope.relations)
        for part in (clause.this, *(joined.this for joined in joins)):
            relation = next(relations, None)
            if relation is None or relation.start != start:
                raise UnwrittenError  # columns of USING that FULL JOIN merges
            start += len(relation.schema)
            texts.append(self._relation(part, scope, relation))
        lines = [f"FROM {texts[0]}"]
        for joined, text in zip(joins, texts[1:], strict=True):
            line = self._join(joined, text)
            if line is None:
                lines[-1] += ","
            lines.append(text if line is None else line)
        return lines

    def _join(self, tree: exp.Join, right: str) -> str | None:
        """Return a join; None for the comma."""
        side = str(tree.args.get("side") or "").upper()
        kind = str(tree.args.get("kind") or "").upper()
        on, using = tree.args.get("on"), tree.args.get("using")
        is_natural = str(tree.args.get("method") or "").upper() == "NATURAL"
        if not side and not kind and on is None and using is None and not is_natural:
            return None
        word = "CROSS" if kind == "CROSS" else side or "INNER"
        line = f"{'NATURAL ' if is_natural else ''}{word} JOIN {right}"
        if on is not None:
            line += f" ON {self.expression(on)}"
        if using is not None:
            line += f" USING ({', '.join(quoted(c.name) for c in using)})"
        return line

    def _relation(self, tree: Any, scope: Scope, relation: Relation) -> str:
        name = relation.names[-1] if relation.names else self._new_alias()
        self.aliases[id(scope), relation.start] = name
        alias = f" AS {quoted(name)}{self._column_list(tree.args.get('alias'))}"
        match tree:
            case exp.Table():
                return self._table(tree, alias)
            case exp.Subquery():
                inner = tree if tree.args.get("with_") is not None else tree.this
                return f"({self.query(inner)}){alias}"
            case exp.Values():
                return f"({self._values(tree)}){alias}"
            case TableFunction():
                arguments = ", ".join(map(self._window_argument, tree.expressions))
                return f"TABLE({tree.this}({arguments})){alias}"
            case exp.Unnest():
                text = f"UNNEST({', '.join(map(self.expression, tree.expressions))})"
                return f"{text} WITH ORDINALITY{alias}" if tree.args.get("offset") else text + alias
            case exp.Lateral(this=exp.Subquery()):
                return f"LATERAL ({self.query(tree.this.this)}){alias}"
            case exp.Lateral():
                return f"LATERAL TABLE({self._table_function(tree.this)}){alias}"
        raise UnwrittenError

    def _table_function(self, tree: Any) -> str:
        """Return the call of a table function, whose columns Flink does not qualify."""
        if isinstance(tree, exp.Anonymous) and str(tree.this).upper() == "TABLE":
            tree = tree.expressions[0]
        if not isinstance(tree, exp.Anonymous):
            raise UnwrittenError
        arguments = [
            dotted(tuple(part.name for part in argument.parts))
            if isinstance(argument, exp.Column)
            else self.expression(argument)
            for argument in tree.expressions
        ]
        return f"{self.function_name(str(tree.this))}({', '.join(arguments)})"

    def _table(self, tree: exp.Table, alias: str) -> str:
        path: Sequence[str] = tuple(part.name for part in tree.parts)
        if len(path) != 1 or path[0] not in self._named:
            path = self._object_path(path)
        text = dotted(path)
        options = tree.meta.get("options")
        if options:
            pairs = ", ".join(f"{text_literal(k)} = {text_literal(v)}" for k, v in options.items())
            return f"{text}{alias if tree.alias else ''}\n/*+ `OPTIONS`({pairs}) */"
        version = tree.args.get("version")
        if version is not None:
            text += f" FOR SYSTEM_TIME AS OF {self.expression(version.expression)}"
        return text + alias

    def _window_argument(self, tree: Any) -> str:
        if isinstance(tree, NamedArgument):
            return f"{quoted(tree.this)} => {self._window_argument(tree.expression)}"
        match type(tree).__name__:
            case "Descriptor":
                return f"DESCRIPTOR({', '.join(quoted(c.name) for c in tree.expressions)})"
            case "TableArgument" if not tree.expressions:
                if not isinstance(tree.this, exp.Table):
                    return f"({self.query(tree.this)})"
                path = tuple(part.name for part in tree.this.parts)
                scope = self.scope_of(tree)
                columns = ", ".join(dotted((path[-1], c.name)) for c in scope.columns())
                return (
                    f"(SELECT {columns}\nFROM {self._table(tree.this, f' AS {quoted(path[-1])}')})"
                )
            case "TableArgument":
                raise UnwrittenError
        return self.expression(tree)

    @staticmethod
    def _column_list(alias: Any) -> str:
        columns = [] if alias is None else alias.args.get("columns") or []
        return f" ({', '.join(quoted(c.name) for c in columns)})" if columns else ""

    def _new_alias(self) -> str:
        self._number_of_aliases += 1
        return f"EXPR${self._number_of_aliases - 1}"
