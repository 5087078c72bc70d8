"""The descriptors of ``TableEnvironment.connect`` in PyFlink 1, which become options of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from penstock.datastream.refused import refused_class
from penstock.errors import InvalidProgramError
from penstock.table.schema.schema import Schema as TableSchema
from penstock.table.table_descriptor import TableDescriptor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from penstock.table.table_environment.table_environment import TableEnvironment
    from penstock.table.types import DataType

__all__ = [
    "Avro",
    "ConnectTableDescriptor",
    "Csv",
    "CustomConnectorDescriptor",
    "CustomFormatDescriptor",
    "Elasticsearch",
    "FileSystem",
    "HBase",
    "Json",
    "Kafka",
    "OldCsv",
    "Rowtime",
    "Schema",
]

_ANY_TABLE: Final = (
    "it is of PyFlink 1; write create_temporary_table(name, TableDescriptor.for_connector(…)…"
    "build()), or the same as CREATE TABLE"
)
_ROWTIME: Final = f"{_ANY_TABLE}, with watermark(…) in its Schema"
_OF_ZOOKEEPER: Final = "zookeeper."
"""Prefix of properties of Kafka's clients before 0.9, which today's do not know."""


def _refuse(what: str, instead: str) -> NoReturn:
    raise InvalidProgramError(f"{what} of PyFlink 1 is not part of penstock: {instead}")


class Descriptor:
    """Options, by key.

    Attributes:
        kind: The name of the connector or format.
        options: The options, without the format's prefix.
    """

    kind = ""

    def __init__(self) -> None:
        """Start without options."""
        self.options: dict[str, str] = {}

    def _with(self, key: str, value: object) -> Self:
        self.options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self


class FileSystem(Descriptor):
    """Files below a path."""

    kind = "filesystem"

    def path(self, path_str: str) -> Self:
        """Set the path of a file or folder; a written table is a folder."""
        return self._with("path", path_str)


class Kafka(Descriptor):
    """A topic of Kafka."""

    kind = "kafka"

    def version(self, version: str) -> Self:  # noqa: ARG002
        """Change nothing: the client speaks to all versions of Kafka."""
        return self

    def topic(self, topic: str) -> Self:
        """Set the topic."""
        return self._with("topic", topic)

    def property(self, key: str, value: str) -> Self:
        """Set a property of Kafka's client; those of ZooKeeper have no effect."""
        return self if key.startswith(_OF_ZOOKEEPER) else self._with(f"properties.{key}", value)

    def properties(self, property_dict: Mapping[str, str]) -> Self:
        """Set several properties of Kafka's client."""
        for key, value in property_dict.items():
            self.property(key, value)
        return self

    def start_from_earliest(self) -> Self:
        """Start at the first records."""
        return self._with("scan.startup.mode", "earliest-offset")

    def start_from_latest(self) -> Self:
        """Start after the records that exist when the job starts."""
        return self._with("scan.startup.mode", "latest-offset")

    def start_from_group_offsets(self) -> Self:
        """Start at the offsets of the consumer group."""
        return self._with("scan.startup.mode", "group-offsets")

    def start_from_specific_offsets(self, specific_offsets_dict: Mapping[int, int]) -> Self:
        """Start at these offsets, by partition."""
        for partition, offset in specific_offsets_dict.items():
            self.start_from_specific_offset(partition, offset)
        return self

    def start_from_specific_offset(self, partition: int, specific_offset: int) -> Self:
        """Start a partition at an offset."""
        key = "scan.startup.specific-offsets"
        present = f"{self.options[key]};" if key in self.options else ""
        self._with("scan.startup.mode", "specific-offsets")
        return self._with(key, f"{present}partition:{partition},offset:{specific_offset}")


class Csv(Descriptor):
    """Lines of fields."""

    kind = "csv"

    def field_delimiter(self, delimiter: str) -> Self:
        """Set the character between fields."""
        return self._with("field-delimiter", delimiter)

    def line_delimiter(self, delimiter: str) -> Self:
        """Accept a line feed, which ends lines."""
        if delimiter != "\n":
            _refuse(f"line_delimiter({delimiter!r})", "lines end with a line feed")
        return self

    def quote_character(self, quote_character: str) -> Self:
        """Set the character around fields with special characters."""
        self.options.pop("disable-quote-character", None)
        return self._with("quote-character", quote_character)

    def escape_character(self, escape_character: str) -> Self:
        """Set the character in front of special characters."""
        return self._with("escape-character", escape_character)

    def array_element_delimiter(self, delimiter: str) -> Self:
        """Set the text between the elements of an array."""
        return self._with("array-element-delimiter", delimiter)

    def null_literal(self, null_literal: str) -> Self:
        """Set the text that stands for NULL."""
        return self._with("null-literal", null_literal)

    def allow_comments(self) -> Self:
        """Skip lines that begin with ``#``."""
        return self._with("allow-comments", True)

    def ignore_parse_errors(self) -> Self:
        """Skip lines that cannot be read."""
        return self._with("ignore-parse-errors", True)

    def derive_schema(self) -> Self:
        """Change nothing: the fields are always those of the table."""
        return self

    def schema(self, schema_data_type: DataType) -> Self:  # noqa: ARG002
        """Change nothing: the fields are always those of the table."""
        return self


