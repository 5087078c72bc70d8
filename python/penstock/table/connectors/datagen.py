"""datagen: random or numbered values, bounded or not."""

from __future__ import annotations

import datetime
import decimal
import random
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.connectors.datagen.source import BatchGeneratorSource
from penstock.table import types
from penstock.table.connectors.batches import record_batch
from penstock.table.connectors.interfaces import ConnectorFactory, TableContext, TableSource
from penstock.table.connectors.record_types import batch_type
from penstock.table.exceptions import ValidationException
from penstock.table.formats.scalar_text import INTEGER_BITS
from penstock.table.options.connector_options import (
    OptionSpec,
    boolean,
    duration_ms,
    integer,
    positive,
    read_options,
)
from penstock.table.plan.nodes import INSERT
from penstock.table.types.logical_types import MAX_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.graph.transformations import Transformation
    from penstock.table.connectors.interfaces import ExecutionContext

#: The largest number of rows a batch: enough that its fixed costs no longer count.
_MOST_ROWS_A_BATCH: Final = 1024
#: The largest number of batches a second, so that slow tables still emit often.
_BATCHES_A_SECOND: Final = 10

_LENGTH: Final = 100
_COLLECTION_LENGTH: Final = 3


class DatagenFactory(ConnectorFactory):
    """Creates sources of generated rows."""

    identifier = "datagen"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "rows-per-second": OptionSpec(positive, 10_000),
        "number-of-rows": OptionSpec(integer),
        "scan.parallelism": OptionSpec(positive),
    }
    prefixes = ("fields.",)

    def source(self, context: TableContext) -> TableSource:
        """Return the source of a table."""
        values = self.read_options(context)
        row_type = context.physical_type
        generators, ends = _generators(context.options, row_type)
        count = values["number-of-rows"]
        for end in ends:
            count = end if count is None else min(count, end)
        return DatagenSource(
            row_type, generators, count, values["rows-per-second"], values["scan.parallelism"]
        )


