"""print and blackhole: rows are printed or dropped."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.common.values.number_text import double_text, float_text
from penstock.connectors.discard import DiscardingSink
from penstock.table import types
from penstock.table.connectors.batches import rows_of
from penstock.table.connectors.interfaces import (
    ALL_KINDS,
    SINK_PARALLELISM,
    UPSERT_KINDS,
    ConnectorFactory,
    TableContext,
    TableSink,
    stream_of,
)
from penstock.table.options.connector_options import OptionSpec, boolean, text

if TYPE_CHECKING:
    import decimal
    from collections.abc import Iterator, Mapping

    from penstock.graph.transformations import Transformation
    from penstock.table.connectors.interfaces import ExecutionContext

KIND_TEXTS = ("+I", "-U", "+U", "-D")


class PrintFactory(ConnectorFactory):
    """Creates sinks that print."""

    identifier = "print"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "print-identifier": OptionSpec(text),
        "standard-error": OptionSpec(boolean, False),
        "sink.parallelism": SINK_PARALLELISM,
    }

    def sink(self, context: TableContext) -> TableSink:
        """Return the sink of a table."""
        values = self.read_options(context)
        return PrintSink(
            context.schema.to_sink_row_data_type(),
            values["print-identifier"],
            values["standard-error"],
            values["sink.parallelism"],
        )


class PrintSink(TableSink):
    """Prints a line for each row, with its kind.

    Args:
        row_type: The type of the rows.
        identifier: The prefix of each line.
        to_error: Whether lines go to standard error.
        parallelism: The number of subtasks; None for the job's.
    """

    kinds = ALL_KINDS

    def __init__(
        self,
        row_type: types.RowType,
        identifier: str | None,
        to_error: bool,
        parallelism: int | None,
    ) -> None:
        self._row_type = row_type
        self._identifier = identifier
        self._to_error = to_error
        self._parallelism = parallelism

    def consume(self, transformation: Transformation, context: ExecutionContext) -> None:
        """Add the operators that print."""
        from penstock.common.typeinfo import Types

        row_type = self._row_type

        def lines(batch: Any) -> Iterator[str]:
            for kind, row in rows_of(batch, row_type):
                yield row_text(kind, row, row_type)

        stream = stream_of(transformation, context).flat_map(lines, Types.STRING())
        show = stream.print_to_err if self._to_error else stream.print
        sink = show(self._identifier) if self._identifier else show()
        if self._parallelism is not None:
            stream.set_parallelism(self._parallelism)
            sink.set_parallelism(self._parallelism)


def row_text(kind: int, row: Any, row_type: types.RowType) -> str:
    """Return a row as Java's Row prints: ``+I[1, text, null]``."""
    pairs = zip(row, row_type.field_types(), strict=True)
    return f"{KIND_TEXTS[kind]}[{', '.join(value_text(value, kind) for value, kind in pairs)}]"


def value_text(value: Any, data_type: types.DataType) -> str:
    """Return a value as Java prints its external form."""
    if value is None:
        return "null"
    match data_type:
        case types.BooleanType():
            return str(value).lower()
        case types.FloatType():
            return float_text(value)
        case types.DoubleType():
            return double_text(value)
        case types.DecimalType():
            return _java_decimal(value)
        case types.BinaryType() | types.VarBinaryType():
            signed = (byte - 256 if byte > 127 else byte for byte in value)
            return f"[{', '.join(map(str, signed))}]"
        case types.TimestampType():
            return _java_time(value.isoformat())
        case types.LocalZonedTimestampType():
            return f"{_java_time(value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat())}Z"
        case types.TimeType():
            return _java_time(value.isoformat())
        case types.MultisetType():
            pairs = (f"{value_text(k, data_type.element_type)}={n}" for k, n in value.items())
            return f"{{{', '.join(pairs)}}}"
        case types.ArrayType():
            return f"[{', '.join(value_text(v, data_type.element_type) for v in value)}]"
        case types.MapType():
            entries = (
                f"{value_text(k, data_type.key_type)}={value_text(v, data_type.value_type)}"
                for k, v in value.items()
            )
            return f"{{{', '.join(entries)}}}"
        case types.RowType():
            return row_text(0, value, data_type)
    return str(value)


def _java_decimal(value: decimal.Decimal) -> str:
    return f"{value:f}" if value.adjusted() >= -6 else str(value)


def _java_time(text: str) -> str:
    """Format a time as LocalDateTime prints it: no zero seconds, fractions in groups of three."""
    if "." in text:
        head, _, fraction = text.partition(".")
        return f"{head}.{fraction[:3]}" if fraction[3:] == "000" else text
    return text.removesuffix(":00") if text.count(":") == 2 else text


class BlackholeFactory(ConnectorFactory):
    """Creates sinks that drop all rows."""

    identifier = "blackhole"
    options: ClassVar[Mapping[str, OptionSpec]] = {"property-version": OptionSpec(text)}

    def sink(self, context: TableContext) -> TableSink:
        """Return the sink of a table."""
        self.read_options(context)
        return BlackholeSink()


class BlackholeSink(TableSink):
    """Drops all rows."""

    kinds = UPSERT_KINDS

    def consume(self, transformation: Transformation, context: ExecutionContext) -> None:
        """Add the operator that drops batches."""
        stream_of(transformation, context).sink_to(DiscardingSink()).name("blackhole")
