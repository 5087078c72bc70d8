"""Connectors of streams, as tables: conversions between their rows and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.row_kind import RowKind
from penstock.common.types import Row
from penstock.common.values.instants import datetime_of
from penstock.errors import SourceError
from penstock.table import types
from penstock.table.connectors.batches import rows_of
from penstock.table.connectors.changelog_normalize import normalized
from penstock.table.connectors.gathered_rows import GatheredRows
from penstock.table.connectors.interfaces import (
    ALL_KINDS,
    INSERT_ONLY,
    UPSERT_KINDS,
    TableSink,
    TableSource,
    stream_of,
)
from penstock.table.connectors.record_types import batch_type
from penstock.table.plan.nodes import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.table.types.arrow_types import arrow_schema
from penstock.table.types.stream_types import type_info_of

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.common.composite_types import RowTypeInfo
    from penstock.connectors.base import Source
    from penstock.graph.transformations import Transformation
    from penstock.table.connectors.interfaces import ExecutionContext
    from penstock.table.formats.row_format import KindedRow


class RowSource(TableSource):
    """Reads a source whose records are rows with kinds, or other records with fields in order.

    Args:
        name: The name of the operator.
        source: The source.
        row_type: The physical columns.
        kinds: The possible row kinds.
        is_bounded: Whether the source is bounded.
        key: The positions of the primary key if the rows are upserts by it; otherwise empty.
        constants: The metadata columns with a constant value, by key.
        times: The metadata columns with the time of the record.
        refusal: The error for an update without an old row; None if it is valid.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        row_type: types.RowType,
        *,
        kinds: frozenset[int] = INSERT_ONLY,
        is_bounded: bool = True,
        key: Sequence[int] = (),
        constants: Mapping[str, str] | None = None,
        times: Sequence[str] = (),
        refusal: str | None = None,
    ) -> None:
        self._name = name
        self._refusal = refusal
        self._source = source
        self._row_type = row_type
        self._key = list(key)
        self._constants = dict(constants or {})
        self._keys: tuple[str, ...] = ()
        self.kinds = ALL_KINDS if key else kinds
        self.is_bounded = is_bounded
        text = types.DataTypes.STRING().not_null()
        moment = types.DataTypes.TIMESTAMP_LTZ(3).not_null()
        self.metadata = {**dict.fromkeys(self._constants, text), **dict.fromkeys(times, moment)}

    def with_metadata(self, keys: Sequence[str]) -> TableSource:
        """Return a source that reads metadata columns after the physical ones."""
        import copy

        made: RowSource = copy.copy(self)
        made._keys = tuple(keys)
        return made

    def transformation(self, context: ExecutionContext) -> Transformation:
        """Return the operators that read rows and convert them to batches."""
        from penstock.common.watermark_strategy import WatermarkStrategy

        stream: Any = context.environment.from_source(
            self._source, WatermarkStrategy.no_watermarks(), self._name
        )
        if self._key:
            stream = normalized(stream.filter(_is_no_old_row), self._key, context.state_ttl_ms)
        fields = [*self._row_type.fields]
        fields += [types.RowField(f"$metadata${key}", self.metadata[key]) for key in self._keys]
        rows = SourceRows(
            types.RowType(fields),
            [self._constants.get(key) for key in self._keys],
            with_kinds=self.kinds != INSERT_ONLY,
            refusal=None if self._key else self._refusal,
        )
        made: Transformation = stream.transform(
            f"{self._name} rows", batch_type(None), rows
        ).transformation
        return made


class SourceRows(GatheredRows):
    """Builds the batches of a source.

    Args:
        row_type: The type of the batches, metadata last.
        metadata: The value of each metadata column; None for the time of the record.
        with_kinds: Whether batches have a column of row kinds.
        refusal: The error for an update without an old row; None if it is valid.
    """

    def __init__(
        self,
        row_type: types.RowType,
        metadata: Sequence[str | None],
        *,
        with_kinds: bool,
        refusal: str | None,
    ) -> None:
        super().__init__(row_type, with_kinds=with_kinds)
        self._refusal = refusal
        #: The kind of the previous row; a restored job may start after the old row of an update.
        self._before = UPDATE_BEFORE
        self._metadata = list(metadata)
        self._has_kinds = with_kinds

    def row_of(self, value: Any, timestamp: int | None) -> KindedRow:
        """Return the kind and the values of a row.

        Raises:
            SourceError: It is the new row of an update without the old one.
        """
        kind = value.get_row_kind().value if self._has_kinds else INSERT
        if kind == UPDATE_AFTER and self._before != UPDATE_BEFORE and self._refusal is not None:
            raise SourceError(self._refusal)
        self._before = kind
        row = list(value)
        row.extend(
            _moment(timestamp) if constant is None else constant for constant in self._metadata
        )
        return kind, row


