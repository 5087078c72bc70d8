"""Statistics of tables and partitions, which catalogs store and plans do not use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.table.catalog.objects import (
        CatalogBaseTable,
        CatalogPartition,
        CatalogPartitionSpec,
        ObjectPath,
    )

    #: A table, or a partition of it.
    _Owner = tuple[ObjectPath, CatalogPartitionSpec | None]

__all__ = ["CatalogColumnStatistics", "CatalogTableStatistics"]


@dataclass(frozen=True)
class CatalogTableStatistics:
    """Statistics of a table or a partition; -1 is an unknown number.

    Attributes:
        row_count: The number of rows.
        field_count: The number of files, under PyFlink's name.
        total_size: The size in bytes.
        raw_data_size: The size in memory, in bytes.
        properties: Further statistics.
    """

    row_count: int = -1
    field_count: int = -1
    total_size: int = -1
    raw_data_size: int = -1
    properties: Mapping[str, str] = field(default_factory=dict)

    def get_row_count(self) -> int:
        """Return the number of rows."""
        return self.row_count

    def get_field_count(self) -> int:
        """Return the number of files."""
        return self.field_count

    def get_total_size(self) -> int:
        """Return the size in bytes."""
        return self.total_size

    def get_raw_data_size(self) -> int:
        """Return the size in memory, in bytes."""
        return self.raw_data_size

    def get_properties(self) -> dict[str, str]:
        """Return the further statistics."""
        return dict(self.properties)

    def copy(self) -> CatalogTableStatistics:
        """Return equal statistics."""
        return replace(self)


@dataclass(frozen=True)
class CatalogColumnStatistics:
    """Statistics of columns.

    Attributes:
        column_statistics_data: The statistics, by column.
        properties: Further statistics.
    """

    column_statistics_data: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    def get_column_statistics_data(self) -> dict[str, Any]:
        """Return the statistics, by column."""
        return dict(self.column_statistics_data)

    def get_properties(self) -> dict[str, str]:
        """Return the further statistics."""
        return dict(self.properties)

    def copy(self) -> CatalogColumnStatistics:
        """Return equal statistics."""
        return replace(self)


class StoredStatistics(ABC):
    """The part of a catalog that stores statistics in memory.

    Methods raise TableNotExistException or PartitionNotExistException for missing objects, unless
    ``ignore_if_not_exists`` is True.
    """

    def __init__(self) -> None:
        self._of_rows: dict[_Owner, CatalogTableStatistics] = {}
        self._of_columns: dict[_Owner, CatalogColumnStatistics] = {}

    @abstractmethod
    def get_table(self, table_path: ObjectPath) -> CatalogBaseTable:
        """Return a table."""

    @abstractmethod
    def get_partition(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec
    ) -> CatalogPartition:
        """Return a partition."""

    @abstractmethod
    def table_exists(self, table_path: ObjectPath) -> bool:
        """Return whether there is a table."""

    @abstractmethod
    def partition_exists(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec
    ) -> bool:
        """Return whether there is a partition."""

    def get_table_statistics(self, table_path: ObjectPath) -> CatalogTableStatistics:
        """Return the statistics of a table."""
        self.get_table(table_path)
        return self._of_rows.get((table_path, None), CatalogTableStatistics())

    def get_table_column_statistics(self, table_path: ObjectPath) -> CatalogColumnStatistics:
        """Return the statistics of a table's columns."""
        self.get_table(table_path)
        return self._of_columns.get((table_path, None), CatalogColumnStatistics())

    def get_partition_statistics(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec
    ) -> CatalogTableStatistics:
        """Return the statistics of a partition."""
        self.get_partition(table_path, partition_spec)
        return self._of_rows.get((table_path, partition_spec), CatalogTableStatistics())

    def get_partition_column_statistics(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec
    ) -> CatalogColumnStatistics:
        """Return the statistics of a partition's columns."""
        self.get_partition(table_path, partition_spec)
        return self._of_columns.get((table_path, partition_spec), CatalogColumnStatistics())

    def bulk_get_partition_statistics(
        self, table_path: ObjectPath, partition_specs: Sequence[CatalogPartitionSpec]
    ) -> list[CatalogTableStatistics]:
        """Return the statistics of several partitions."""
        return [self.get_partition_statistics(table_path, spec) for spec in partition_specs]

    def bulk_get_partition_column_statistics(
        self, table_path: ObjectPath, partition_specs: Sequence[CatalogPartitionSpec]
    ) -> list[CatalogColumnStatistics]:
        """Return the statistics of the columns of several partitions."""
        return [self.get_partition_column_statistics(table_path, spec) for spec in partition_specs]

    def alter_table_statistics(
        self,
        table_path: ObjectPath,
        table_statistics: CatalogTableStatistics,
        ignore_if_not_exists: bool,
    ) -> None:
        """Replace the statistics of a table."""
        if self._has_table(table_path, ignore_if_not_exists):
            self._of_rows[table_path, None] = table_statistics

    def alter_table_column_statistics(
        self,
        table_path: ObjectPath,
        column_statistics: CatalogColumnStatistics,
        ignore_if_not_exists: bool,
    ) -> None:
        """Replace the statistics of a table's columns."""
        if self._has_table(table_path, ignore_if_not_exists):
            self._of_columns[table_path, None] = column_statistics

    def alter_partition_statistics(
        self,
        table_path: ObjectPath,
        partition_spec: CatalogPartitionSpec,
        partition_statistics: CatalogTableStatistics,
        ignore_if_not_exists: bool,
    ) -> None:
        """Replace the statistics of a partition."""
        if self._has_partition(table_path, partition_spec, ignore_if_not_exists):
            self._of_rows[table_path, partition_spec] = partition_statistics

    def alter_partition_column_statistics(
        self,
        table_path: ObjectPath,
        partition_spec: CatalogPartitionSpec,
        column_statistics: CatalogColumnStatistics,
        ignore_if_not_exists: bool,
    ) -> None:
        """Replace the statistics of a partition's columns."""
        if self._has_partition(table_path, partition_spec, ignore_if_not_exists):
            self._of_columns[table_path, partition_spec] = column_statistics

    def _forget_statistics(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec | None = None
    ) -> None:
        """Drop the statistics of a partition, or of a table with its partitions."""
        stores: tuple[dict[_Owner, Any], ...] = (self._of_rows, self._of_columns)
        for store in stores:
            for path, spec in list(store):
                if path == table_path and partition_spec in (None, spec):
                    del store[path, spec]

    def _has_table(self, table_path: ObjectPath, is_ignored: bool) -> bool:
        if is_ignored:
            return self.table_exists(table_path)
        self.get_table(table_path)
        return True

    def _has_partition(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec, is_ignored: bool
    ) -> bool:
        if is_ignored:
            return self.table_exists(table_path) and self.partition_exists(
                table_path, partition_spec
            )
        self.get_partition(table_path, partition_spec)
        return True