class DatagenSource(TableSource):
    """Generates rows from the numbers 0, 1, 2 and so on.

    Args:
        row_type: The type of the rows.
        generators: The functions from a row's number to each column's value.
        count: The number of rows; None for an unbounded source.
        rows_per_second: The rate of the rows.
        parallelism: The number of subtasks; None for the job's.
    """

    def __init__(
        self,
        row_type: types.RowType,
        generators: list[Callable[[int], Any]],
        count: int | None,
        rows_per_second: int,
        parallelism: int | None,
    ) -> None:
        self._row_type = row_type
        self._generators = generators
        self._count = count
        self._rows_per_second = rows_per_second
        self._parallelism = parallelism
        self.is_bounded = count is not None

    def transformation(self, context: ExecutionContext) -> Transformation:
        """Return the operator that generates the rows."""
        from penstock.common.watermark_strategy import WatermarkStrategy

        row_type, generators = self._row_type, self._generators

        def batch(numbers: range) -> Any:
            made = [(INSERT, [generate(i) for generate in generators]) for i in numbers]
            return record_batch(made, row_type)

        source = BatchGeneratorSource(
            batch,
            sys.maxsize if self._count is None else self._count,
            max(1, min(_MOST_ROWS_A_BATCH, self._rows_per_second // _BATCHES_A_SECOND)),
            self._rows_per_second,
            batch_type(None),
        )
        stream = context.environment.from_source(
            source, WatermarkStrategy.no_watermarks(), "datagen"
        )
        if self._parallelism is not None:
            stream.set_parallelism(self._parallelism)
        stream.transformation.bounded = self.is_bounded  # type: ignore[attr-defined]
        return stream.transformation


def _generators(
    options: Mapping[str, str], row_type: types.RowType
) -> tuple[list[Callable[[int], Any]], list[int]]:
    """Return the generator of each column, and the number of rows of the sequences.

    Raises:
        ValidationException: An option is wrong or refers to no column.
    """
    left = {key: value for key, value in options.items() if key.startswith("fields.")}
    generators: list[Callable[[int], Any]] = []
    ends: list[int] = []
    for field in row_type:
        prefix = f"fields.{field.name}."
        own = {k.removeprefix(prefix): v for k, v in left.items() if k.startswith(prefix)}
        left = {k: v for k, v in left.items() if not k.startswith(prefix)}
        kind = own.pop("kind", "random").strip().lower()
        owner = f"column `{field.name}` of connector 'datagen'"
        if kind == "sequence":
            generate, end = _sequence(owner, own, field.data_type)
            ends.append(end)
        elif kind == "random":
            generate = _random(owner, own, field.data_type)
        else:
            raise ValidationException(f"Invalid kind '{kind}' of {owner}: random or sequence")
        generators.append(generate)
    if left:
        raise ValidationException(
            f"Unsupported options of connector 'datagen': {', '.join(sorted(left))}: the table "
            f"has the columns {', '.join(row_type.field_names())}"
        )
    return generators, ends


def _sequence(
    owner: str, options: Mapping[str, str], data_type: types.DataType
) -> tuple[Callable[[int], Any], int]:
    specs = {
        "start": OptionSpec(integer, is_required=True),
        "end": OptionSpec(integer, is_required=True),
    }
    values = read_options(owner, options, specs)
    start, end = values["start"], values["end"]
    if end < start:
        raise ValidationException(f"The sequence of {owner} ends at {end}, before {start}")
    convert: Callable[[int], Any]
    match data_type:
        case types.IntegralType():
            convert = int
        case types.FloatType() | types.DoubleType():
            convert = float
        case types.DecimalType():
            convert = decimal.Decimal
        case types.CharType() | types.VarCharType():
            convert = str
        case _:
            raise ValidationException(f"A sequence cannot have the type {data_type} of {owner}")
    return (lambda number: convert(start + number)), end - start + 1


def _random(
    owner: str, options: Mapping[str, str], data_type: types.DataType
) -> Callable[[int], Any]:
    rate = OptionSpec(float, 0.0)
    source = random.Random()

    def with_nulls(make: Callable[[], Any], null_rate: float) -> Callable[[int], Any]:
        return lambda _: None if null_rate and source.random() < null_rate else make()

    specs: dict[str, OptionSpec] = {"null-rate": rate}
    match data_type:
        case types.IntegralType():
            bound = 1 << (INTEGER_BITS[type(data_type)] - 1)
            specs |= {"min": OptionSpec(integer, -bound), "max": OptionSpec(integer, bound - 1)}
            values = read_options(owner, options, specs)
            low, high = _ordered(owner, values)
            return with_nulls(lambda: source.randint(low, high), values["null-rate"])
        case types.FloatType() | types.DoubleType():
            greatest = 3.4e38 if isinstance(data_type, types.FloatType) else sys.float_info.max / 4
            specs |= {"min": OptionSpec(float, -greatest), "max": OptionSpec(float, greatest)}
            values = read_options(owner, options, specs)
            low, high = _ordered(owner, values)
            return with_nulls(lambda: source.uniform(low, high), values["null-rate"])
        case types.DecimalType():
            digits = 10 ** (data_type.precision - data_type.scale)
            specs |= {"min": OptionSpec(float, -digits + 1), "max": OptionSpec(float, digits - 1)}
            values = read_options(owner, options, specs)
            low, high = _ordered(owner, values)
            scale = data_type.scale
            return with_nulls(
                lambda: decimal.Decimal(f"{source.uniform(low, high):.{scale}f}"),
                values["null-rate"],
            )
        case types.BooleanType():
            values = read_options(owner, options, specs)
            return with_nulls(lambda: source.random() < 0.5, values["null-rate"])
        case types.CharType() | types.VarCharType() | types.BinaryType() | types.VarBinaryType():
            return _random_text(owner, options, data_type, source, specs, with_nulls)
        case types.TimestampType() | types.LocalZonedTimestampType() | types.DateType():
            return _random_time(owner, options, data_type, source, specs, with_nulls)
        case types.TimeType():
            values = read_options(owner, options, specs)
            return with_nulls(
                lambda: datetime.time(
                    source.randrange(24), source.randrange(60), source.randrange(60)
                ),
                values["null-rate"],
            )
    return _random_collection(owner, options, data_type, specs, with_nulls)


def _random_text(
    owner: str,
    options: Mapping[str, str],
    data_type: Any,
    source: random.Random,
    specs: dict[str, OptionSpec],
    with_nulls: Callable[[Callable[[], Any], float], Callable[[int], Any]],
) -> Callable[[int], Any]:
    default = _LENGTH if data_type.length == MAX_LENGTH else data_type.length
    specs |= {"length": OptionSpec(positive, default), "var-len": OptionSpec(boolean, False)}
    values = read_options(owner, options, specs)
    length, varies = values["length"], values["var-len"]
    if length > data_type.length:
        raise ValidationException(f"The length {length} of {owner} exceeds its type {data_type}")

    def size() -> int:
        return source.randint(1, length) if varies else length

    if isinstance(data_type, (types.BinaryType, types.VarBinaryType)):
        return with_nulls(lambda: source.randbytes(size()), values["null-rate"])
    return with_nulls(
        lambda: "".join(source.choices("0123456789abcdef", k=size())), values["null-rate"]
    )


def _random_time(
    owner: str,
    options: Mapping[str, str],
    data_type: Any,
    source: random.Random,
    specs: dict[str, OptionSpec],
    with_nulls: Callable[[Callable[[], Any], float], Callable[[int], Any]],
) -> Callable[[int], Any]:
    specs |= {"max-past": OptionSpec(duration_ms, 0)}
    values = read_options(owner, options, specs)
    past_ms = values["max-past"]

    def moment() -> Any:
        now = datetime.datetime.now(datetime.UTC)
        found = now - datetime.timedelta(milliseconds=source.randint(0, past_ms))
        found = found.replace(microsecond=found.microsecond // 1000 * 1000)
        if isinstance(data_type, types.DateType):
            return found.date()
        if isinstance(data_type, types.TimestampType):
            return found.replace(tzinfo=None)
        return found

    return with_nulls(moment, values["null-rate"])


def _random_collection(
    owner: str,
    options: Mapping[str, str],
    data_type: types.DataType,
    specs: dict[str, OptionSpec],
    with_nulls: Callable[[Callable[[], Any], float], Callable[[int], Any]],
) -> Callable[[int], Any]:
    own = {k: v for k, v in options.items() if k in ("null-rate", "length")}
    rest = {k: v for k, v in options.items() if k not in own}

    def part(name: str, kind: types.DataType) -> Callable[[int], Any]:
        prefix = f"{name}."
        inner = {k.removeprefix(prefix): v for k, v in rest.items() if k.startswith(prefix)}
        return _random(f"{name} of {owner}", inner, kind)

    if isinstance(data_type, types.RowType):
        values = read_options(owner, own, specs)
        fields = [part(field.name, field.data_type) for field in data_type]
        return with_nulls(lambda: tuple(make(0) for make in fields), values["null-rate"])
    specs |= {"length": OptionSpec(positive, _COLLECTION_LENGTH)}
    values = read_options(owner, own, specs)
    length, null_rate = values["length"], values["null-rate"]
    if isinstance(data_type, types.MultisetType):
        element = part("element", data_type.element_type)
        return with_nulls(lambda: {element(0): 1 for _ in range(length)}, null_rate)
    if isinstance(data_type, types.ArrayType):
        element = part("element", data_type.element_type)
        return with_nulls(lambda: [element(0) for _ in range(length)], null_rate)
    if isinstance(data_type, types.MapType):
        key, value = part("key", data_type.key_type), part("value", data_type.value_type)
        return with_nulls(lambda: {key(0): value(0) for _ in range(length)}, null_rate)
    raise ValidationException(
        f"Connector 'datagen' cannot generate the type {data_type} of {owner}"
    )


def _ordered(owner: str, values: Mapping[str, Any]) -> tuple[Any, Any]:
    if values["min"] > values["max"]:
        raise ValidationException(
            f"The least value {values['min']} of {owner} exceeds the greatest {values['max']}"
        )
    return values["min"], values["max"]
