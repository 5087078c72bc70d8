"""elasticsearch-7 and elasticsearch-8: tables as indices, written by bulk requests."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.connectors.batching import BatchLimits
from penstock.connectors.elasticsearch.actions import BulkAction, ElasticsearchEmitter, upsert
from penstock.connectors.elasticsearch.cluster import Cluster, hosts_of
from penstock.connectors.elasticsearch.sink import ElasticsearchSink
from penstock.table import types
from penstock.table.connectors.batches import rows_of
from penstock.table.connectors.interfaces import (
    SINK_PARALLELISM,
    ConnectorFactory,
    TableContext,
    TableSink,
)
from penstock.table.connectors.row_sources import ChangeSink
from penstock.table.exceptions import ValidationException
from penstock.table.options.connector_options import (
    OptionSpec,
    boolean,
    choice,
    duration_ms,
    memory_bytes,
    natural,
    positive,
    text,
)
from penstock.table.options.table_options import LOCAL_TIME_ZONE
from penstock.table.options.time_zones import time_zone
from penstock.table.plan.nodes import ADDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock.table.formats.row_format import RowFormat

#: A part of the option ``index``: a column or the current time, and the format of a time.
_PLACEHOLDER: Final = re.compile(r"\{\s*([^{}|]+?)\s*(?:\|\s*([^{}]+?)\s*)?\}")

_NOW: Final = ("now()", "NOW()", "now", "current_timestamp", "CURRENT_TIMESTAMP")

_TIMES: Final = (
    types.DateType,
    types.TimeType,
    types.TimestampType,
    types.LocalZonedTimestampType,
)

#: The types of columns without a text form for an id.
_NO_KEYS: Final = (
    types.ArrayType,
    types.BinaryType,
    types.MapType,
    types.MultisetType,
    types.RowType,
    types.VarBinaryType,
)


class Elasticsearch7Factory(ConnectorFactory):
    """Creates sinks of indices of Elasticsearch 7."""

    identifier = "elasticsearch-7"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "hosts": OptionSpec(text, is_required=True),
        "index": OptionSpec(text, is_required=True),
        "document-id.key-delimiter": OptionSpec(text, "_"),
        "username": OptionSpec(text),
        "password": OptionSpec(text),
        "ssl.certificate-fingerprint": OptionSpec(text),
        "connection.path-prefix": OptionSpec(text, ""),
        "connection.request-timeout": OptionSpec(duration_ms),
        "connection.timeout": OptionSpec(duration_ms, 5_000),
        "socket.timeout": OptionSpec(duration_ms, 60_000),
        "sink.delivery-guarantee": OptionSpec(choice("none", "at-least-once"), "at-least-once"),
        "sink.flush-on-checkpoint": OptionSpec(boolean, True),
        "sink.bulk-flush.max-actions": OptionSpec(natural, 1000),
        "sink.bulk-flush.max-size": OptionSpec(memory_bytes, 2 << 20),
        "sink.bulk-flush.interval": OptionSpec(duration_ms, 1000),
        "sink.bulk-flush.backoff.strategy": OptionSpec(
            choice("NONE", "DISABLED", "CONSTANT", "EXPONENTIAL"), "NONE"
        ),
        "sink.bulk-flush.backoff.max-retries": OptionSpec(positive, 8),
        "sink.bulk-flush.backoff.delay": OptionSpec(duration_ms, 50),
        "sink.parallelism": SINK_PARALLELISM,
    }

    def sink(self, context: TableContext) -> TableSink:
        """Return the sink of an index."""
        context = replace(context, options={"format": "json", **context.options})
        values = self.read_options(context, format_keys=("format",))
        row_type = context.schema.to_sink_row_data_type()
        with context.named_errors():
            cluster = Cluster(
                hosts_of(re.split(r"\s*;\s*", values["hosts"].strip()), f"Table {context.name}"),
                values["username"],
                values["password"],
                values["connection.path-prefix"],
                values["connection.timeout"],
                values["socket.timeout"],
                values["ssl.certificate-fingerprint"],
            )
            emitter = RowEmitter(
                row_type,
                self.row_format(context, row_type),
                _index_of(context, values["index"], row_type),
                _keys_of(context, row_type),
                values["document-id.key-delimiter"],
            )
            sink = ElasticsearchSink.of(cluster, _limits(values), emitter)
        return ChangeSink(self.identifier, sink, emitter.key, values["sink.parallelism"])


class Elasticsearch8Factory(Elasticsearch7Factory):
    """Creates sinks of indices of Elasticsearch 8, whose bulk requests are the same."""

    identifier = "elasticsearch-8"


def _limits(values: Mapping[str, Any]) -> BatchLimits:
    strategy = values["sink.bulk-flush.backoff.strategy"]
    guarantee = values["sink.delivery-guarantee"] == "at-least-once"
    return BatchLimits(
        values["sink.bulk-flush.max-actions"],
        values["sink.bulk-flush.max-size"],
        values["sink.bulk-flush.interval"],
        0 if strategy in ("NONE", "DISABLED") else values["sink.bulk-flush.backoff.max-retries"],
        values["sink.bulk-flush.backoff.delay"],
        strategy == "EXPONENTIAL",
        flushes_at_checkpoints=guarantee and values["sink.flush-on-checkpoint"],
    )


def _keys_of(context: TableContext, row_type: types.RowType) -> tuple[int, ...]:
    """Return the positions of the primary key.

    Raises:
        ValidationException: A column of it has no text form.
    """
    key = tuple(context.key_positions(row_type))
    for name, position in zip(context.key_names, key, strict=True):
        kind = row_type.field_types()[position]
        if isinstance(kind, _NO_KEYS):
            raise ValidationException(
                f"The PRIMARY KEY of table {context.name} has the column '{name}' of type "
                f"{kind.summary()}, which cannot be part of the id of a document"
            )
    return key


class IndexPart:
    """A part of an index's name that depends on the row or on the time.

    Args:
        position: The position of the column; None for the current time.
        pattern: The format of a time; None for the value's text.
        zone: The time zone of the session.
    """

    def __init__(self, position: int | None, pattern: str | None, zone: str) -> None:
        self._position = position
        self._pattern = pattern
        self._zone = zone

    def __call__(self, row: Sequence[Any]) -> str:
        """Return the part's text for a row."""
        from penstock.table.functions.time_texts import format_time

        value = (
            datetime.datetime.now(datetime.UTC) if self._position is None else row[self._position]
        )
        if self._pattern is None:
            return key_text(value)
        if isinstance(value, datetime.datetime):
            if value.tzinfo is not None:
                value = value.astimezone(time_zone(self._zone)).replace(tzinfo=None)
        elif isinstance(value, datetime.time):
            value = datetime.datetime.combine(datetime.date(1970, 1, 1), value)
        elif value is not None:
            value = datetime.datetime.combine(value, datetime.time())
        return "null" if value is None else format_time(value, self._pattern)