def _moment(timestamp_ms: int | None) -> datetime.datetime:
    """Return the time of a record; the epoch for rows of a snapshot, which have none."""
    return datetime_of((timestamp_ms or 0) * 1000)


def _is_no_old_row(row: Any) -> bool:
    return row.get_row_kind() is not RowKind.UPDATE_BEFORE


class RowSink(TableSink):
    """Writes into a sink that accepts rows: tuples, or change rows if there is a key.

    Args:
        name: The name of the operator.
        sink: The sink.
        row_type: The columns.
        parallelism: The number of subtasks; None for the query's.
        key: The positions of the primary key; empty for an append-only table.
    """

    def __init__(
        self,
        name: str,
        sink: Any,
        row_type: types.RowType,
        parallelism: int | None = None,
        key: Sequence[int] = (),
    ) -> None:
        self._name = name
        self._sink = sink
        self._row_type = row_type
        self.parallelism = parallelism
        self.upsert_key = tuple(key)
        self.kinds = UPSERT_KINDS if key else INSERT_ONLY

    def consume(self, transformation: Transformation, context: ExecutionContext) -> None:
        """Add the operators that write the rows."""
        row_type = self._row_type

        def rows(batch: Any) -> Iterator[tuple[Any, ...]]:
            return (row for _, row in rows_of(batch, row_type))

        def changes(batch: Any) -> Iterator[Row]:
            return (Row.of_kind(RowKind(kind), *row) for kind, row in rows_of(batch, row_type))

        stream = stream_of(transformation, context).flat_map(changes if self.upsert_key else rows)
        sink = stream.sink_to(self._sink).name(self._name)
        if self.parallelism is not None:
            stream.set_parallelism(self.parallelism)
            sink.set_parallelism(self.parallelism)


class ChangeSink(TableSink):
    """Writes into a sink that accepts record batches, by a key if there is one.

    Args:
        name: The name of the operator.
        sink: The sink.
        key: The positions of the primary key; empty for an append-only table.
        parallelism: The number of subtasks; None for the query's.
    """

    def __init__(self, name: str, sink: Any, key: Sequence[int], parallelism: int | None) -> None:
        self._name = name
        self._sink = sink
        self.upsert_key = tuple(key)
        self.kinds = UPSERT_KINDS if key else INSERT_ONLY
        self.parallelism = parallelism

    def consume(self, transformation: Transformation, context: ExecutionContext) -> None:
        """Add the operator that writes the batches."""
        sink = stream_of(transformation, context).sink_to(self._sink).name(self._name)
        if self.parallelism is not None:
            sink.set_parallelism(self.parallelism)


def stream_row_type(row_type: types.RowType) -> RowTypeInfo:
    """Return the type of a stream of such rows, in which TIMESTAMP_LTZ is an instant."""
    from penstock.common.typeinfo import Types

    kinds = [
        Types.INSTANT() if isinstance(kind, types.LocalZonedTimestampType) else type_info_of(kind)
        for kind in row_type.field_types()
    ]
    made: RowTypeInfo = Types.ROW_NAMED(row_type.field_names(), kinds)
    return made


def stored_schema(row_type: types.RowType) -> Any:
    """Return the Arrow schema of a table in a lake, with times in microseconds."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field(
                field.name,
                pa.timestamp("us", field.type.tz)
                if pa.types.is_timestamp(field.type)
                else field.type,
                kind.is_nullable,
            )
            for field, kind in zip(arrow_schema(row_type), row_type.field_types(), strict=True)
        ]
    )
