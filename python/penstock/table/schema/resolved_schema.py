"""ResolvedSchema: the columns of a table, after names and types were checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.table.exceptions import ValidationException
from penstock.table.quoting import escaped, quoted
from penstock.table.schema.schema import DeclaredColumn, DeclaredWatermark, Schema
from penstock.table.types import DataType, RowField, RowType

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Column",
    "ComputedColumn",
    "Constraint",
    "MetadataColumn",
    "PhysicalColumn",
    "ResolvedSchema",
    "UniqueConstraint",
    "WatermarkSpec",
]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: The name.
        data_type: The type, with its time attribute.
        comment: The comment, or None.
    """

    name: str
    data_type: DataType
    comment: str | None = None

    @staticmethod
    def physical(name: str, data_type: DataType) -> PhysicalColumn:
        """Return a column that is a field of the records."""
        return PhysicalColumn(name, data_type)

    @staticmethod
    def metadata(
        name: str, data_type: DataType, metadata_key: str | None, is_virtual: bool
    ) -> MetadataColumn:
        """Return a column that the connector provides besides the records' fields."""
        return MetadataColumn(name, data_type, None, metadata_key, is_virtual)

    @staticmethod
    def computed(name: str, resolved_expression: Any) -> ComputedColumn:
        """Return a column that an expression of a resolved schema computes."""
        return ComputedColumn(
            name, resolved_expression.type, None, resolved_expression, str(resolved_expression)
        )

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def get_data_type(self) -> DataType:
        """Return the type."""
        return self.data_type

    def get_comment(self) -> str | None:
        """Return the comment, or None."""
        return self.comment

    def with_comment(self, comment: str | None) -> Column:
        """Return the column with another comment."""
        return replace(self, comment=comment)

    def copy(self, new_data_type: DataType) -> Column:
        """Return the column with another type."""
        return replace(self, data_type=new_data_type)

    def rename(self, new_name: str) -> Column:
        """Return the column with another name."""
        return replace(self, name=new_name)

    def is_physical(self) -> bool:
        """Return whether the column is a field of the records."""
        return True

    def is_persisted(self) -> bool:
        """Return whether the column is written."""
        return True

    def explain_extras(self) -> str | None:
        """Return DESCRIBE's text for the column's kind; None for physical columns."""
        return None

    def as_summary_string(self) -> str:
        """Return the column as in CREATE TABLE, with its type."""
        described = getattr(self.data_type, "describe", None)
        parts = [f"`{self.name}`", str(self.data_type) if described is None else described()]
        extras = self.explain_extras()
        if extras is not None:
            parts.append(extras)
        if self.comment is not None:
            parts.append(f"COMMENT '{escaped(self.comment)}'")
        return " ".join(parts)

    def __str__(self) -> str:
        return self.as_summary_string()


@dataclass(frozen=True)
class PhysicalColumn(Column):
    """A field of the records."""


@dataclass(frozen=True)
class ComputedColumn(Column):
    """A column that is computed from others.

    Attributes:
        expression: The resolved expression over the preceding columns.
        text: The expression in SQL.
    """

    expression: Any = None
    text: str = ""

    def is_physical(self) -> bool:
        """Return False: the records do not have the column."""
        return False

    def is_persisted(self) -> bool:
        """Return False: the column is not written."""
        return False

    def get_expression(self) -> Any:
        """Return the resolved expression."""
        return self.expression

    def explain_extras(self) -> str | None:
        """Return the expression as DESCRIBE shows it."""
        return f"AS {self.text}"


