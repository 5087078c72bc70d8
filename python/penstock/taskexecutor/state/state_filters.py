"""Conditions on entries of state: a column or one of its fields, a comparison, and a value."""

from __future__ import annotations

import ast
import operator
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import WrongArgumentError
from penstock.taskexecutor.state.plain_values import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

COLUMNS: Final = ("key", "namespace", "value")

Condition = tuple[tuple[str, ...], str, Any]
"""The path of a column, a comparison, and a value."""

_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, several: value in several,
}

_TEXT: Final = re.compile(r"\s*([\w.]+)\s*(==|!=|<=|>=|<|>|\bin\b)\s*(.+?)\s*", re.DOTALL)


def condition_of(column: Any, comparison: Any, value: Any) -> Condition:
    """Return a condition.

    Raises:
        WrongArgumentError: There is no such column or comparison.
    """
    path = tuple(column.split(".")) if isinstance(column, str) else ()
    if not path or path[0] not in COLUMNS:
        raise WrongArgumentError(
            f"a condition names key, namespace or value, or a field of them such as value.price, "
            f"got {column!r}"
        )
    if comparison not in _COMPARISONS:
        raise WrongArgumentError(
            f"a comparison is one of {', '.join(_COMPARISONS)}, got {comparison!r}"
        )
    # Rows are compared as plain values, in which a tuple is a dictionary.
    return path, comparison, plain(list(value) if comparison == "in" else value)


def condition_of_text(text: str) -> Condition:
    """Parse a condition from a text such as ``value.price > 3``.

    The value is a Python literal, or a text.

    Raises:
        WrongArgumentError: The text has another form.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise WrongArgumentError(f"a condition has the form 'value.price > 3', got {text[:200]!r}")
    column, comparison, given = found.groups()
    try:
        value = ast.literal_eval(given)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = given
    if comparison == "in" and not isinstance(value, list | tuple | set):
        raise WrongArgumentError(f"'in' takes a list such as [1, 2], got {given[:200]!r}")
    return condition_of(column, comparison, value)


def fits(row: Sequence[Any], conditions: Iterable[Sequence[Any]]) -> bool:
    """Return whether a row of plain key, namespace and value fulfils all conditions."""
    columns = dict(zip(COLUMNS, row, strict=True))
    return all(_compare(columns, *condition) for condition in conditions)


def _compare(columns: dict[str, Any], path: Sequence[str], sign: str, wanted: Any) -> bool:
    """Return whether a column, or a field in it, fulfils a comparison.

    Missing fields, None and incomparable values do not.
    """
    found: Any = columns
    for name in path:
        if not isinstance(found, dict) or name not in found:
            return False
        found = found[name]
    if found is None:
        return False
    try:
        return bool(_COMPARISONS[sign](found, wanted))
    except TypeError:
        return False
