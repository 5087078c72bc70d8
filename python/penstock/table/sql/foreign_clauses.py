"""Clauses of other dialects that the parser reads, and that would have no effect."""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

#: The clauses of Flink, by kind of query; the parser stores others beside them.
_CLAUSES: Final[tuple[tuple[type[exp.Expr], frozenset[str]], ...]] = (
    (
        exp.Select,
        frozenset(
            [
                "with_",
                "hint",
                "distinct",
                "expressions",
                "from_",
                "joins",
                "where",
                "group",
                "having",
                "windows",
                "qualify",
                "order",
                "limit",
                "offset",
                "match",
            ]
        ),
    ),
    (
        exp.SetOperation,
        frozenset(["with_", "this", "expression", "distinct", "order", "limit", "offset"]),
    ),
    (exp.Star, frozenset()),
)
#: Clauses of other dialects, by the part that has them.
_FOREIGN: Final[tuple[tuple[type[exp.Expr], tuple[str, ...]], ...]] = (
    (exp.Table, ("sample", "pivots", "only")),
    (exp.Subquery, ("sample", "pivots")),
    (exp.CTE, ("materialized",)),
    (exp.Group, ("all",)),
    (exp.Distinct, ("on",)),
    (exp.Limit, ("expressions", "limit_options")),
    (exp.LimitOptions, ("percent", "with_ties")),
    (exp.WindowSpec, ("exclude",)),
)
_NAMES: Final = {
    "all": "GROUP BY ALL",
    "by_name": "BY NAME",
    "except_": "* EXCEPT",
    "exclude": "EXCLUDE",
    "expressions": "LIMIT ... BY",
    "kind": "SELECT AS",
    "laterals": "LATERAL VIEW",
    "limit_options": "LIMIT with PERCENT or WITH TIES",
    "locks": "FOR UPDATE",
    "on": "DISTINCT ON",
    "pivots": "PIVOT",
    "rename": "* RENAME",
    "replace": "* REPLACE",
    "sample": "TABLESAMPLE",
}
_JOINS: Final = ("SEMI", "ANTI", "ASOF")
#: What to write for a clause, behind the sentence that it is not supported.
INSTEAD: Final = {
    "ANTI JOIN": ", write WHERE NOT EXISTS (SELECT ...)",
    "SEMI JOIN": ", write WHERE EXISTS (SELECT ...)",
    "TABLESAMPLE": ", write WHERE RAND() < 0.1 for about a tenth of the rows",
}


def foreign_clause(tree: exp.Expr) -> str | None:
    """Return a clause of a query that is not supported; None if there is none."""
    for part in tree.walk():
        name = _foreign_part(part)
        if name is not None:
            return name
    return None


def _foreign_part(part: Any) -> str | None:
    if isinstance(part, exp.Join):
        words = (part.args.get("method"), part.args.get("side"), part.args.get("kind"))
        return next((f"{word} JOIN" for word in words if word in _JOINS), None)
    if isinstance(part, exp.Rollup | exp.Cube) and not part.expressions:
        return f"WITH {type(part).__name__.upper()}"
    for kind, clauses in _CLAUSES:
        if isinstance(part, kind):
            found = (name for name, value in part.args.items() if value and name not in clauses)
            return next(map(_shown, found), None)
    for kind, names in _FOREIGN:
        if isinstance(part, kind):
            return next((_shown(name) for name in names if part.args.get(name)), None)
    return None


def _shown(name: str) -> str:
    return _NAMES.get(name, name.rstrip("_").replace("_", " ").upper())
