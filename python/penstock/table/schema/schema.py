"""Schema: the columns, watermark and primary key of a table, as declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.table.exceptions import ValidationException
from penstock.table.types import DataType, RowType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.expression.expression import Expression
    from penstock.table.schema.resolved_schema import ResolvedSchema


@dataclass(frozen=True)
class DeclaredColumn:
    """A column as declared.

    Attributes:
        name: The name.
        data_type: The type, or its text in SQL; None for a computed column.
        expression: The SQL text or the expression of a computed column; None for others.
        metadata_key: The connector's key of a metadata column; None for other columns.
        is_virtual: Whether a metadata column is read-only.
        comment: The comment, or None.
    """

    name: str
    data_type: DataType | str | None = None
    expression: str | Expression[Any] | None = None
    metadata_key: str | None = None
    is_virtual: bool = False
    comment: str | None = None

    @property
    def is_computed(self) -> bool:
        """True if the column is computed from others."""
        return self.expression is not None

    @property
    def is_metadata(self) -> bool:
        """True if the connector provides the column besides the record's fields."""
        return self.metadata_key is not None

    @property
    def is_physical(self) -> bool:
        """True if the column is a field of the records."""
        return not self.is_computed and not self.is_metadata

    def __str__(self) -> str:
        name = f"`{self.name}`"
        if self.is_computed:
            text = f"{name} AS [{self.expression}]"
        else:
            kind = f"[{self.data_type}]" if isinstance(self.data_type, str) else self.data_type
            text = f"{name} {kind}"
            if self.is_metadata:
                text += " METADATA"
                if self.metadata_key != self.name:
                    text += f" FROM '{self.metadata_key}'"
                if self.is_virtual:
                    text += " VIRTUAL"
        return text if self.comment is None else f"{text} COMMENT '{self.comment}'"


@dataclass(frozen=True)
class DeclaredWatermark:
    """The watermark of an event-time column, as declared.

    Attributes:
        column: The name of the column.
        expression: The watermark of a row, as SQL text or an expression.
    """

    column: str
    expression: str | Expression[Any]

    def __str__(self) -> str:
        return f"WATERMARK FOR `{self.column}` AS [{self.expression}]"


PrimaryKey: TypeAlias = "tuple[str, tuple[str, ...]]"
"""The name of the constraint and the names of its columns."""


