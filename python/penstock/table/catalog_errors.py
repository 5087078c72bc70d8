"""Errors of catalogs, with PyFlink's names."""

from __future__ import annotations

from penstock.table.errors import TableException


class CatalogException(TableException):
    """A catalog refuses an operation."""


class DatabaseAlreadyExistException(CatalogException):
    """A database of that name exists."""


class DatabaseNotEmptyException(CatalogException):
    """A database that has tables or functions can be dropped with CASCADE only."""


class DatabaseNotExistException(CatalogException):
    """No database has that name."""


class TableAlreadyExistException(CatalogException):
    """A table or view of that name exists."""


class TableNotExistException(CatalogException):
    """No table or view has that name."""


class TableNotPartitionedException(CatalogException):
    """A table without partitions was asked for one."""


class FunctionAlreadyExistException(CatalogException):
    """A function of that name exists."""


class FunctionNotExistException(CatalogException):
    """No function has that name."""


class PartitionAlreadyExistsException(CatalogException):
    """The table has that partition."""


class PartitionNotExistException(CatalogException):
    """The table has no such partition."""


class PartitionSpecInvalidException(CatalogException):
    """A partition is not described by the partition keys of its table."""
