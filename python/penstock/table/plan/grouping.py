"""Grouping sets of GROUP BY, and the functions that distinguish them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.table.exceptions import ValidationException
from penstock.table.plan import relations

if TYPE_CHECKING:
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.relations import Grouping
    from penstock.table.plan.sql_expressions import SqlExpressions

_GROUPING_FUNCTIONS = ("GROUPING", "GROUPING_ID", "GROUP_ID")


class GroupingCalls:
    """Binder of GROUPING and GROUPING_ID, which are resolved once the groups are known."""

    def __init__(self, expressions: SqlExpressions) -> None:
        """Register in the binder of expressions."""
        self.grouping: Grouping | None = None
        self._expressions = expressions
        self._inner = expressions.replaced
        expressions.replaced = self.replacement

    def replacement(self, tree: Any) -> Expression | None:
        """Return the replacement of a tree; None for other trees."""
        is_call = isinstance(tree, exp.Anonymous) and isinstance(tree.this, str)
        if is_call and self.grouping is not None and tree.this.upper() in _GROUPING_FUNCTIONS:
            arguments = [self._expressions.bind(part) for part in tree.expressions]
            if tree.this.upper() == "GROUP_ID":
                if arguments:
                    raise ValidationException("GROUP_ID takes no arguments")
                return relations.group_id(self.grouping)
            return relations.grouping_id(arguments, self.grouping)
        return self._inner(tree)


def sets_of(item: Any, expressions: SqlExpressions) -> list[tuple[Expression, ...]]:
    """Return the sets of ROLLUP, CUBE or GROUPING SETS."""

    def bound(tree: Any) -> tuple[Expression, ...]:
        if isinstance(tree, exp.Tuple):
            return tuple(expressions.bind(part) for part in tree.expressions)
        if isinstance(tree, exp.Paren):
            return (expressions.bind(tree.this),)
        return (expressions.bind(tree),)

    parts = item.expressions
    if isinstance(item, exp.GroupingSets):
        found: list[tuple[Expression, ...]] = []
        for part in parts:
            if isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets):
                found.extend(sets_of(part, expressions))
            else:
                found.append(bound(part))
        return found
    groups = [bound(part) for part in parts]
    if isinstance(item, exp.Rollup):
        return [
            tuple(x for group in groups[:length] for x in group)
            for length in range(len(groups), -1, -1)
        ]
    number = len(groups)
    return [
        tuple(x for i, group in enumerate(groups) if mask >> (number - 1 - i) & 1 for x in group)
        for mask in range((1 << number) - 1, -1, -1)
    ]
