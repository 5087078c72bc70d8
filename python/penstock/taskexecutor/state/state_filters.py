"""Conditions on entries of state: a column or one of its fields, a comparison, and a value."""

from __future__ import annotations

import ast
import operator
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.names import nearest_hint
from penstock.errors import WrongArgumentError
from penstock.taskexecutor.state.plain_values import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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


def condition_of(column: object, comparison: object, value: Any) -> Condition:
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
            f"a comparison must be one of {', '.join(_COMPARISONS)}, got {comparison!r}"
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


def fits(row: Sequence[object], conditions: Iterable[Sequence[Any]]) -> bool:
    """Return whether a row of plain key, namespace and value fulfils all conditions."""
    columns = dict(zip(COLUMNS, row, strict=True))
    return all(_compare(columns, *condition) for condition in conditions)


class FilterFields:
    """The fields that the conditions of a scan name, as far as its entries have them.

    Attributes:
        problems: By field, such as ``value.price``: an empty text if an entry has it, otherwise the
            reason why none has.  A field is missing as long as a part before it is None.
    """

    def __init__(self, conditions: Iterable[Sequence[Any]] = ()) -> None:
        self.problems: dict[str, str] = {}
        self._sought = [path for path, *_ in conditions if len(path) > 1]

    def look(self, row: Sequence[object]) -> None:
        """Look for the fields that no entry has had so far."""
        for path in tuple(self._sought):
            problem = _problem(dict(zip(COLUMNS, row, strict=True)), path)
            if problem is not None:
                self.problems[".".join(path)] = problem
            if problem == "":
                self._sought.remove(path)

    def add(self, problems: Mapping[str, str]) -> None:
        """Add the result for other entries."""
        for name, problem in problems.items():
            if self.problems.get(name) != "":
                self.problems[name] = problem

    def check(self) -> None:
        """Check, at the end of a scan, that entries have the fields; one that fits has all of them.

        Raises:
            WrongArgumentError: No entry has a field; the message names the nearest one.
        """
        for problem in filter(None, self.problems.values()):
            raise WrongArgumentError(problem)


def _problem(columns: dict[str, object], path: Sequence[str]) -> str | None:
    """Return what is wrong with a field of an entry; None if a part before it is None."""
    found: Any = columns
    for depth, name in enumerate(path):
        if found is None:
            return None
        if not isinstance(found, dict):
            whole = ".".join(path[:depth])
            kind = type(found).__name__
            return f"no entry has {'.'.join(path)!r}: {whole} is of type {kind}, without fields"
        if name not in found:
            whole = ".".join(path[:depth])
            return (
                f"no entry has {'.'.join(path)!r}: {whole} has the fields {', '.join(found)}"
                f"{nearest_hint(name, found)}"
            )
        found = found[name]
    return ""


def _compare(columns: dict[str, Any], path: Sequence[str], sign: str, wanted: object) -> bool:
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
