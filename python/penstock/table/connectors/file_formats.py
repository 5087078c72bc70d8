"""Files of tables: batches of rows from lines or columns, with partitions and metadata."""

from __future__ import annotations

import copy
import datetime
from abc import abstractmethod
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from penstock.errors import FormatError
from penstock.formats.file_format import Batch, BlockCounts, FileFormat, FileRange
from penstock.formats.lines import line_blocks
from penstock.formats.row_batches import RowBatches
from penstock.table import types
from penstock.table.connectors.batches import BATCH_ROWS
from penstock.table.exceptions import ValidationException
from penstock.table.formats import scalar_text
from penstock.table.formats.avro_types import AvroMapping, is_legacy
from penstock.table.plan.nodes import INSERT, ROW_KIND
from penstock.table.types.arrow_types import arrow_array, arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from penstock.common.typeinfo import TypeInformation
    from penstock.table.formats.row_format import KindedRow, RowFormat
    from penstock.table.plan.predicates import Predicate

BULK_FORMATS: Final = ("avro", "orc", "parquet")

#: The number of rows of a Parquet file that are decoded at a time.
_PART_ROWS: Final = 8 * BATCH_ROWS


class TableFileFormat(FileFormat):
    """A file format whose records are batches of a table's rows.

    Args:
        row_type: The table's physical columns.
        stored: The columns that are in the files.

    Attributes:
        with_kinds: Whether batches have a column of row kinds.
        partition_keys: The columns that are stored in folder names, ``key=value``.
        default_partition: The folder's value that represents NULL.
        metadata_keys: The metadata columns after the physical ones.
        predicates: The conditions of the wanted rows.
        skipped: The number of files and pieces of files that were skipped.
    """

    def __init__(self, row_type: types.RowType, stored: types.RowType) -> None:
        self.row_type = row_type
        self.stored = stored
        self.with_kinds = False
        self.partition_keys: tuple[str, ...] = ()
        self.default_partition = ""
        self.metadata_keys: tuple[str, ...] = ()
        self.predicates: tuple[Predicate, ...] = ()
        self.skipped = 0

    def get_produced_type(self) -> TypeInformation | None:
        """Return None: record batches have no declared type of elements."""
        return None

    def with_metadata(self, keys: Sequence[str]) -> TableFileFormat:
        """Return a format whose batches have metadata columns."""
        made = copy.copy(self)
        made.metadata_keys = tuple(keys)
        return made

    def with_columns(self, positions: Sequence[int]) -> TableFileFormat:
        """Return a format that reads only some of the physical columns."""
        del positions
        return self

    def with_predicates(self, predicates: Sequence[Predicate]) -> TableFileFormat | None:
        """Return a format that skips parts without wanted rows; None if it cannot skip any."""
        found = [predicate for predicate in predicates if self._checks(predicate.column)]
        if not found:
            return None
        made = copy.copy(self)
        made.predicates = tuple(found)
        return made

    def _checks(self, column: str) -> bool:
        """Return whether values of a column are known before rows are read."""
        return column in self.partition_keys

    def excludes(self, path: str) -> bool:
        """Return whether the partition of a file has no wanted rows, and count the file if so."""
        wanted = [p for p in self.predicates if p.column in self.partition_keys]
        if not wanted:
            return False
        values = partition_values(path, self.default_partition)
        fields = {field.name: field for field in self.row_type}
        for predicate in wanted:
            value = _partition_value(values, fields[predicate.column], path)
            if value is None or not predicate.may_hold(value, value):
                self.skipped += 1
                return True
        return False

    def completed(
        self, columns: Sequence[pa.Array], length: int, path: str, kinds: Sequence[int] | None
    ) -> pa.RecordBatch:
        """Return the batch of stored columns with those derived from the file's path."""
        import pyarrow as pa

        by_name = dict(zip(self.stored.field_names(), columns, strict=True))
        values = partition_values(path, self.default_partition) if self.partition_keys else {}
        arrays, names = [], []
        for field in self.row_type:
            if field.name in self.partition_keys:
                value = _partition_value(values, field, path)
                arrays.append(arrow_array([value] * length, field.data_type))
            else:
                arrays.append(by_name[field.name])
            names.append(field.name)
        for key in self.metadata_keys:
            value, kind = _metadata_value(key, path)
            arrays.append(arrow_array([value] * length, kind))
            names.append(f"$metadata${key}")
        if self.with_kinds:
            arrays.append(pa.array([INSERT] * length if kinds is None else kinds, pa.int8()))
            names.append(ROW_KIND)
        return pa.RecordBatch.from_arrays(arrays, names=names)


