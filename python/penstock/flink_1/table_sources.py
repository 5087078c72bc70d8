"""Sources and sinks of tables in PyFlink 1: files of CSV."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from penstock.datastream.refused import refused_class
from penstock.errors import InvalidProgramError
from penstock.flink_1.descriptors import ConnectTableDescriptor, FileSystem, OldCsv, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.table_environment.table_environment import TableEnvironment
    from penstock.table.types import DataType

__all__ = ["CsvTableSink", "CsvTableSource", "TableSink", "TableSource", "WriteMode"]

_INSTEAD: Final = (
    "it is of PyFlink 1; write create_temporary_table(name, TableDescriptor.for_connector("
    "'filesystem').schema(…).option('path', …).format('csv').build()), or the same as CREATE TABLE"
)


class WriteMode(Enum):
    """Treatment of files that exist."""

    NO_OVERWRITE = 0
    OVERWRITE = 1


class _CsvTable:
    """Files of CSV with columns."""

    def __init__(
        self,
        path: str,
        field_names: Sequence[str],
        field_types: Sequence[DataType],
        csv: OldCsv,
    ) -> None:
        self._files = FileSystem().path(path)
        self._csv = csv
        self._schema = Schema()
        for name, kind in zip(field_names, field_types, strict=True):
            self._schema.field(name, kind)

    def register(self, environment: TableEnvironment, name: str) -> None:
        """Create the table under a name."""
        described = ConnectTableDescriptor(environment, self._files)
        described.with_format(self._csv).with_schema(self._schema).create_temporary_table(name)


class CsvTableSource(_CsvTable):
    """Files that are read."""

    def __init__(
        self,
        source_path: str,
        field_names: Sequence[str],
        field_types: Sequence[DataType],
        field_delim: str | None = None,
        line_delim: str | None = None,
        quote_character: str | None = None,
        ignore_first_line: bool | None = None,
        ignore_comments: str | None = None,
        lenient: bool | None = None,
    ) -> None:
        """Create a description.

        Raises:
            InvalidProgramError: The files have a header, or another end of lines than a line feed.
        """
        csv = OldCsv().field_delimiter(field_delim or ",").line_delimiter(line_delim or "\n")
        if quote_character is not None:
            csv.quote_character(quote_character)
        if ignore_first_line:
            csv.ignore_first_line()
        if ignore_comments is not None:
            csv.comment_prefix(ignore_comments)
        if lenient:
            csv.ignore_parse_errors()
        super().__init__(source_path, field_names, field_types, csv)


class CsvTableSink(_CsvTable):
    """A folder of files that are written."""

    def __init__(
        self,
        field_names: Sequence[str],
        field_types: Sequence[DataType],
        path: str,
        field_delimiter: str = ",",
        num_files: int = -1,  # noqa: ARG002 - each subtask has files
        write_mode: WriteMode | None = None,
    ) -> None:
        """Create a description.

        Raises:
            InvalidProgramError: Present files are to be overwritten.
        """
        given: Any = write_mode
        if given is WriteMode.OVERWRITE:
            raise InvalidProgramError(
                "CsvTableSink: write_mode OVERWRITE is not part of penstock: write "
                "table.execute_insert(name, overwrite=True)"
            )
        csv = OldCsv().field_delimiter(field_delimiter)
        super().__init__(path, field_names, field_types, csv)


TableSink = refused_class("TableSink", _INSTEAD)
TableSource = refused_class("TableSource", _INSTEAD)
