"""Execution of statements about partitions, which a catalog in memory stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.catalog.catalog import GenericInMemoryCatalog
from penstock.table.catalog.objects import CatalogPartition, CatalogPartitionSpec
from penstock.table.exceptions import CatalogException, ValidationException
from penstock.table.statements import show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.table.catalog.manager import CatalogManager
    from penstock.table.catalog.objects import ObjectIdentifier
    from penstock.table.sql.statements import PartitionChange
    from penstock.table.table_result.table_result import TableResult


def change_partition(
    catalogs: CatalogManager,
    identifier: ObjectIdentifier,
    change: PartitionChange,
    *,
    is_added: bool,
) -> None:
    """Add or drop a partition of a table.

    Raises:
        ValidationException: The partition keys differ, or the partition exists or is missing.
    """
    catalog = _catalog(catalogs, identifier)
    path = identifier.to_object_path()
    spec = CatalogPartitionSpec(dict(change.values))
    try:
        if is_added:
            partition = CatalogPartition(dict(change.options))
            catalog.create_partition(path, spec, partition, change.is_lenient)
        else:
            catalog.drop_partition(path, spec, change.is_lenient)
    except CatalogException as error:
        raise ValidationException(f"Could not execute the statement: {error}") from error


def partition_list(
    catalogs: CatalogManager, identifier: ObjectIdentifier, wanted: Mapping[str, str]
) -> TableResult:
    """Return the partitions of a table that have the given values.

    Raises:
        ValidationException: The table is not partitioned.
    """
    catalog = _catalog(catalogs, identifier)
    keys = catalogs.table(identifier).partition_keys
    try:
        found = catalog.list_partitions(
            identifier.to_object_path(), CatalogPartitionSpec(dict(wanted))
        )
    except CatalogException as error:
        raise ValidationException(f"Could not execute the statement: {error}") from error
    names = [
        "/".join(f"{key}={spec.partition_spec[key]}" for key in keys if key in spec.partition_spec)
        for spec in found
    ]
    return show.listed("partition name", names)


def _catalog(catalogs: CatalogManager, identifier: ObjectIdentifier) -> GenericInMemoryCatalog:
    found: Any = catalogs.catalog(identifier.catalog_name)
    if not isinstance(found, GenericInMemoryCatalog):
        raise ValidationException(
            f"The partitions of {identifier.as_summary_string()} are not stored: only a catalog in "
            "memory stores partitions"
        )
    return found