def partition_values(path: str, default_name: str) -> dict[str, str | None]:
    """Return the values in the names of folders above a file, ``key=value``."""
    values: dict[str, str | None] = {}
    for part in PurePosixPath(urlsplit(path).path if "://" in path else path).parent.parts:
        key, equals, value = part.partition("=")
        if equals:
            values[unquote(key)] = None if value == default_name else unquote(value)
    return values


def _partition_value(values: Mapping[str, str | None], field: types.RowField, path: str) -> Any:
    if field.name not in values:
        raise FormatError(f"{path}: no folder above the file is named {field.name}=…")
    given = values[field.name]
    if given is None:
        return None
    try:
        match field.data_type:
            case types.TimestampType():
                return scalar_text.timestamp_of(given)
            case types.LocalZonedTimestampType():
                return scalar_text.instant_of(given)
        return scalar_text.READERS[type(field.data_type)](given, field.data_type)
    except (ValueError, KeyError):
        raise FormatError(
            f"{path}: the folder {field.name}={given} is not a value of {field.data_type}"
        ) from None


def _metadata_value(key: str, path: str) -> tuple[Any, types.DataType]:
    local = Path(path)
    match key:
        case "file.path":
            return path, types.DataTypes.STRING()
        case "file.name":
            return PurePosixPath(path).name, types.DataTypes.STRING()
        case "file.size":
            return _local_file(local, key).st_size, types.DataTypes.BIGINT()
        case "file.modification-time":
            seconds = _local_file(local, key).st_mtime
            moment = datetime.datetime.fromtimestamp(int(seconds * 1000) / 1000, datetime.UTC)
            return moment, types.DataTypes.TIMESTAMP_LTZ(3)
    raise AssertionError(key)


def _local_file(path: Path, key: str) -> Any:
    if "://" in str(path):
        raise FormatError(f"{path}: the metadata column {key} is only available for local files")
    return path.stat()


class LinesOfTable(TableFileFormat):
    """A file with one row, or several changes, per line.

    Args:
        row_type: The table's physical columns.
        stored: The columns that are in the files.
        row_format: The format of a line.
    """

    def __init__(
        self, row_type: types.RowType, stored: types.RowType, row_format: RowFormat
    ) -> None:
        super().__init__(row_type, stored)
        self._row_format = row_format
        self.with_kinds = row_format.kinds_read != frozenset({INSERT})
        self.block_counts: BlockCounts = BlockCounts()

    def explanation(self) -> str | None:
        """Return whether blocks of lines are read as columns, and why not."""
        reason = self._row_format.why_not_in_columns()
        return "blocks of lines as columns" if reason is None else f"line by line, {reason}"

    def can_be_cut(self) -> bool:
        """Return True: a line begins after each line feed."""
        return True

    def with_columns(self, positions: Sequence[int]) -> TableFileFormat:
        """Return a format that parses only some of the physical columns."""
        wanted = {self.row_type.fields[i].name for i in positions if i < len(self.row_type)}
        names = self.stored.field_names()
        made = copy.copy(self)
        made._row_format = self._row_format.with_columns(
            [i for i, name in enumerate(names) if name in wanted]
        )
        return made

    def read(self, file: Any, what: FileRange) -> Iterator[Batch]:
        """Yield a batch for each block of lines."""
        if self.excludes(what.path):
            return
        for position, block in line_blocks(file, what):
            lines = block.split(b"\n")
            if not lines[-1]:
                lines.pop()
            lines = [line.removesuffix(b"\r") for line in lines]
            columns = None
            if self._row_format.why_not_in_columns() is None:
                columns = self._row_format.columns(lines)
            if columns is None:
                self.block_counts.in_rows += 1
                batches = self._batches_of_rows(lines, what.path, position)
            else:
                self.block_counts.in_columns += 1
                batches = self._batches_of_columns(columns, len(lines), what.path)
            yield Batch(position, 0, batches)

    def _batches_of_columns(
        self, columns: Sequence[pa.Array], length: int, path: str
    ) -> list[pa.RecordBatch]:
        """Return batches of as many rows as those of the row reader, so that positions agree."""
        return [
            self.completed(
                [column.slice(start, BATCH_ROWS) for column in columns],
                min(BATCH_ROWS, length - start),
                path,
                None,
            )
            for start in range(0, length, BATCH_ROWS)
        ]

    def _batches_of_rows(
        self, lines: Sequence[bytes], path: str, position: int
    ) -> list[pa.RecordBatch]:
        rows: list[KindedRow] = []
        for number, line in enumerate(lines):
            try:
                rows.extend(self._row_format.decode(line))
            except FormatError as error:
                raise FormatError(
                    f"{path}: line {number + 1} after byte {position}: {error}"
                ) from None
        parts = [rows[i : i + BATCH_ROWS] for i in range(0, len(rows), BATCH_ROWS)]
        return [self._batch(part, path) for part in parts]

    def _batch(self, rows: list[KindedRow], path: str) -> Any:
        columns = [
            arrow_array([row[i] for _, row in rows], field.data_type)
            for i, field in enumerate(self.stored)
        ]
        return self.completed(columns, len(rows), path, [kind for kind, _ in rows])


