"""Errors for expressions in texts, which PyFlink 1 accepted: ``table.select("a, b.sum as s")``.

The error shows the arguments to write instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import WrongArgumentError
from penstock.table.expression import tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_OF_SQL: Final = {"==": "=", "===": "=", "!==": "<>", "&&": "AND", "||": "OR"}


def expression_tree(field: Any) -> Any:
    """Return the unresolved tree of an expression, an argument of a table's method.

    Raises:
        WrongArgumentError: The argument is a text.
    """
    if isinstance(field, str):
        written = ", ".join(_written(part) for part in _parts(field)) or "col('name')"
        raise WrongArgumentError(
            f"Expected an expression, got the text {field!r}: PyFlink 2 has no expressions in "
            f"texts, write {written}"
        )
    return tree_of(field)


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


def _written(part: str) -> str:
    """Return the Python expression for one expression of a text."""
    interval = _INTERVAL.fullmatch(part)
    if interval is not None:
        return f"lit({interval['number']}).{interval['unit']}"
    found = _COLUMN.fullmatch(part)
    if found is None:
        aliased = _ALIAS.fullmatch(part)
        if aliased is None:
            return f"call_sql({part!r})"
        return f"call_sql({aliased['expression']!r}).alias({aliased['alias']!r})"
    alias, of = found["alias"], found["property"]
    of = f".{of.lower()}" if of else ""
    return f"col({found['name']!r}){of}" + (f".alias({alias!r})" if alias else "")
