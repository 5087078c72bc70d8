"""The errors of SQL and the Table API in one place; ``pyflink.util.exceptions`` is this module."""

from __future__ import annotations

from penstock.table.catalog_errors import (
    CatalogException,
    DatabaseAlreadyExistException,
    DatabaseNotEmptyException,
    DatabaseNotExistException,
    FunctionAlreadyExistException,
    FunctionNotExistException,
    PartitionAlreadyExistsException,
    PartitionNotExistException,
    PartitionSpecInvalidException,
    TableAlreadyExistException,
    TableNotExistException,
    TableNotPartitionedException,
)
from penstock.table.errors import SqlParserException, TableException, ValidationException

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
