"""Columnar files: Parquet, ORC and Arrow."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from penstock.columns.batch_schema import inexact_field
from penstock.columns.column_batch import batch_of_columns
from penstock.common.basic_types import VALUE
from penstock.common.composite_types import RowTypeInfo
from penstock.common.types import Row, rows_of_columns
from penstock.errors import (
    FormatError,
    PenstockError,
    SourceError,
    WrongArgumentError,
)
from penstock.formats.arrow_columns import ColumnMisfit, column_values, whole_numbers
from penstock.formats.arrow_types import arrow_library, row_type_of
from penstock.formats.file_format import Batch, BulkFormat, FileRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    from penstock.common.typeinfo import TypeInformation


#: Default number of rows that are decoded at a time.
DEFAULT_BATCH_SIZE: Final = 2048

#: The same for rows that stay columns: larger, to amortise the fixed cost of a kernel.
_COLUMN_BATCH_SIZE: Final = 16384


class ColumnarFormat(BulkFormat[VALUE]):
    """Rows of some columns of a file that consists of pieces: row groups, stripes, batches.

    A range of the file has the pieces whose numbers lie in it, as if all pieces had the same size.
    Columns are found by the names of the fields, in any order, and cast to their types.
    """

    reads_arrow = True
    is_compressible = False

    def __init__(
        self,
        declared: TypeInformation,
        batch_size: int,
        *,
        column: str | None = None,
        is_case_sensitive: bool = True,
        is_utc: bool = False,
    ) -> None:
        """Create a format for rows of a type, or for the values of one column.

        Args:
            declared: The type of the rows, or of the column's values.
            batch_size: Number of rows to decode at a time.
            column: The column whose values are the records.
            is_case_sensitive: Whether the names of columns must equal those of the fields in case.
            is_utc: Whether timestamps without a zone may be read as instants in UTC.

        Raises:
            InvalidProgramError: The size is not positive.
            DependencyError: pyarrow is not installed.
        """
        super().__init__()
        arrow_library(type(self).__name__)
        given: Any = batch_size
        if not isinstance(given, int) or isinstance(given, bool) or given <= 0:
            raise WrongArgumentError(
                f"{type(self).__name__}: batch_size must be a positive integer, got {batch_size!r}"
            )
        sensitive: Any = is_case_sensitive
        if not isinstance(sensitive, bool):
            raise WrongArgumentError(
                f"{type(self).__name__}: is_case_sensitive must be True or False, got {sensitive!r}"
            )
        named: Any = column
        if named is not None and (not isinstance(named, str) or not named):
            raise WrongArgumentError(
                f"{type(self).__name__}: column must be the name of a column, got {column!r}"
            )
        self._declared = declared
        self._batch_size = batch_size
        self._column = column
        self._is_case_sensitive = is_case_sensitive
        self._is_utc = is_utc
        self._has_columns = False

    def in_columns(self) -> Self:
        """Return a format that reads batches of columns if every field has an exact column."""
        if self._column is not None or inexact_field(self._declared) is not None:
            return self
        found = copy.copy(self)
        found._has_columns = True
        if self._batch_size == DEFAULT_BATCH_SIZE:
            found._batch_size = _COLUMN_BATCH_SIZE
        return found

    def can_be_cut(self) -> bool:
        """Return True: files are read by pieces."""
        return True

    def get_produced_type(self) -> TypeInformation:
        """Return the declared type."""
        return self._declared

    def read(self, file: Any, what: FileRange) -> Iterator[Batch]:
        """Yield the rows of the pieces in a range."""
        pa = arrow_library(type(self).__name__)
        try:
            yield from self._read(file, what)
        except PenstockError:
            raise
        except pa.ArrowInvalid as error:
            raise FormatError(f"{what.path}: {error}") from None
        except OSError as error:  # also Arrow's for bytes that are not ORC, and those of stores
            raise SourceError(f"{what.path} cannot be read: {error}") from error

    def _read(self, file: Any, what: FileRange) -> Iterator[Batch]:
        size = max(1, file.size())
        opened = self._open(file)
        names, pieces = self._names(opened), self._pieces(opened)
        columns = [self._found(wanted, names, what.path) for wanted in self._wanted()]
        for number in range(pieces):
            position = number * size // pieces
            if not what.start <= position < what.end:
                continue
            before = 0
            for batch in self._batches(opened, number, columns):
                elements = self._elements(batch, columns, what.path, number, before)
                yield Batch(position, before, elements)
                before += len(elements)

    @abstractmethod
    def _open(self, file: Any) -> Any:
        """Open a file."""

    @abstractmethod
    def _names(self, opened: Any) -> list[str]:
        """Return the names of its columns."""

    @abstractmethod
    def _pieces(self, opened: Any) -> int:
        """Return the number of pieces."""

    @abstractmethod
    def _batches(self, opened: Any, piece: int, columns: list[str]) -> Iterable[Any]:
        """Yield the batches of a piece, with at least these columns."""

    def _wanted(self) -> list[str]:
        if self._column is not None:
            return [self._column]
        assert isinstance(self._declared, RowTypeInfo)
        return self._declared.get_field_names()

    def _found(self, wanted: str, names: list[str], path: str) -> str:
        if wanted in names:
            return wanted
        if not self._is_case_sensitive:
            near = [name for name in names if name.lower() == wanted.lower()]
            if len(near) == 1:
                return near[0]
        raise FormatError(f"{path} has no column {wanted!r}, it has {names}")

    def _elements(self, batch: Any, columns: list[str], path: str, piece: int, before: int) -> Any:
        declared = self._declared
        is_row = self._column is None and isinstance(declared, RowTypeInfo)
        types = declared.get_field_types() if is_row else [declared]  # type: ignore[attr-defined]
        found: list[list[Any]] = []
        where = f"{path}, rows from {before} of piece {piece}"
        if self._has_columns:
            try:
                made = batch_of_columns([batch.column(name) for name in columns], declared)
            except ColumnMisfit as misfit:
                raise FormatError(f"{where}: {misfit}") from None
            if made is not None:
                return made
        for name, kind in zip(columns, types, strict=True):
            try:
                numbers = None if is_row else whole_numbers(batch.column(name), kind)
                if numbers is not None:
                    return numbers
                found.append(column_values(batch.column(name), kind, is_utc=self._is_utc))
            except ColumnMisfit as misfit:
                raise FormatError(f"{where}: {misfit.within(name)}") from None
        if not is_row:
            return found[0]
        return rows_of_columns(self._wanted(), found)


class ParquetFormat(ColumnarFormat[VALUE]):
    """Parquet: its pieces are row groups."""

    def _open(self, file: Any) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetFile(file)

    def _names(self, opened: Any) -> list[str]:
        return list(opened.schema_arrow.names)

    def _pieces(self, opened: Any) -> int:
        return int(opened.num_row_groups)

    def _batches(self, opened: Any, piece: int, columns: list[str]) -> Iterable[Any]:
        found: Iterable[Any] = opened.iter_batches(
            self._batch_size, row_groups=[piece], columns=columns, use_threads=False
        )
        return found


class OrcFormat(ColumnarFormat[VALUE]):
    """ORC: its pieces are stripes."""

    def _open(self, file: Any) -> Any:
        from pyarrow import orc

        return orc.ORCFile(file)

    def _names(self, opened: Any) -> list[str]:
        return list(opened.schema.names)

    def _pieces(self, opened: Any) -> int:
        return int(opened.nstripes)

    def _batches(self, opened: Any, piece: int, columns: list[str]) -> Iterable[Any]:
        return _slices(opened.read_stripe(piece, columns), self._batch_size)


class ArrowFormat(ColumnarFormat[VALUE]):
    """Arrow's IPC files, also called Feather: their pieces are record batches."""

    def _open(self, file: Any) -> Any:
        return arrow_library("Arrow").ipc.open_file(file)

    def _names(self, opened: Any) -> list[str]:
        return list(opened.schema.names)

    def _pieces(self, opened: Any) -> int:
        return int(opened.num_record_batches)

    def _batches(self, opened: Any, piece: int, columns: list[str]) -> Iterable[Any]:
        return _slices(opened.get_batch(piece).select(columns), self._batch_size)


def _slices(batch: Any, size: int) -> Iterator[Any]:
    return (batch.slice(start, size) for start in range(0, batch.num_rows, size))


class RowsOfColumns(ColumnarFormat[Row]):
    """Base of formats whose records are always rows."""

    def __init__(
        self, row_type: Any, batch_size: int = DEFAULT_BATCH_SIZE, is_case_sensitive: bool = True
    ) -> None:
        """Create a format for rows of a type.

        Args:
            row_type: A type, as ``Types.ROW_NAMED``, or an Arrow schema.
            batch_size: Number of rows to decode at a time.
            is_case_sensitive: Whether the names of columns must equal those of the fields in case.

        Raises:
            InvalidProgramError: The row type is invalid, or the size is not positive.
            DependencyError: pyarrow is not installed.
        """
        super().__init__(
            row_type_of(row_type, type(self).__name__),
            batch_size,
            is_case_sensitive=is_case_sensitive,
        )
