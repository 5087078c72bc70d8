"""TableSchema: the names and types of a table's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.exceptions import ValidationException
from penstock.table.types import RowField, RowType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.schema.resolved_schema import ResolvedSchema
    from penstock.table.types import DataType

__all__ = ["TableSchema"]


def _shown(types: Sequence[DataType], resolved: ResolvedSchema) -> list[str]:
    """Return the lines of columns, watermark and key."""
    lines = []
    for kind, column in zip(types, resolved.columns, strict=True):
        parts = [f"{column.name}: {kind}"]
        parts.extend(
            f"*{attribute.upper()}*"
            for attribute in ("rowtime", "proctime")
            if getattr(column.data_type, f"is_{attribute}", False)
        )
        extras = column.explain_extras()
        lines.append(" ".join(parts if extras is None else [*parts, extras]))
    for mark in resolved.watermark_specs:
        typed = getattr(mark.watermark_expression, "type", None)
        kind_text = "" if typed is None else f": {typed.nullable()}"
        lines.append(f"WATERMARK FOR {mark.rowtime_attribute}{kind_text} AS {mark.text}")
    key = resolved.primary_key
    if key is not None:
        lines.append(f"CONSTRAINT {key.name} PRIMARY KEY ({', '.join(key.columns)})")
    return lines


class TableSchema:
    """The names and types of columns, in order.

    Args:
        field_names: The names.
        data_types: The types, one for each name.
        resolved: The columns with what else is known of them, to be shown.

    Raises:
        ValidationException: The numbers of names and types differ.
    """

    def __init__(
        self,
        field_names: Sequence[str] | None = None,
        data_types: Sequence[DataType] | None = None,
        resolved: ResolvedSchema | None = None,
    ) -> None:
        self._names = list(field_names or ())
        self._types = list(data_types or ())
        self._resolved = resolved
        if len(self._names) != len(self._types):
            raise ValidationException(
                f"A schema of {len(self._names)} names has {len(self._types)} types"
            )

    def copy(self) -> TableSchema:
        """Return an equal schema."""
        return TableSchema(self._names, self._types, self._resolved)

    def get_field_data_types(self) -> list[DataType]:
        """Return the types of all columns."""
        return list(self._types)

    def get_field_data_type(self, field: int | str) -> DataType | None:
        """Return the type of a column, by position or name; None without such a column.

        Raises:
            TypeError: The argument is neither.
        """
        if not isinstance(field, (int, str)):
            raise TypeError(f"Expected field index or field name, got {type(field).__name__}")
        at = self._names.index(field) if field in self._names else field
        if not isinstance(at, int) or not 0 <= at < len(self._types):
            return None
        return self._types[at]

    def get_field_count(self) -> int:
        """Return the number of columns."""
        return len(self._names)

    def get_field_names(self) -> list[str]:
        """Return the names of all columns."""
        return list(self._names)

    def get_field_name(self, field_index: int) -> str | None:
        """Return the name of a column by position; None without such a column."""
        return self._names[field_index] if 0 <= field_index < len(self._names) else None

    def to_row_data_type(self) -> RowType:
        """Return the type of the table's rows."""
        pairs = zip(self._names, self._types, strict=True)
        return RowType([RowField(name, data_type) for name, data_type in pairs])

    def __repr__(self) -> str:
        pairs = zip(self._names, self._types, strict=True)
        lines = [f"{name}: {data_type}" for name, data_type in pairs]
        if self._resolved is not None:
            lines = _shown(self._types, self._resolved)
        return "\n".join(["root", *(f" |-- {line}" for line in lines), ""])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TableSchema):
            return False
        return (self._names, self._types) == (other._names, other._types)

    def __hash__(self) -> int:
        return hash((tuple(self._names), tuple(self._types)))

    @classmethod
    def builder(cls) -> TableSchema.Builder:
        """Return a builder."""
        return TableSchema.Builder()

    class Builder:
        """Builder of a schema, column by column."""

        def __init__(self) -> None:
            self._names: list[str] = []
            self._types: list[DataType] = []

        def field(self, name: str, data_type: DataType) -> TableSchema.Builder:
            """Append a column."""
            self._names.append(name)
            self._types.append(data_type)
            return self

        def build(self) -> TableSchema:
            """Return the schema."""
            return TableSchema(self._names, self._types)