class ColumnsOfTable(TableFileFormat):
    """A file of columns, piece by piece."""

    is_compressible = False

    def __init__(self, row_type: types.RowType, stored: types.RowType) -> None:
        super().__init__(row_type, stored)
        self._wanted = tuple(range(len(row_type)))

    def can_be_cut(self) -> bool:
        """Return True: a range of a file has the pieces that begin in it."""
        return True

    def with_columns(self, positions: Sequence[int]) -> TableFileFormat:
        """Return a format that reads only some of the physical columns."""
        made = copy.copy(self)
        made._wanted = tuple(positions)
        return made

    def wanted_names(self) -> list[str]:
        """Return the names of the columns that are read from files."""
        names = [self.row_type.fields[i].name for i in self._wanted if i < len(self.row_type)]
        return [name for name in names if name in self.stored.field_names()]

    @abstractmethod
    def parts(self, file: Any, what: FileRange) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the parts of each piece of a range with the piece's position.

        All parts of a piece but the last have a multiple of `BATCH_ROWS` rows.
        """

    def read(self, file: Any, what: FileRange) -> Iterator[Batch]:
        """Yield a batch for each part."""
        if self.excludes(what.path):
            return
        targets = {field.name: (field, arrow_type(field.data_type)) for field in self.stored}
        piece, before = what.start, 0
        for position, part in self.parts(file, what):
            if position != piece:
                piece, before = position, 0
            elements = RowBatches(self._completed(part, targets, what.path), BATCH_ROWS)
            yield Batch(position, before, elements)
            before += len(elements)

    def _completed(self, part: Any, targets: Mapping[str, Any], path: str) -> Any:
        import pyarrow as pa

        columns = []
        names = part.schema.names
        for name, (field, target) in targets.items():
            if name not in names:
                columns.append(self._nulls(part.num_rows, target))
                continue
            column = part.column(name)
            if column.type != target:
                try:
                    column = column.cast(target, safe=False)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise FormatError(
                        f"{path}: column {field.name} of {column.type} cannot be read as "
                        f"{field.data_type}: {error}"
                    ) from None
            columns.append(column)
        return self.completed(columns, part.num_rows, path, None)

    @staticmethod
    @lru_cache(maxsize=16)
    def _nulls(length: int, target: Any) -> Any:
        """Return a column of NULLs, for a column that is not read or not in the file."""
        import pyarrow as pa

        return pa.nulls(length, target)


def _pieces(file: Any, count: int, what: FileRange) -> Iterator[tuple[int, int]]:
    """Yield the number and the position of each piece in a range, as if all had the same size.

    Savepoints of 1.0 contain the number of a piece instead: the positions of all pieces but the
    first are not below the count of pieces.
    """
    size = file.size()
    first = what.start if what.start < count else 0
    for number in range(first, count):
        position = count + number * (size - count) // count
        if number == what.start:
            position = number
        if what.start <= position < what.end:
            yield number, position


class ParquetOfTable(ColumnsOfTable):
    """A Parquet file, by row groups."""

    reads_arrow = True

    def _checks(self, column: str) -> bool:
        """Return True: row groups have bounds of all columns, or none."""
        del column
        return True

    def _is_wanted(self, group: Any) -> bool:
        """Return whether the bounds of a row group's columns allow wanted rows."""
        bounds = {}
        for place in range(group.num_columns):
            column = group.column(place)
            if column.is_stats_set and column.statistics.has_min_max:
                bounds[column.path_in_schema] = column.statistics.min, column.statistics.max
        return all(
            predicate.may_hold(*bounds[predicate.column])
            for predicate in self.predicates
            if predicate.column in bounds
        )

    def parts(self, file: Any, what: FileRange) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the row groups that may have wanted rows, decoded part by part."""
        from pyarrow import parquet

        opened = parquet.ParquetFile(file)
        present = set(opened.schema_arrow.names)
        names = [name for name in self.wanted_names() if name in present]
        for number, position in _pieces(file, opened.num_row_groups, what):
            if self.predicates and not self._is_wanted(opened.metadata.row_group(number)):
                self.skipped += 1
                continue
            for part in opened.iter_batches(
                _PART_ROWS, row_groups=[number], columns=names, use_threads=False
            ):
                yield position, part


class OrcOfTable(ColumnsOfTable):
    """An ORC file, by stripes."""

    reads_arrow = True

    def parts(self, file: Any, what: FileRange) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the stripes."""
        from pyarrow import orc

        opened = orc.ORCFile(file)
        present = set(opened.schema.names)
        names = [name for name in self.wanted_names() if name in present]
        for number, position in _pieces(file, opened.nstripes, what):
            yield position, opened.read_stripe(number, columns=names)


