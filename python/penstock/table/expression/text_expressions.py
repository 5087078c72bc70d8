"""Expressions in texts, as in PyFlink 1: ``table.select("a, b.sum as s")``.

Columns, their aggregates and intervals become expressions, and all else an expression of SQL.  The
log shows once the arguments to write instead.  A program that uses no other name of Flink 1 gets an
error that shows them, as PyFlink 2 has no expressions in texts.  The process decides, not the
environment: windows and expressions exist before any environment, and names of Flink 1 are imported
by the program.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import WrongArgumentError
from penstock.table.expression.expression import tree_of
from penstock.table.sql.reserved_words import RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.table.expression.expression import Expression

_COLUMN: Final = re.compile(
    r"(?P<name>\w+|\*)"
    r"(?:\.(?P<property>asc|avg|count|desc|end|max|min|proctime|rowtime|start|sum)(?:\(\))?)?"
    r"(?:\s+as\s+(?P<alias>\w+))?",
    re.IGNORECASE,
)
_ALIAS: Final = re.compile(r"(?P<expression>.+?)\s+as\s+(?P<alias>\w+)", re.IGNORECASE | re.DOTALL)
_INTERVAL: Final = re.compile(r"(?P<number>\d+)\.(?P<unit>[a-z]+)")
"""An interval such as ``10.minutes``."""

_TOKEN: Final = re.compile(r"""'[^']*'|"[^"]*"|===?|!==|&&|\|\||.""", re.DOTALL)
_IN_CALL: Final = re.compile(
    r"""'[^']*'|"(?P<text>[^"]*)"|(?<=[(,])(?P<space>\s*)(?P<name>\w+)(?=\s*[,)])"""
)
"""Quoted texts, and names that are arguments."""

_VALUES: Final = frozenset({"TRUE", "FALSE", "NULL"})
_OF_SQL: Final = {"==": "=", "===": "=", "!==": "<>", "&&": "AND", "||": "OR"}


def expression_tree(field: Any) -> Any:
    """Return the unresolved tree of an expression, an argument of a table's method.

    Raises:
        WrongArgumentError: The argument is a text of several expressions, or of none.
    """
    if not isinstance(field, str):
        return tree_of(field)
    trees = expression_trees([field])
    if len(trees) != 1:
        raise WrongArgumentError(f"Expected one expression, got the text {field!r}")
    return trees[0]


def expression_trees(fields: Iterable[Any]) -> list[Any]:
    """Return the unresolved trees of expressions; a text may have several of them.

    Raises:
        WrongArgumentError: A text has no expression, or the program is not of Flink 1.
    """
    trees: list[Any] = []
    for field in fields:
        if not isinstance(field, str):
            trees.append(tree_of(field))
            continue
        parts = [_calls(part) for part in _parts(field)]
        if not parts:
            raise WrongArgumentError(f"Expected an expression, got the text {field!r}")
        written = ", ".join(map(_written, parts))
        flink_1 = import_module("penstock.flink_1")
        if not flink_1.is_used():
            raise WrongArgumentError(
                f"Expected an expression, got the text {field!r}: PyFlink 2 has no expressions in "
                f"texts, write {written}"
            )
        flink_1.say_once(f"the text {field!r}", f"write {written}")
        trees += [tree_of(_expression(part)) for part in parts]
    return trees


def _parts(text: str) -> Iterator[str]:
    """Split a text at the commas outside of parentheses and quotes."""
    depth, part = 0, ""
    for token in _TOKEN.findall(text):
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += _OF_SQL.get(token, token)
    if part.strip():
        yield part.strip()


def _calls(part: str) -> tuple[str, str, str | None, str | None]:
    """Return function, argument, property and alias of one expression of a text."""
    interval = _INTERVAL.fullmatch(part)
    if interval is not None:
        return "lit", interval["number"], interval["unit"], None
    found = _COLUMN.fullmatch(part)
    if found is not None:
        of = found["property"]
        return "col", found["name"], of.lower() if of else None, found["alias"]
    part = _IN_CALL.sub(_of_sql, part)
    aliased = _ALIAS.fullmatch(part)
    if aliased is None:
        return "call_sql", part, None, None
    return "call_sql", aliased["expression"], None, aliased["alias"]


def _of_sql(match: re.Match[str]) -> str:
    """Return a text in SQL's quotes, and an argument's name in backquotes where SQL reserves it."""
    text, name = match["text"], match["name"]
    if text is not None:
        return "'" + text.replace("'", "''") + "'"
    if name is not None and name.upper() in RESERVED - _VALUES:
        return f"{match['space']}`{name}`"
    return match[0]


def _written(calls: tuple[str, str, str | None, str | None]) -> str:
    function, argument, of, alias = calls
    text = f"{function}({argument if function == 'lit' else repr(argument)})"
    return text + (f".{of}" if of else "") + (f".alias({alias!r})" if alias else "")


def _expression(calls: tuple[str, str, str | None, str | None]) -> Expression[Any]:
    function, argument, of, alias = calls
    functions = import_module("penstock.table.expressions")
    made: Expression[Any] = getattr(functions, function)(
        int(argument) if function == "lit" else argument
    )
    if of:
        made = getattr(made, of)
    return made.alias(alias) if alias else made
