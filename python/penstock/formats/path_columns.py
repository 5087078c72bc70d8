"""Fields derived from a file's path: its name, and its partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from penstock.common.composite_types import RowTypeInfo
from penstock.common.typeinfo import TypeInformation, Types
from penstock.errors import FormatError, InvalidProgramError, WrongArgumentError
from penstock.formats.csv_rows import CsvDialect, text_reader
from penstock.formats.file_format import Batch, DeadLetter, FileFormat, FileRange
from penstock.formats.json_values import named_row
from penstock.formats.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Hive's name of the partition of rows without a value.
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"


class WithPathColumns(FileFormat):
    """Rows of another format with additional fields at the end."""

    def __init__(
        self,
        file_format: FileFormat,
        path_column: str | None,
        partitions: Mapping[str, TypeInformation],
    ) -> None:
        """Add the path, and the values of folders with names of the form ``name=value``.

        Raises:
            InvalidProgramError: The records are not rows, or already have a field of a name.
        """
        given: Any = partitions
        if not isinstance(given, Mapping) or not all(
            isinstance(name, str) and isinstance(kind, TypeInformation)
            for name, kind in given.items()
        ):
            raise WrongArgumentError(
                "add_path_columns: partition_columns must be a dictionary of types, as "
                f"{{'day': Types.STRING()}}, got {partitions!r}"
            )
        if (path_column is None and not partitions) or path_column == "" or "" in partitions:
            raise WrongArgumentError(
                "add_path_columns takes the name of a column for the path, partition_columns or "
                f"both, got {path_column!r} and {partitions!r}"
            )
        if path_column in partitions:
            raise WrongArgumentError(
                f"add_path_columns: {path_column!r} cannot be both path and partition"
            )
        declared = file_format.get_produced_type()
        if not isinstance(declared, RowTypeInfo):
            raise InvalidProgramError(
                f"fields of the path are added to rows, but the records are {declared!r}"
            )
        added = {} if path_column is None else {path_column: Types.STRING()}
        added.update(partitions)
        names = [*declared.get_field_names(), *added]
        self._format = file_format
        self._has_path = path_column is not None
        self._partitions = dict(partitions)
        self._declared = Types.ROW_NAMED(names, [*declared.get_field_types(), *added.values()])
        for kind in partitions.values():
            text_reader(kind, CsvDialect(), ";")
        self.reads_arrow = file_format.reads_arrow
        self.is_compressible = file_format.is_compressible
        self.has_dead_letters = file_format.has_dead_letters
        self.is_transcoded = file_format.is_transcoded

    def can_be_cut(self) -> bool:
        """Return whether files of the other format can be split."""
        return self._format.can_be_cut()

    def get_produced_type(self) -> TypeInformation:
        """Return the row type with the additional fields."""
        return self._declared

    def read(self, file: Any, what: FileRange) -> Iterator[Batch]:
        """Yield the rows of a range."""
        names = self._declared.get_field_names()
        added = [*((what.path,) if self._has_path else ()), *self._values(what.path)]
        for batch in self._format.read(file, what):
            rows = [
                row if type(row) is DeadLetter else named_row(names, [*row, *added])
                for row in batch.elements
            ]
            yield batch._replace(elements=rows)

    def _values(self, path: str) -> list[Any]:
        folders = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
        values = []
        for name, kind in self._partitions.items():
            if name not in folders:
                raise FormatError(f"{path} is not in a folder {name}=…")
            text = unquote(folders[name])
            try:
                read = text_reader(kind, CsvDialect(), ";")
                values.append(None if text == _NO_VALUE else read(text))
            except Misfit as misfit:
                raise FormatError(f"{path}: {misfit.within(name)}") from None
        return values
