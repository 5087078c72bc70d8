"""Legacy group windows: TUMBLE, HOP and SESSION in GROUP BY."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from penstock.table.exceptions import ValidationException
from penstock.table.plan import expressions as e
from penstock.table.plan.schema import Schema
from penstock.table.plan.scopes import Relation, Scope
from penstock.table.plan.windows import milliseconds, window_table_function

if TYPE_CHECKING:
    from penstock.table.plan.binder import Binder
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes import Node
    from penstock.table.plan.sql_expressions import SqlExpressions

_KINDS = ("TUMBLE", "HOP", "SESSION")


def _name(tree: Any) -> str:
    return (
        tree.this.upper() if isinstance(tree, exp.Anonymous) and isinstance(tree.this, str) else ""
    )


class GroupWindows:
    """Binder of the window in one GROUP BY, and of the functions that refer to it.

    Attributes:
        keys: The window columns, which become grouping keys.
    """

    def __init__(self, binder: Binder) -> None:
        """Create a binder without windows."""
        self._binder = binder
        self._kind = ""
        self._arguments: list[Expression] = []
        self._bind: Any = None
        self.keys: list[Expression] = []
        self._columns: dict[str, Expression] = {}
        self._session_keys: list[Any] = []

    def is_window(self, tree: Any) -> bool:
        """Return whether an item of GROUP BY is a window."""
        return _name(tree) in _KINDS

    def applied(
        self, node: Node, scope: Scope, group: Any, expressions: SqlExpressions
    ) -> tuple[Node, Scope]:
        """Add the window columns to rows; return the node and its scope.

        Raises:
            ValidationException: There are several windows, or the arguments do not fit.
        """
        trees = [item for item in group.expressions if self.is_window(item)]
        if not trees:
            return node, scope
        if len(trees) > 1:
            raise ValidationException("Only one window in GROUP BY is supported")
        (tree,) = trees
        self._kind = _name(tree)
        self._bind = expressions.bind
        self._arguments = arguments = [expressions.bind(part) for part in tree.expressions]
        if len(arguments) < 2 or not isinstance(arguments[0], e.Column):
            raise ValidationException(f"{self._kind} takes a time attribute and intervals")
        sizes = [milliseconds(a, f"The size of {self._kind}") for a in arguments[1:]]
        wanted = 2 if self._kind == "HOP" else 1
        offset = sizes[wanted] if len(sizes) > wanted else 0
        partition: tuple[int, ...] = ()
        if self._kind == "SESSION":
            others = [
                expressions.bind(item)
                for item in group.expressions
                if not self.is_window(item)
                and not isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets)
            ]
            if not all(isinstance(key, e.Column) for key in others):
                raise ValidationException(
                    "The keys beside SESSION must be columns: compute them in a subquery"
                )
            partition = tuple(key.index for key in others if isinstance(key, e.Column))
        made = window_table_function(
            node, cast("Any", self._kind), arguments[0].index, sizes[:wanted], offset_ms=offset,
            partition=partition,
            has_nullable_time=True, takes_plain_time=not self._binder.context.is_streaming,
        )  # fmt: skip
        width = len(node.schema)
        start, end, time = (
            e.Column(f.type, width + i, f.name) for i, f in enumerate(made.schema.fields[width:])
        )
        self.keys = [start, end, time]
        self._columns = {"START": start, "END": end, "ROWTIME": time, "PROCTIME": time}
        # The window columns are not accessible by name in this query.
        wider = Scope([*scope.relations], scope.outer)
        hidden = Schema(made.schema.fields[width:])
        positions = frozenset(range(width, width + len(hidden)))
        wider.relations.append(Relation(("$window",), _nameless(hidden), width, positions))
        return made, wider

    def replacement(self, tree: Any) -> Expression | None:
        """Return the expression of TUMBLE_START and similar functions; None for other trees."""
        name = _name(tree)
        kind, _, what = name.partition("_")
        if kind not in _KINDS or what not in ("START", "END", "ROWTIME", "PROCTIME"):
            return None
        if kind != self._kind or [self._bind(p) for p in tree.expressions] != self._arguments:
            raise ValidationException(f"{name} needs {kind} with the same arguments in GROUP BY")
        return self._columns[what]


def _nameless(schema: Schema) -> Schema:
    return schema.renamed([f"$window_{i}" for i in range(len(schema))])
