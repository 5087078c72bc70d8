"""Conversions between streams and tables, with types, row kinds, timestamps and watermarks."""

from __future__ import annotations

import copy
import datetime
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.common.record_types import as_row_type
from penstock.common.row_kind import RowKind
from penstock.common.types import Row
from penstock.datastream.data_stream import DataStream
from penstock.datastream.operators import OneInputStreamOperator
from penstock.errors import WrongArgumentError
from penstock.table import types
from penstock.table.connectors.batches import kinds_of, rows_of
from penstock.table.connectors.changelog_normalize import normalized
from penstock.table.connectors.gathered_rows import GatheredRows
from penstock.table.connectors.interfaces import ALL_KINDS, INSERT_ONLY, TableSource
from penstock.table.connectors.record_types import batch_type
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.expression.expression import Expression
from penstock.table.expressions import col
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.changelog import unread_by_tables
from penstock.table.plan.schema import Field
from penstock.table.plan.schema import Schema as PlanSchema
from penstock.table.plan.translation import translate_optimized
from penstock.table.planning.job import check_changes, check_times, row_type_of
from penstock.table.planning.planner import scan_node
from penstock.table.planning.pruning import pruned
from penstock.table.schema.resolution import resolve_schema
from penstock.table.schema.resolved_schema import MetadataColumn
from penstock.table.schema.schema import DeclaredColumn, Schema
from penstock.table.statements.insertion import sink_node
from penstock.table.table.table import Table, check_unique
from penstock.table.types import DataTypes, RowField, RowType
from penstock.table.types.arrow_types import field_value
from penstock.table.types.stream_types import (
    as_of_record,
    data_type_of,
    type_info_of,
    with_instants,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.common.typeinfo import TypeInformation
    from penstock.graph.transformations import Transformation
    from penstock.table.connectors.interfaces import ExecutionContext
    from penstock.table.formats.row_format import KindedRow
    from penstock.table.schema.resolved_schema import Column
    from penstock.table.table_environment.stream_table_environment import StreamTableEnvironment

#: Converts the values of a row in place; None if a type needs no conversion.
_Conversion: TypeAlias = "Callable[[Any], Any] | None"

_ROWTIME = "rowtime"
#: The rowtime in UTC as a TIMESTAMP, which `Expression.rowtime` stands for.
_PLAIN_ROWTIME = "rowtime without a zone"
#: The name of a stream as a target, in errors.
_SINK = "Unregistered_DataStream_Sink"
_KINDS = tuple(sorted(RowKind, key=lambda kind: kind.value))


class StreamRows(GatheredRows):
    """Builds the batches of a stream.

    Args:
        row_type: The type of the batches, a wanted time last.
        is_composite: Whether records have fields.
        has_kinds: Whether batches have a column of row kinds.
        time: The type of the records' time; None if it is not wanted.
    """

    def __init__(
        self, row_type: RowType, is_composite: bool, has_kinds: bool, time: types.DataType | None
    ) -> None:
        super().__init__(row_type, with_kinds=has_kinds)
        self._fields = row_type.fields[: len(row_type) - (time is not None)]
        self._is_composite = is_composite
        self._has_kinds = has_kinds
        self._has_time = time is not None
        is_zoned = isinstance(time, types.LocalZonedTimestampType)
        self._epoch = _EPOCH if is_zoned else _EPOCH.replace(tzinfo=None)

    def row_of(self, value: Any, timestamp: int | None) -> KindedRow:
        """Return the kind and the values of a record.

        Raises:
            TableException: A record of a stream of insertions has another kind.
        """
        kind = row_kind(value)
        if kind != n.INSERT and not self._has_kinds:
            raise TableException(
                f"Conversion expects insert-only records, got one of the kind "
                f"{_KINDS[kind].name}: use from_changelog_stream with a mode of more kinds"
            )
        record: Any = value if self._is_composite else (value,)
        row = [field_value(record, i, field.name) for i, field in enumerate(self._fields)]
        if self._has_time:
            row.append(
                None
                if timestamp is None
                else self._epoch + datetime.timedelta(milliseconds=timestamp)
            )
        return kind, row


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def row_kind(value: Any) -> int:
    """Return the number of a record's row kind; INSERT for records without one."""
    return int(value.get_row_kind().value) if isinstance(value, Row) else n.INSERT


class StreamSource(TableSource):
    """Reads the records of a stream.

    Args:
        stream: The stream.
        fields: The fields of the records, by position; a single one for records without fields.
        is_composite: Whether records have fields.
        kinds: The possible row kinds.
        key: For upserts: the positions of the primary key's fields.
    """

    def __init__(
        self,
        stream: DataStream[Any],
        fields: Sequence[RowField],
        is_composite: bool,
        kinds: frozenset[int],
        key: Sequence[int] = (),
    ) -> None:
        self._stream = stream
        self._key = list(key)
        self._fields = list(fields)
        self._is_composite = is_composite
        self.kinds = ALL_KINDS if self._key else kinds
        self._time: types.DataType | None = None
        self.metadata = {
            _ROWTIME: DataTypes.TIMESTAMP_LTZ(3),
            _PLAIN_ROWTIME: DataTypes.TIMESTAMP(3),
        }

    def with_metadata(self, keys: Sequence[str]) -> TableSource:
        """Return a source whose batches have the records' timestamps."""
        made: StreamSource = copy.copy(self)
        made._time = self.metadata[keys[0]] if keys else None
        return made

    def transformation(self, context: ExecutionContext) -> Transformation:
        """Return the operator that converts records to batches."""
        fields = list(self._fields)
        if self._time is not None:
            fields.append(RowField("$metadata", self._time))
        rows = StreamRows(
            RowType(fields), self._is_composite, self.kinds != INSERT_ONLY, self._time
        )
        stream: DataStream[Any] = DataStream(context.environment, self._stream.transformation)
        if self._key:
            stream = normalized(stream, self._key, context.state_ttl_ms)
        return stream.transform("DataStreamSource", batch_type(None), rows).transformation


def _fields_of(stream: Any) -> tuple[list[RowField], bool]:
    """Return the fields of a stream's records, and whether the records have any."""
    kind = data_type_of(as_row_type(stream.get_type()))
    if isinstance(kind, RowType):
        return list(kind.fields), True
    return [RowField("f0", as_of_record(kind))], False


def table_of_stream(
    environment: StreamTableEnvironment, stream: Any, fields_or_schema: Sequence[Any]
) -> Table:
    """Return a table of the records of a stream.

    Raises:
        ValidationException: A column is not a field of the records.
    """
    if len(fields_or_schema) == 1 and isinstance(fields_or_schema[0], Schema):
        return _table(environment, stream, fields_or_schema[0], INSERT_ONLY)
    if not all(isinstance(field, Expression) for field in fields_or_schema):
        raise WrongArgumentError(
            f"from_data_stream takes a Schema or expressions, got {fields_or_schema!r}"
        )
    table = _table(environment, stream, None, INSERT_ONLY)
    if not fields_or_schema:
        return table
    return _with_fields(environment, stream, table, fields_or_schema)


def table_of_changes(
    environment: StreamTableEnvironment, stream: Any, schema: Schema | None, mode: Any
) -> Table:
    """Return a table from rows whose kinds describe its changes.

    Raises:
        ValidationException: Upserts have no primary key.
    """
    kinds = ALL_KINDS if mode is None else frozenset(kind.value for kind in mode.kinds)
    is_upsert = n.UPDATE_AFTER in kinds and n.UPDATE_BEFORE not in kinds
    if is_upsert and (schema is None or schema.primary_key is None):
        raise ValidationException(
            "A changelog of upserts needs a primary key: declare it in the schema"
        )
    return _table(environment, stream, schema, kinds)


def _table(
    environment: StreamTableEnvironment,
    stream: Any,
    schema: Schema | None,
    kinds: frozenset[int],
) -> Table:
    fields, is_composite = _fields_of(stream)
    declared = _complete(schema, fields, is_composite)
    resolved = resolve_schema(declared, environment.planner.context())
    physical = [column for column in resolved.columns if column.is_physical()]
    known = {field.name for field in fields}
    unknown = [column.name for column in physical if column.name not in known]
    if unknown:
        raise ValidationException(
            f"Unable to find a field named '{unknown[0]}' in the physical data type derived from "
            f"the given type information for schema declaration. Make sure that the type "
            f"information is not a generic raw type. Currently available fields are: "
            f"[{', '.join(sorted(known))}]"
        )
    taken = _taken(stream, fields, physical, is_composite)
    key: list[int] = []
    if n.UPDATE_AFTER in kinds and n.UPDATE_BEFORE not in kinds:
        assert declared.primary_key is not None
        key = [[c.name for c in physical].index(name) for name in declared.primary_key[1]]
    own = [RowField(c.name, _plain(c.data_type)) for c in physical]
    source = StreamSource(taken, own, is_composite, kinds, key)
    name = environment.catalogs.unnamed_path()
    context = environment.planner.context()
    table = Table(scan_node(name, source, resolved, context), environment)
    if schema is None or len(declared.columns) == len(schema.columns):
        return table
    if not any(column.is_physical for column in schema.columns):
        return table
    return table.select(*[col(column.name) for column in schema.columns])


def _plain(data_type: types.DataType) -> types.DataType:
    typed: Any = data_type
    return typed.with_time_attribute(None) if hasattr(typed, "with_time_attribute") else data_type


def _complete(schema: Schema | None, fields: Sequence[RowField], is_composite: bool) -> Schema:
    """Return a schema with all record fields that its expressions may refer to."""
    own = [] if schema is None else list(schema.columns)
    names = {column.name for column in own if column.is_physical}
    if not names or (is_composite and any(column.is_computed for column in own)):
        keys = () if schema is None or schema.primary_key is None else schema.primary_key[1]
        added = [
            DeclaredColumn(f.name, f.data_type.not_null() if f.name in keys else f.data_type)
            for f in fields
            if f.name not in names
        ]
        own = added + own
    if schema is None:
        return Schema(own)
    return Schema(own, schema.watermark_specs, schema.primary_key)


def _taken(
    stream: Any, fields: Sequence[RowField], physical: Sequence[Any], is_composite: bool
) -> Any:
    """Return the stream with only the requested fields, in the requested order."""
    names = [field.name for field in fields]
    wanted = [column.name for column in physical]
    if not is_composite or wanted == names:
        return stream
    positions = [names.index(name) for name in wanted]
    return stream.map(partial(_picked, positions, names))


def _picked(positions: Sequence[int], names: Sequence[str], record: Any) -> Any:
    made = Row(*[field_value(record, i, names[i]) for i in positions])
    if isinstance(record, Row):
        made.set_row_kind(record.get_row_kind())
    return made


def _with_fields(
    environment: StreamTableEnvironment, stream: Any, table: Table, given: Sequence[Any]
) -> Table:
    """Return a stream's table with the columns that expressions select.

    Raises:
        ValidationException: There are more columns than fields, or two of one name.
    """
    names = table.plan_node.schema.names
    trees = [field.tree for field in given]
    times = {
        i: tree
        for i, tree in enumerate(map(_without_alias, trees))
        if isinstance(tree, e.UnresolvedCall) and tree.function in ("ROWTIME", "PROCTIME")
    }
    plain = [tree for i, tree in enumerate(trees) if i not in times]
    by_name = all(str(_without_alias(tree)) in names for tree in plain)
    if len(plain) > len(names):
        raise ValidationException(
            f"{len(plain)} columns are given for the {len(names)} fields {', '.join(names)}"
        )
    builder = Schema.new_builder()
    own, _ = _fields_of(stream)
    builder.from_fields([f.name for f in own], [f.data_type for f in own])
    for i, tree in times.items():
        if tree.function == "ROWTIME":
            builder.column_by_metadata(f"$time{i}", DataTypes.TIMESTAMP(3), _PLAIN_ROWTIME)
            builder.watermark(f"$time{i}", "SOURCE_WATERMARK()")
        else:
            builder.column_by_expression(f"$time{i}", "PROCTIME()")
    source = _table(environment, stream, builder.build(), INSERT_ONLY) if times else table
    columns, made, number = n.columns(source.plan_node), [], 0
    shown = source.plan_node.schema.names
    for i, tree in enumerate(trees):
        if i in times:
            made.append((columns[shown.index(f"$time{i}")], _output(trees[i], times[i])))
            continue
        place = names.index(str(_without_alias(tree))) if by_name else number
        number += 1
        made.append((columns[place], str(tree.names[0]) if _is_alias(tree) else str(tree)))
    # As in Flink, columns that expressions select are nullable.
    check_unique([name for _, name in made])
    selected = [replace(column, type=column.type.nullable()) for column, _ in made]
    fields = tuple(Field(name, c.type) for c, (_, name) in zip(selected, made, strict=True))
    node = n.Project(PlanSchema(fields), source.plan_node, tuple(selected))
    return Table(node, environment)


def _is_alias(tree: Any) -> bool:
    return isinstance(tree, e.UnresolvedAlias)


def _without_alias(tree: Any) -> Any:
    return tree.argument if isinstance(tree, e.UnresolvedAlias) else tree


def _output(tree: Any, call: Any) -> str:
    return str(tree.names[0]) if _is_alias(tree) else str(call.arguments[0])


# Tables as streams --------------------------------------------------------------------------------


def stream_of_table(environment: StreamTableEnvironment, table: Table) -> DataStream[Row]:
    """Return the rows of an append-only table as a stream of named Rows.

    Raises:
        TableException: The table updates.
    """
    _check_insertions(environment, table)
    return _rows(environment, table, _named_rows)


def changes_of_table(
    environment: StreamTableEnvironment, table: Table, schema: Schema | None, mode: Any
) -> DataStream[Row]:
    """Return the changes of a table as a stream of named Rows with their kinds.

    A column of the schema for the metadata ``rowtime`` is the records' timestamp.

    Raises:
        TableException: The mode does not include all row kinds of the table.
        ValidationException: The schema does not fit the table.
    """
    kinds = ALL_KINDS if mode is None else frozenset(kind.value for kind in mode.kinds)
    check_changes(table.plan_node, kinds, _SINK,
                  is_streaming=environment.planner.is_streaming)  # fmt: skip
    key: list[int] = []
    has_time = False
    if schema is not None:
        declared = _complete_target(schema, table)
        resolved = resolve_schema(declared, environment.planner.context())
        written = [column for column in resolved.columns if column.is_persisted()]
        metadata = [i for i, c in enumerate(written) if isinstance(c, MetadataColumn)]
        has_time = _has_rowtime(written)
        node = sink_node(_SINK, table.plan_node, resolved, SimpleNamespace(kinds=kinds)).input
        order = [i for i in range(len(written)) if i not in metadata] + metadata
        columns, names = n.columns(node), [written[i].name for i in order]
        table = Table(n.project(node, [columns[i] for i in order], names), environment)
        if n.UPDATE_BEFORE not in kinds and declared.primary_key is not None:
            key = [names.index(name) for name in declared.primary_key[1]]
    sink = SimpleNamespace(upsert_key=tuple(key), parallelism=None)
    plan = table.plan_node
    target = n.Sink(plan.schema, plan, _SINK, sink, kinds)
    return _rows(environment, table, _named_rows, has_time=has_time, sink=target)


def _complete_target(schema: Schema, table: Table) -> Schema:
    """Return a schema for a table's changes; without fields, those of the table are first."""
    if any(column.is_physical for column in schema.columns):
        return schema
    taken = {column.name for column in schema.columns}
    own = [DeclaredColumn(f.name, _plain(f.type)) for f in table.plan_node.schema
           if f.name not in taken]  # fmt: skip
    return Schema([*own, *schema.columns], schema.watermark_specs, schema.primary_key)


def _has_rowtime(columns: Sequence[Column]) -> bool:
    """Return whether a schema has a column for the rowtime.

    Raises:
        ValidationException: A column has other metadata.
    """
    metadata = [column for column in columns if isinstance(column, MetadataColumn)]
    for column in metadata:
        if column.key != _ROWTIME:
            raise ValidationException(
                f"Invalid metadata key '{column.key}' of column '{column.name}': a stream has the "
                f"metadata {_ROWTIME}"
            )
    return bool(metadata)


def appended_stream(
    environment: StreamTableEnvironment, table: Table, type_info: TypeInformation
) -> DataStream[Any]:
    """Return the rows of an append-only table as a stream of a type.

    Raises:
        TableException: The table updates.
    """
    _check_insertions(environment, table)
    return _rows(environment, table, _nameless_rows, type_info)


def retracted_stream(
    environment: StreamTableEnvironment, table: Table, type_info: TypeInformation
) -> DataStream[Any]:
    """Return the changes of a table as pairs of a flag and a row."""
    from penstock.common.typeinfo import Types

    declared = Types.TUPLE([Types.BOOLEAN(), type_info])
    return _rows(environment, table, _pairs, declared, type_info)


def _check_insertions(environment: StreamTableEnvironment, table: Table) -> None:
    check_changes(
        table.plan_node,
        INSERT_ONLY,
        _SINK,
        is_streaming=environment.planner.is_streaming,
    )


def _rows(
    environment: StreamTableEnvironment,
    table: Table,
    convert: Any,
    declared: TypeInformation | None = None,
    of_rows: TypeInformation | None = None,
    *,
    has_time: bool = False,
    sink: n.Sink | None = None,
) -> DataStream[Any]:
    """Return a stream of converted rows.

    Args:
        environment: The environment.
        table: The table.
        convert: Converts the batches.
        declared: The type of the stream; that of the rows by default.
        of_rows: The type of the rows, if it is not that of the stream.
        has_time: Whether the last column is not a field, but the records' timestamp.
        sink: The stream as a target of changes; None if it reads all of them.

    Raises:
        TableException: The table has several time attributes.
    """
    stream_environment = environment.stream_environment
    environment.jobs.set_parallelism(stream_environment)
    node = table.plan_node
    context = environment.jobs.context(stream_environment)
    [plan] = pruned([node], is_streaming=context.is_streaming, settings=context.settings)
    key: tuple[int, ...] = ()
    if sink is not None:
        context.new_rows_only = unread_by_tables([(sink, plan)])
        key = sink.sink.upsert_key
    transformation = translate_optimized(plan, context, keeps_time=True, key=key)
    stream: DataStream[Any] = DataStream(stream_environment, transformation)
    if sink is not None and n.UPDATE_BEFORE not in sink.kinds:
        stream = stream.map(_without_old_rows)
    row_type = row_type_of(node)
    if has_time:
        row_type = RowType(list(row_type.fields)[:-1])
    if declared is None:
        declared = type_info_of(row_type)
    rows_of_batch = partial(convert, row_type, with_instants(of_rows or declared))
    times = [i for i, field in enumerate(node.schema) if field.is_rowtime]
    if has_time:
        times = [len(row_type)]
    else:
        check_times(node, _SINK)
    if not times:
        return stream.flat_map(rows_of_batch, declared)
    return stream.transform("FlatMap", declared, _StampedRows(rows_of_batch, times[0]))


def _without_old_rows(batch: Any) -> Any:
    """Return a batch without UPDATE_BEFORE."""
    kinds = kinds_of(batch)
    if n.UPDATE_BEFORE not in kinds:
        return batch
    return batch.take([i for i, kind in enumerate(kinds) if kind != n.UPDATE_BEFORE])


class _StampedRows(OneInputStreamOperator):
    """Emits the rows of batches with their event time as the records' timestamps."""

    def __init__(self, rows_of_batch: Callable[[Any], Iterator[Any]], time: int) -> None:
        self._rows_of_batch = rows_of_batch
        self._time = time

    def process_element(self, value: Any, timestamp: int | None) -> None:
        """Emit the rows of a batch."""
        from penstock.taskexecutor.operators.relational.watermarks import milliseconds

        times = milliseconds(value.column(self._time)).to_pylist()
        for row, time in zip(self._rows_of_batch(value), times, strict=True):
            self.output.collect(row, timestamp if time is None else time)


def _named_rows(row_type: RowType, convert: _Conversion, batch: Any) -> Iterator[Row]:
    names = row_type.field_names()
    for kind, values in rows_of(batch, row_type, named_rows=True):
        row = Row(*values)
        row.set_field_names(names)
        yield _finished(row, kind, convert)


def _nameless_rows(row_type: RowType, convert: _Conversion, batch: Any) -> Iterator[Row]:
    for kind, values in rows_of(batch, row_type):
        yield _finished(Row(*values), kind, convert)


def _finished(row: Row, kind: int, convert: _Conversion) -> Row:
    if convert is not None:
        convert(row)
    if kind:
        row.set_row_kind(_KINDS[kind])
    return row


def _pairs(row_type: RowType, convert: _Conversion, batch: Any) -> Iterator[tuple[bool, Row]]:
    for row in _nameless_rows(row_type, convert, batch):
        yield row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER), row