class Schema:
    """The declaration of a table's columns; created by `Schema.new_builder`.

    Attributes:
        columns: The columns in order.
        watermark_specs: The watermark, at most one.
        primary_key: The name of the constraint and its columns; None without one.
    """

    def __init__(
        self,
        columns: Sequence[DeclaredColumn] = (),
        watermark_specs: Sequence[DeclaredWatermark] = (),
        primary_key: PrimaryKey | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.watermark_specs = tuple(watermark_specs)
        self.primary_key = primary_key

    @staticmethod
    def new_builder() -> Schema.Builder:
        """Return a builder of a schema."""
        return Schema.Builder()

    def __str__(self) -> str:
        parts = [*map(str, self.columns), *map(str, self.watermark_specs)]
        if self.primary_key is not None:
            name, columns = self.primary_key
            quoted = ", ".join(f"`{column}`" for column in columns)
            parts.append(f"CONSTRAINT `{name}` PRIMARY KEY ({quoted}) NOT ENFORCED")
        lines = ",\n".join(f"  {part}" for part in parts)
        return f"(\n{lines}\n)"

    def __repr__(self) -> str:
        return f"<Schema {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    class Builder:
        """Builder of a schema."""

        def __init__(self) -> None:
            self._columns: list[DeclaredColumn] = []
            self._watermarks: list[DeclaredWatermark] = []
            self._primary_key: PrimaryKey | None = None

        def from_schema(self, unresolved_schema: Schema) -> Schema.Builder:
            """Copy all parts of a schema."""
            self._columns.extend(unresolved_schema.columns)
            self._watermarks.extend(unresolved_schema.watermark_specs)
            if unresolved_schema.primary_key is not None:
                self._primary_key = unresolved_schema.primary_key
            return self

        def from_resolved_schema(self, resolved_schema: ResolvedSchema) -> Schema.Builder:
            """Copy all parts of a resolved schema."""
            return self.from_schema(resolved_schema.declaration())

        def from_row_data_type(self, data_type: DataType) -> Schema.Builder:
            """Append a column for each field of a ROW.

            Raises:
                ValidationException: The type is not a ROW.
            """
            if not isinstance(data_type, RowType):
                raise ValidationException(f"Expected a ROW type, got {data_type}")
            return self.from_fields(data_type.field_names(), data_type.field_types())

        def from_fields(
            self, field_names: Sequence[str], field_data_types: Sequence[DataType]
        ) -> Schema.Builder:
            """Append columns.

            Raises:
                ValidationException: The numbers of names and types differ.
            """
            if len(field_names) != len(field_data_types):
                raise ValidationException(
                    f"{len(field_names)} field names have {len(field_data_types)} data types"
                )
            for name, data_type in zip(field_names, field_data_types, strict=True):
                self.column(name, data_type)
            return self

        def column(self, column_name: str, data_type: str | DataType) -> Schema.Builder:
            """Append a physical column.

            Args:
                column_name: The name.
                data_type: The type, or its text in SQL.
            """
            self._columns.append(DeclaredColumn(column_name, data_type))
            return self

        def column_by_expression(
            self, column_name: str, expr: str | Expression[Any]
        ) -> Schema.Builder:
            """Append a column that is computed from others.

            Args:
                column_name: The name.
                expr: The expression, or its text in SQL.
            """
            self._columns.append(DeclaredColumn(column_name, expression=expr))
            return self

        def column_by_metadata(
            self,
            column_name: str,
            data_type: str | DataType,
            metadata_key: str | None = None,
            is_virtual: bool = False,
        ) -> Schema.Builder:
            """Append a column that the connector provides besides the record's fields.

            Args:
                column_name: The name.
                data_type: The type, or its text in SQL.
                metadata_key: The connector's key; the column's name by default.
                is_virtual: Whether the column is read-only.
            """
            key = column_name if metadata_key is None else metadata_key
            column = DeclaredColumn(column_name, data_type, metadata_key=key, is_virtual=is_virtual)
            self._columns.append(column)
            return self

        def watermark(
            self, column_name: str, watermark_expr: str | Expression[Any]
        ) -> Schema.Builder:
            """Make a column the event time.

            Args:
                column_name: A TIMESTAMP or TIMESTAMP_LTZ column of at most 3 fractional digits.
                watermark_expr: The watermark of a row, or its text in SQL, such as
                    ``ts - INTERVAL '5' SECOND`` or ``SOURCE_WATERMARK()``.
            """
            self._watermarks.append(DeclaredWatermark(column_name, watermark_expr))
            return self

        def primary_key(self, *column_names: str) -> Schema.Builder:
            """Declare the columns that identify a row; the engine relies on their uniqueness.

            Raises:
                ValidationException: There are no columns, or a primary key was declared before.
            """
            return self.primary_key_named(f"PK_{'_'.join(column_names)}", *column_names)

        def primary_key_named(self, constraint_name: str, *column_names: str) -> Schema.Builder:
            """Declare the primary key and the name of its constraint.

            Raises:
                ValidationException: There are no columns, or a primary key was declared before.
            """
            if self._primary_key is not None:
                raise ValidationException("A schema has at most one primary key")
            if not column_names:
                raise ValidationException("A primary key has at least one column")
            self._primary_key = constraint_name, tuple(column_names)
            return self

        def build(self) -> Schema:
            """Return the schema."""
            return Schema(self._columns, self._watermarks, self._primary_key)
