"""The formats of tables by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.table.exceptions import ValidationException
from penstock.table.options.connector_options import read_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.table.formats.row_format import RowFormat
    from penstock.table.types import RowType

_FORMATS: Final = {
    "avro": "avro.AvroFormat",
    "avro-confluent": "avro.AvroConfluentFormat",
    "debezium-avro-confluent": "avro.DebeziumAvroConfluentFormat",
    "csv": "csv.CsvFormat",
    "json": "json.JsonFormat",
    "raw": "raw.RawFormat",
    "debezium-json": "changelog_json.DebeziumJsonFormat",
    "canal-json": "changelog_json.CanalJsonFormat",
    "maxwell-json": "changelog_json.MaxwellJsonFormat",
    "ogg-json": "changelog_json.OggJsonFormat",
}
"""The modules and classes of formats for single rows."""


def row_format_names() -> list[str]:
    """Return the names of all formats for single rows."""
    return sorted(_FORMATS)


def row_format_class(name: str, connector: str) -> type[RowFormat]:
    """Return the class of a format.

    Raises:
        ValidationException: No format has the name; the message lists the existing ones.
    """
    path = _FORMATS.get(name)
    if path is None:
        raise ValidationException(
            f"Connector '{connector}' has no format '{name}'. Supported formats: "
            f"{', '.join(row_format_names())}"
        )
    module, _, attribute = path.partition(".")
    found: type[RowFormat] = getattr(import_module(f"penstock.table.formats.{module}"), attribute)
    return found


def create_row_format(
    name: str, connector: str, row_type: RowType, options: Mapping[str, str]
) -> RowFormat:
    """Return a format for rows of a type.

    Args:
        name: The name of the format.
        connector: The name of the connector, for errors.
        row_type: The type of the rows.
        options: The options of the table with the format's prefix, which is removed.

    Raises:
        ValidationException: No format has the name, an option is wrong, or the format does
            not support a column's type.
    """
    kind = row_format_class(name, connector)
    values: dict[str, Any] = read_options(f"format '{name}'", options, kind.options)
    return kind(row_type, values)