@dataclass(frozen=True)
class MetadataColumn(Column):
    """A column that the connector provides besides the records' fields.

    Attributes:
        metadata_key: The connector's key; None if it equals the column's name.
        virtual: Whether the column is read-only.
    """

    metadata_key: str | None = None
    virtual: bool = False

    @property
    def key(self) -> str:
        """The connector's key of the metadata."""
        return self.name if self.metadata_key is None else self.metadata_key

    def get_metadata_key(self) -> str | None:
        """Return the connector's key; None if it equals the column's name."""
        return self.metadata_key

    def is_virtual(self) -> bool:
        """Return whether the column is read-only."""
        return self.virtual

    def is_physical(self) -> bool:
        """Return False: the column is not a field of the records."""
        return False

    def is_persisted(self) -> bool:
        """Return whether the column is written."""
        return not self.virtual

    def explain_extras(self) -> str | None:
        """Return the key as DESCRIBE shows it."""
        text = "METADATA"
        if self.metadata_key is not None:
            text += f" FROM '{self.metadata_key}'"
        return f"{text} VIRTUAL" if self.virtual else text


@dataclass(frozen=True)
class WatermarkSpec:
    """The watermark of an event-time column.

    Attributes:
        rowtime_attribute: The name of the column.
        watermark_expression: The resolved expression of a row's watermark.
        text: The expression in SQL.
    """

    rowtime_attribute: str
    watermark_expression: Any
    text: str = ""

    @staticmethod
    def of(rowtime_attribute: str, watermark_expression: Any) -> WatermarkSpec:
        """Return the watermark of a column from an expression of a resolved schema."""
        return WatermarkSpec(rowtime_attribute, watermark_expression, str(watermark_expression))

    def get_rowtime_attribute(self) -> str:
        """Return the name of the column."""
        return self.rowtime_attribute

    def get_watermark_expression(self) -> Any:
        """Return the resolved expression."""
        return self.watermark_expression

    def as_summary_string(self) -> str:
        """Return the watermark as ``print_schema`` shows it."""
        kind = getattr(self.watermark_expression, "type", None)
        typed = "" if kind is None else f": {kind.nullable()}"
        return f"WATERMARK FOR `{self.rowtime_attribute}`{typed} AS {self.text}"

    def __str__(self) -> str:
        return self.as_summary_string()


@dataclass(frozen=True)
class Constraint(ABC):
    """A constraint of a table.

    Attributes:
        name: The name of the constraint.
    """

    class ConstraintType(Enum):
        """Kinds of constraints."""

        PRIMARY_KEY = 0
        UNIQUE_KEY = 1

    name: str

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def is_enforced(self) -> bool:
        """Return False: the engine relies on the constraint and does not check it."""
        return False

    @abstractmethod
    def get_type(self) -> Constraint.ConstraintType:
        """Return the kind of the constraint."""

    @abstractmethod
    def as_summary_string(self) -> str:
        """Return the constraint as in CREATE TABLE."""

    def __str__(self) -> str:
        return self.as_summary_string()


@dataclass(frozen=True)
class UniqueConstraint(Constraint):
    """A primary key.

    Attributes:
        columns: The names of its columns.
    """

    columns: tuple[str, ...]

    @staticmethod
    def primary_key(name: str, columns: Sequence[str]) -> UniqueConstraint:
        """Return a primary key."""
        return UniqueConstraint(name, tuple(columns))

    def get_type(self) -> Constraint.ConstraintType:
        """Return PRIMARY_KEY."""
        return Constraint.ConstraintType.PRIMARY_KEY

    def get_columns(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.columns)

    def get_type_string(self) -> str:
        """Return PRIMARY KEY."""
        return "PRIMARY KEY"

    def as_summary_string(self) -> str:
        """Return the constraint as in CREATE TABLE."""
        columns = ", ".join(map(quoted, self.columns))
        return f"CONSTRAINT {quoted(self.name)} PRIMARY KEY ({columns}) NOT ENFORCED"


