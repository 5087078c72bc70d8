"""Errors of SQL and the Table API, with Flink's names."""

from __future__ import annotations

from penstock.errors import PenstockError


class TableException(PenstockError):
    """A query or an operation on tables cannot run; the message states the reason."""


class ValidationException(TableException):
    """A statement or an expression is invalid: a name, a type or the number of arguments."""


class SqlParserException(TableException):
    """A text is not valid SQL; the message has the position and shows the line."""


def marked(sql: str, line: int, column: int) -> str:
    """Return the line of a text with a mark below a column; line and column start at 1."""
    lines = sql.splitlines()
    if not 1 <= line <= len(lines):
        return ""
    return f"{lines[line - 1]}\n{' ' * (max(column, 1) - 1)}^"