def _index_of(
    context: TableContext, given: str, row_type: types.RowType
) -> list[str | Callable[[Sequence[Any]], str]]:
    """Return the parts of an index's name: texts, and functions of a row.

    Raises:
        ValidationException: A placeholder names no column, or a time format for another type.
    """
    names = row_type.field_names()
    zone = context.settings.get(LOCAL_TIME_ZONE, "UTC")
    parts: list[str | Callable[[Sequence[Any]], str]] = []
    end = 0
    for found in _PLACEHOLDER.finditer(given):
        parts.append(given[end : found.start()])
        end = found.end()
        name, pattern = found.groups()
        if name in _NOW:
            parts.append(IndexPart(None, pattern or "yyyy_MM_dd", zone))
            continue
        if name not in names:
            raise ValidationException(
                f"Unknown column '{name}' in 'index'='{given}' of table {context.name}. Its "
                f"columns are {', '.join(names)}"
            )
        position = names.index(name)
        kind = row_type.field_types()[position]
        if pattern is not None and not isinstance(kind, _TIMES):
            raise ValidationException(
                f"Column '{name}' in 'index'='{given}' of table {context.name} is of type "
                f"{kind.summary()}: only a date, time or timestamp has the form '{pattern}'"
            )
        parts.append(IndexPart(position, pattern, zone))
    parts.append(given[end:])
    return [part for part in parts if part != ""]


def key_text(value: Any) -> str:
    """Return a value as text, as Java writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime | datetime.time):
        text_of = value.isoformat(timespec="auto")
        return text_of.replace("+00:00", "Z")
    return "null" if value is None else str(value)


class RowEmitter(ElasticsearchEmitter):
    """Converts record batches to actions.

    Args:
        row_type: The columns.
        encoder: The format of documents.
        index: The parts of the index's name.
        key: The positions of the primary key; empty for new documents only.
        delimiter: The text between the columns of a key.
    """

    def __init__(
        self,
        row_type: types.RowType,
        encoder: RowFormat,
        index: Sequence[str | Callable[[Sequence[Any]], str]],
        key: Sequence[int],
        delimiter: str,
    ) -> None:
        super().__init__()
        self._row_type = row_type
        self._encoder = encoder
        self._index = list(index)
        self.key = tuple(key)
        self._delimiter = delimiter

    def actions(self, record: Any) -> Iterable[BulkAction]:
        """Yield an action for each row."""
        return self._actions(record)

    def _actions(self, batch: Any) -> Iterator[BulkAction]:
        for kind, row in rows_of(batch, self._row_type):
            index = "".join(part if isinstance(part, str) else part(row) for part in self._index)
            document_id = self._delimiter.join(key_text(row[i]) for i in self.key)
            if kind not in ADDED:
                yield BulkAction("delete", index, document_id)
                continue
            document = self._encoder.encode(kind, row)
            if self.key:
                yield upsert(index, document_id, document)
            else:
                yield BulkAction("index", index, None, document)