class ResolvedSchema:
    """The columns of a table with their types.

    Args:
        columns: The columns in order.
        watermark_specs: The watermark, at most one.
        primary_key: The primary key, if there is one.
    """

    def __init__(
        self,
        columns: Sequence[Column] = (),
        watermark_specs: Sequence[WatermarkSpec] = (),
        primary_key: UniqueConstraint | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.watermark_specs = tuple(watermark_specs)
        self.primary_key = primary_key

    @staticmethod
    def of(columns: Sequence[Column]) -> ResolvedSchema:
        """Return the schema of a list of columns."""
        return ResolvedSchema(columns)

    @staticmethod
    def physical(
        column_names: Sequence[str], column_data_types: Sequence[DataType]
    ) -> ResolvedSchema:
        """Return the schema of physical columns.

        Raises:
            ValidationException: The numbers of names and types differ.
        """
        if len(column_names) != len(column_data_types):
            raise ValidationException(
                f"{len(column_names)} column names have {len(column_data_types)} data types"
            )
        pairs = zip(column_names, column_data_types, strict=True)
        return ResolvedSchema([PhysicalColumn(name, data_type) for name, data_type in pairs])

    def get_column_count(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    def get_columns(self) -> list[Column]:
        """Return the columns."""
        return list(self.columns)

    def get_column_names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.columns]

    def get_column_data_types(self) -> list[DataType]:
        """Return the types of the columns."""
        return [column.data_type for column in self.columns]

    def get_column(self, column_index_or_name: int | str) -> Column | None:
        """Return a column by position or name; None without such a column."""
        if isinstance(column_index_or_name, int):
            at = column_index_or_name
            return self.columns[at] if 0 <= at < len(self.columns) else None
        for column in self.columns:
            if column.name == column_index_or_name:
                return column
        return None

    def get_watermark_specs(self) -> list[WatermarkSpec]:
        """Return a list with the watermark; empty without one."""
        return list(self.watermark_specs)

    def get_primary_key(self) -> UniqueConstraint | None:
        """Return the primary key, or None."""
        return self.primary_key

    def get_primary_key_indexes(self) -> list[int]:
        """Return the positions of the primary key's columns."""
        if self.primary_key is None:
            return []
        names = self.get_column_names()
        return [names.index(name) for name in self.primary_key.columns]

    def to_source_row_data_type(self) -> RowType:
        """Return the type of rows with all columns."""
        return _row_type(self.columns)

    def to_physical_row_data_type(self) -> RowType:
        """Return the type of rows with the physical columns."""
        return _row_type([column for column in self.columns if column.is_physical()])

    def to_sink_row_data_type(self) -> RowType:
        """Return the type of rows with the columns that can be written."""
        return _row_type([column for column in self.columns if column.is_persisted()])

    def declaration(self) -> Schema:
        """Return the corresponding declaration."""
        columns = []
        for column in self.columns:
            if isinstance(column, ComputedColumn):
                declared = DeclaredColumn(column.name, expression=column.text)
            elif isinstance(column, MetadataColumn):
                declared = DeclaredColumn(
                    column.name,
                    column.data_type,
                    metadata_key=column.key,
                    is_virtual=column.virtual,
                )
            else:
                declared = DeclaredColumn(column.name, column.data_type)
            columns.append(replace(declared, comment=column.comment))
        watermarks = [DeclaredWatermark(w.rowtime_attribute, w.text) for w in self.watermark_specs]
        key = self.primary_key
        return Schema(columns, watermarks, None if key is None else (key.name, key.columns))

    def __str__(self) -> str:
        parts = [column.as_summary_string() for column in self.columns]
        parts += [watermark.as_summary_string() for watermark in self.watermark_specs]
        if self.primary_key is not None:
            parts.append(self.primary_key.as_summary_string())
        lines = ",\n".join(f"  {part}" for part in parts)
        return f"(\n{lines}\n)"

    def __repr__(self) -> str:
        return f"<ResolvedSchema {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResolvedSchema) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.columns, self.watermark_specs, self.primary_key))


def _row_type(columns: Sequence[Column]) -> RowType:
    return RowType([RowField(column.name, column.data_type) for column in columns], nullable=False)
