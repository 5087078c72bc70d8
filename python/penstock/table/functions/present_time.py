"""Functions of the current time, watermark and database."""

from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.registry import define
from penstock.table.functions.times import EPOCH, MILLISECOND
from penstock.table.plan.schema import without_time
from penstock.table.types import TimeAttribute

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.plan.expressions import Call, Expression
    from penstock.table.types import DataType


def _now_ms(evaluator: Any) -> int:
    fixed = evaluator.session.query_time_ms
    return int(time.time() * 1000) if fixed is None else fixed


def _present(function: Callable[[datetime.datetime, Any], Any]) -> Any:
    """Return the kernel of a function of the current time."""

    def kernel(arguments: list[Any], rows: int, call: Call, evaluator: Any) -> Any:
        from penstock.table.types.arrow_types import arrow_array

        del arguments, rows
        now = datetime.datetime.fromtimestamp(_now_ms(evaluator) / 1000, datetime.UTC)
        return arrow_array([function(now, evaluator.session.zone)], call.type)[0]

    kernel.needs_session = True  # type: ignore[attr-defined]
    return kernel


def _local(now: datetime.datetime, zone: Any) -> datetime.datetime:
    return now.astimezone(zone).replace(tzinfo=None)


_LTZ = types.LocalZonedTimestampType(3, nullable=False)
define("CURRENT_TIMESTAMP|NOW|CURRENT_ROW_TIMESTAMP", "", lambda *_: _LTZ,
       _present(lambda now, _: now), is_deterministic=False)  # fmt: skip
define("LOCALTIMESTAMP", "", lambda *_: types.TimestampType(3, nullable=False),
       _present(_local), is_deterministic=False)  # fmt: skip
define("CURRENT_DATE", "", lambda *_: types.DateType(nullable=False),
       _present(lambda now, zone: _local(now, zone).date()), is_deterministic=False)  # fmt: skip
define("CURRENT_TIME|LOCALTIME", "", lambda *_: types.TimeType(0, nullable=False),
       _present(lambda now, zone: _local(now, zone).time().replace(microsecond=0)),
       is_deterministic=False)  # fmt: skip
define("PROCTIME", "", lambda *_: _LTZ.with_time_attribute(TimeAttribute.PROCTIME),
       _present(lambda now, _: now), is_deterministic=False)  # fmt: skip


def _watermark(arguments: list[Any], rows: int, call: Call, evaluator: Any) -> Any:
    import pyarrow as pa

    from penstock.table.types.arrow_types import arrow_array, arrow_type

    del arguments, rows
    mark = evaluator.watermark
    if mark is None or abs(mark) > 1 << 60:
        return pa.scalar(None, arrow_type(call.type))
    return arrow_array([EPOCH + mark * MILLISECOND], call.type)[0]


_watermark.needs_session = True  # type: ignore[attr-defined]


def _watermark_type(arguments: list[Expression], _: tuple[Any, ...]) -> DataType:
    if not getattr(arguments[0].type, "is_rowtime", False):
        raise ValidationException("CURRENT_WATERMARK takes an event-time attribute")
    return without_time(arguments[0].type).nullable()


define("CURRENT_WATERMARK", "timestamp", _watermark_type, _watermark, is_deterministic=False)


def _database(arguments: list[Any], rows: int, call: Call, evaluator: Any) -> Any:
    import pyarrow as pa

    del arguments, rows, call
    return pa.scalar(evaluator.session.database, pa.string())


_database.needs_session = True  # type: ignore[attr-defined]
define("CURRENT_DATABASE", "", lambda *_: rules.string(nullable=False), _database)