class AvroOfTable(ColumnsOfTable):
    """An Avro file, by blocks; the position of a block is its number.

    Attributes:
        is_legacy: Whether TIMESTAMP is an instant in the files.
    """

    is_legacy = True

    def can_be_cut(self) -> bool:
        """Return False: to find a block, all before it are read."""
        return False

    def parts(self, file: Any, what: FileRange) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the blocks."""
        import pyarrow as pa
        from fastavro import block_reader

        names = self.stored.field_names()
        mapping = AvroMapping(self.stored, is_legacy=self.is_legacy)
        for number, block in enumerate(block_reader(file)):
            if number < what.start:
                continue
            records: list[Any] = list(block)
            rows = [mapping.row(record) for record in records]
            columns = [
                arrow_array([row[i] for row in rows], field.data_type)
                for i, field in enumerate(self.stored)
            ]
            yield number, pa.RecordBatch.from_arrays(columns, names=names)


def bulk_format(
    name: str, row_type: types.RowType, stored: types.RowType, options: Mapping[str, str]
) -> TableFileFormat:
    """Return the format of files of columns.

    Raises:
        ValidationException: An option applies only to writing.
    """
    kinds: dict[str, Any] = {"parquet": ParquetOfTable, "orc": OrcOfTable, "avro": AvroOfTable}
    known = {
        "utc-timezone",
        "compression",
        "codec",
        "timestamp_mapping.legacy",
        "write.int64.timestamp",
    }
    unknown = sorted(key for key in options if key not in known)
    if unknown:
        raise ValidationException(
            f"Unsupported options of format '{name}': {', '.join(unknown)}. Supported options: "
            f"{', '.join(sorted(known))}"
        )
    made: TableFileFormat = kinds[name](row_type, stored)
    if isinstance(made, AvroOfTable):
        made.is_legacy = is_legacy(options)
        AvroMapping(stored, is_legacy=made.is_legacy)
    return made
