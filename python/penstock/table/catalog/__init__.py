"""Catalogs and the objects in them: PyFlink's ``catalog``, and the catalogs of an environment."""

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.table.catalog.catalog import Catalog, GenericInMemoryCatalog
    from penstock.table.catalog.external_catalogs import HiveCatalog, IcebergCatalog, JdbcCatalog
    from penstock.table.catalog.objects import (
        CatalogBaseTable,
        CatalogDatabase,
        CatalogDescriptor,
        CatalogFunction,
        CatalogPartition,
        CatalogPartitionSpec,
        ObjectIdentifier,
        ObjectPath,
    )
    from penstock.table.catalog.statistics import CatalogColumnStatistics, CatalogTableStatistics
    from penstock.table.schema.resolved_schema import (
        Column,
        ComputedColumn,
        Constraint,
        MetadataColumn,
        PhysicalColumn,
        ResolvedSchema,
        UniqueConstraint,
        WatermarkSpec,
    )

__all__ = [
    "Catalog",
    "CatalogBaseTable",
    "CatalogColumnStatistics",
    "CatalogDatabase",
    "CatalogDescriptor",
    "CatalogFunction",
    "CatalogPartition",
    "CatalogPartitionSpec",
    "CatalogTableStatistics",
    "Column",
    "ComputedColumn",
    "Constraint",
    "GenericInMemoryCatalog",
    "HiveCatalog",
    "IcebergCatalog",
    "JdbcCatalog",
    "MetadataColumn",
    "ObjectIdentifier",
    "ObjectPath",
    "PhysicalColumn",
    "ResolvedSchema",
    "UniqueConstraint",
    "WatermarkSpec",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Catalog": "catalog",
        "GenericInMemoryCatalog": "catalog",
        "HiveCatalog": "external_catalogs",
        "IcebergCatalog": "external_catalogs",
        "JdbcCatalog": "external_catalogs",
        "CatalogBaseTable": "objects",
        "CatalogDatabase": "objects",
        "CatalogDescriptor": "objects",
        "CatalogFunction": "objects",
        "CatalogPartition": "objects",
        "CatalogPartitionSpec": "objects",
        "ObjectIdentifier": "objects",
        "ObjectPath": "objects",
        "CatalogColumnStatistics": "statistics",
        "CatalogTableStatistics": "statistics",
        "Column": "penstock.table.schema.resolved_schema",
        "ComputedColumn": "penstock.table.schema.resolved_schema",
        "Constraint": "penstock.table.schema.resolved_schema",
        "MetadataColumn": "penstock.table.schema.resolved_schema",
        "PhysicalColumn": "penstock.table.schema.resolved_schema",
        "ResolvedSchema": "penstock.table.schema.resolved_schema",
        "UniqueConstraint": "penstock.table.schema.resolved_schema",
        "WatermarkSpec": "penstock.table.schema.resolved_schema",
    },
)