class OldCsv(Csv):
    """Lines of fields, without quotes unless there is a quote character."""

    def __init__(self) -> None:
        """Start without a quote character."""
        super().__init__()
        self._with("disable-quote-character", True)

    def field(self, field_name: str, field_type: DataType) -> Self:  # noqa: ARG002
        """Change nothing: the fields are always those of the table."""
        return self

    def comment_prefix(self, prefix: str) -> Self:
        """Skip lines that begin with ``#``."""
        if prefix != "#":
            _refuse(f"comment_prefix({prefix!r})", "comments begin with '#'")
        return self.allow_comments()

    def ignore_first_line(self) -> NoReturn:
        """Refuse the call.

        Raises:
            InvalidProgramError: Always.
        """
        _refuse("ignore_first_line()", "remove the line, or filter it out in the query")


class Json(Descriptor):
    """Objects of JSON."""

    kind = "json"

    def fail_on_missing_field(self, fail_on_missing_field: bool) -> Self:
        """Set whether an object without one of the fields is an error."""
        return self._with("fail-on-missing-field", fail_on_missing_field)

    def ignore_parse_errors(self, ignore_parse_errors: bool = True) -> Self:
        """Set whether objects that cannot be read are skipped."""
        return self._with("ignore-parse-errors", ignore_parse_errors)

    def derive_schema(self) -> Self:
        """Change nothing: the fields are always those of the table."""
        return self

    def schema(self, schema_data_type: DataType) -> Self:  # noqa: ARG002
        """Change nothing: the fields are always those of the table."""
        return self

    def json_schema(self, json_schema: str) -> Self:  # noqa: ARG002
        """Change nothing: the fields are always those of the table."""
        return self


class Avro(Descriptor):
    """Records of Avro."""

    kind = "avro"

    def avro_schema(self, avro_schema: str) -> Self:  # noqa: ARG002
        """Change nothing: the schema is always that of the table."""
        return self


class Schema:
    """The columns of a table."""

    def __init__(self) -> None:
        """Start without columns."""
        self._columns: list[tuple[str, DataType | str]] = []
        self._computed: dict[str, str] = {}

    def field(self, field_name: str, field_type: DataType | str) -> Self:
        """Add a column."""
        self._columns.append((field_name, field_type))
        return self

    def proctime(self) -> Self:
        """Let the last column be the processing time."""
        self._computed[self._columns[-1][0]] = "PROCTIME()"
        return self

    def rowtime(self, rowtime: object) -> NoReturn:
        """Refuse the call; a program gets no further than its argument, a Rowtime.

        Raises:
            InvalidProgramError: Always.
        """
        _refuse(f"rowtime({rowtime!r})", _ROWTIME)

    def from_origin_field(self, origin_field_name: str) -> Self:
        """Accept the column's own name.

        Raises:
            InvalidProgramError: The column has another name in the records.
        """
        name = self._columns[-1][0]
        if origin_field_name != name:
            _refuse(
                f"from_origin_field({origin_field_name!r})",
                f"name the column {origin_field_name!r}, and rename it to {name!r} in the query",
            )
        return self

    def build(self) -> TableSchema:
        """Return the schema of the table."""
        builder = TableSchema.new_builder()
        for name, kind in self._columns:
            if name in self._computed:
                builder.column_by_expression(name, self._computed[name])
            else:
                builder.column(name, kind)
        return builder.build()


class ConnectTableDescriptor:
    """A table that ``TableEnvironment.connect`` describes."""

    def __init__(self, environment: TableEnvironment, connector: Descriptor) -> None:
        """Create a description without format and columns."""
        self._environment = environment
        self._connector = connector
        self._format: Descriptor | None = None
        self._schema: Schema | None = None

    def with_format(self, format_descriptor: Descriptor) -> Self:
        """Set the format of the records."""
        self._format = format_descriptor
        return self

    def with_schema(self, schema: Schema) -> Self:
        """Set the columns."""
        self._schema = schema
        return self

    def in_append_mode(self) -> Self:
        """Change nothing: the query decides which kinds of changes there are."""
        return self

    in_retract_mode = in_upsert_mode = in_append_mode

    def create_temporary_table(self, path: str) -> None:
        """Create the table under a name.

        Raises:
            ValidationException: The name is taken, or an option is invalid.
        """
        builder = TableDescriptor.for_connector(self._connector.kind)
        described: Any = builder
        for key, value in self._connector.options.items():
            described = described.option(key, value)
        if self._format is not None:
            described = described.format(self._format.kind)
            for key, value in self._format.options.items():
                described = described.option(f"{self._format.kind}.{key}", value)
        if self._schema is not None:
            described = described.schema(self._schema.build())
        self._environment.create_temporary_table(path, described.build())

    register_table_source = register_table_sink = create_temporary_table
    register_table_source_and_sink = create_temporary_table


CustomConnectorDescriptor = refused_class("CustomConnectorDescriptor", _ANY_TABLE)
CustomFormatDescriptor = refused_class("CustomFormatDescriptor", _ANY_TABLE)
Elasticsearch = refused_class("Elasticsearch", _ANY_TABLE)
HBase = refused_class("HBase", _ANY_TABLE)
Rowtime = refused_class("Rowtime", _ROWTIME)
