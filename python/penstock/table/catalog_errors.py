"""Errors of catalogs, with PyFlink's names."""

from __future__ import annotations

from penstock.table.errors import TableException


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
