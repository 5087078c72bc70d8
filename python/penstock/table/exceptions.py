"""Errors of SQL and the Table API, with Flink's names: also ``pyflink.util.exceptions``."""

from __future__ import annotations

from penstock.errors import PenstockError

__all__ = [
    "CatalogException",
    "DatabaseAlreadyExistException",
    "DatabaseNotEmptyException",
    "DatabaseNotExistException",
    "FunctionAlreadyExistException",
    "FunctionNotExistException",
    "PartitionAlreadyExistsException",
    "PartitionNotExistException",
    "PartitionSpecInvalidException",
    "SqlParserException",
    "TableAlreadyExistException",
    "TableException",
    "TableNotExistException",
    "TableNotPartitionedException",
    "ValidationException",
]


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


class InvalidTypeError(ValueError):
    """A data type has an invalid length, precision, scale or field."""


class CatalogException(TableException):
    """A catalog rejects an operation."""


class DatabaseAlreadyExistException(CatalogException):
    """A database with the name exists."""


class DatabaseNotEmptyException(CatalogException):
    """A database with tables or functions can only be dropped with CASCADE."""


class DatabaseNotExistException(CatalogException):
    """No database has the name."""


class TableAlreadyExistException(CatalogException):
    """A table or view with the name exists."""


class TableNotExistException(CatalogException):
    """No table or view has the name."""


class TableNotPartitionedException(CatalogException):
    """A partition was requested from a table without partitions."""


class FunctionAlreadyExistException(CatalogException):
    """A function with the name exists."""


class FunctionNotExistException(CatalogException):
    """No function has the name."""


class PartitionAlreadyExistsException(CatalogException):
    """The table has the partition."""


class PartitionNotExistException(CatalogException):
    """The table does not have the partition."""


class PartitionSpecInvalidException(CatalogException):
    """A partition does not match the partition keys of its table."""
