"""TableDescriptor and FormatDescriptor: tables as objects, an alternative to CREATE TABLE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.exceptions import ValidationException

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.table.schema.schema import Schema

__all__ = ["FormatDescriptor", "TableDescriptor"]


class TableDescriptor:
    """A table: its schema, connector and options; created by `TableDescriptor.for_connector`."""

    def __init__(
        self,
        schema: Schema | None,
        options: Mapping[str, str],
        partition_keys: Sequence[str] = (),
        comment: str | None = None,
    ) -> None:
        self._schema = schema
        self._options = dict(options)
        self._partition_keys = list(partition_keys)
        self._comment = comment

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor.Builder:
        """Return a builder of a table of a connector, such as ``filesystem``."""
        return TableDescriptor.Builder({"connector": connector})

    def get_schema(self) -> Schema | None:
        """Return the schema, or None."""
        return self._schema

    def get_options(self) -> dict[str, str]:
        """Return the options."""
        return dict(self._options)

    def get_partition_keys(self) -> list[str]:
        """Return the names of the partition columns."""
        return list(self._partition_keys)

    def get_comment(self) -> str | None:
        """Return the comment, or None."""
        return self._comment

    def __str__(self) -> str:
        parts = [str(self._schema) if self._schema is not None else ""]
        if self._comment is not None:
            parts.append(f"COMMENT '{self._comment}'")
        if self._partition_keys:
            parts.append(f"PARTITIONED BY ({', '.join(f'`{k}`' for k in self._partition_keys)})")
        options = ",\n".join(f"  '{key}' = '{value}'" for key, value in self._options.items())
        return "\n".join([part for part in parts if part] + [f"WITH (\n{options}\n)"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableDescriptor) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(str(self))

    class Builder:
        """Builder of a descriptor."""

        def __init__(self, options: Mapping[str, str]) -> None:
            self._schema: Schema | None = None
            self._options = dict(options)
            self._partition_keys: list[str] = []
            self._comment: str | None = None

        def schema(self, schema: Schema) -> TableDescriptor.Builder:
            """Set the schema."""
            self._schema = schema
            return self

        def option(self, key: object, value: object) -> TableDescriptor.Builder:
            """Set an option of the connector.

            Args:
                key: The key, or a ConfigOption.
                value: The value, which is converted to text.
            """
            self._options[_key(key)] = _text(value)
            return self

        def format(
            self, format: str | FormatDescriptor, format_option: object = None
        ) -> TableDescriptor.Builder:
            """Set the format of the records and its options.

            Args:
                format: The name of the format, or a descriptor.
                format_option: The option that names the format: ``format`` by default,
                    ``key.format`` or ``value.format`` where there are two.

            Raises:
                ValidationException: ``format_option`` is not the name of a format option.
            """
            option = "format" if format_option is None else _key(format_option)
            if not option.endswith("format"):
                raise ValidationException(
                    f"The option {option!r} names no format: expected 'format', 'key.format' or "
                    "'value.format'"
                )
            prefix = option.removesuffix("format")
            if isinstance(format, str):
                self._options[option] = format
                return self
            self._options[option] = format.get_format()
            for key, value in format.get_options().items():
                self._options[f"{prefix}{format.get_format()}.{key}"] = value
            return self

        def partitioned_by(self, *partition_keys: str) -> TableDescriptor.Builder:
            """Set the partition columns."""
            self._partition_keys.extend(partition_keys)
            return self

        def comment(self, comment: str) -> TableDescriptor.Builder:
            """Set the comment."""
            self._comment = comment
            return self

        def build(self) -> TableDescriptor:
            """Return the descriptor."""
            return TableDescriptor(self._schema, self._options, self._partition_keys, self._comment)


class FormatDescriptor:
    """A format and its options; created by `FormatDescriptor.for_format`."""

    def __init__(self, format: str, options: Mapping[str, str]) -> None:
        self._format = format
        self._options = dict(options)

    @staticmethod
    def for_format(format: str) -> FormatDescriptor.Builder:
        """Return a builder of a format, such as ``json``."""
        return FormatDescriptor.Builder(format)

    def get_format(self) -> str:
        """Return the name of the format."""
        return self._format

    def get_options(self) -> dict[str, str]:
        """Return the options, without the format's prefix."""
        return dict(self._options)

    def __str__(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self._options.items())
        return f"{self._format}[{{{options}}}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormatDescriptor) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(str(self))

    class Builder:
        """Builder of a descriptor of a format."""

        def __init__(self, format: str) -> None:
            self._format = format
            self._options: dict[str, str] = {}

        def option(self, key: object, value: object) -> FormatDescriptor.Builder:
            """Set an option of the format, without the format's prefix."""
            self._options[_key(key)] = _text(value)
            return self

        def build(self) -> FormatDescriptor:
            """Return the descriptor."""
            return FormatDescriptor(self._format, self._options)


def _key(key: object) -> str:
    named = getattr(key, "key", None)
    if callable(named):
        return str(named())
    return str(key if named is None else named)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
