"""Functions that expressions may call: pure functions of their operands."""

from __future__ import annotations

import builtins
import datetime
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.common.typeinfo import TypeInformation


@dataclass(frozen=True)
class PureFunction:
    """A function without effects.

    Attributes:
        call: The implementation.
        takes: The kinds of its operands, as ``checking`` names them; the last one applies to all
            further operands.
        gives: The type of its result; None if it is not known in advance.
        classes: The exact classes of its first operand for which an evaluator may call it; empty
            for any scalar.
    """

    call: Callable[..., Any]
    takes: tuple[str, ...]
    gives: TypeInformation | None
    classes: tuple[type, ...] = ()


def _slice(text: str, start: int | None, stop: int | None) -> str:
    return text[start:stop]


def _contains(text: str, part: str) -> bool:
    return part in text


def _to_boolean(value: Any) -> bool:
    return bool(value)


_EPOCH: Final = datetime.datetime(1970, 1, 1)


def _of_millis(millis: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(milliseconds=millis)


def _year(millis: int) -> int:
    return _of_millis(millis).year


def _month(millis: int) -> int:
    return _of_millis(millis).month


def _day(millis: int) -> int:
    return _of_millis(millis).day


def _of_text(call: Callable[..., Any], gives: TypeInformation, *others: str) -> PureFunction:
    return PureFunction(call, ("string", *others), gives, (str,))


def _of_time(name: str, *classes: type) -> PureFunction:
    return PureFunction(operator.attrgetter(name), ("temporal",), Types.INT(), classes)


_STRING, _BOOLEAN, _INT = Types.STRING(), Types.BOOLEAN(), Types.INT()
_BIG_INT, _DOUBLE = Types.BIG_INT(), Types.DOUBLE()
_DATES: Final = (datetime.datetime, datetime.date)
_TIMES: Final = (datetime.datetime, datetime.time)

#: By name, prefixed by the namespace if any.
FUNCTIONS: Final[Mapping[str, PureFunction]] = {
    "str.lower": _of_text(str.lower, _STRING),
    "str.upper": _of_text(str.upper, _STRING),
    "str.title": _of_text(str.title, _STRING),
    "str.strip": _of_text(str.strip, _STRING, "string"),
    "str.lstrip": _of_text(str.lstrip, _STRING, "string"),
    "str.rstrip": _of_text(str.rstrip, _STRING, "string"),
    "str.replace": _of_text(str.replace, _STRING, "string"),
    "str.starts_with": _of_text(str.startswith, _BOOLEAN, "string"),
    "str.ends_with": _of_text(str.endswith, _BOOLEAN, "string"),
    "str.contains": _of_text(_contains, _BOOLEAN, "string"),
    "str.find": _of_text(str.find, _INT, "string"),
    "str.length": _of_text(len, _INT),
    "str.slice": _of_text(_slice, _STRING, "integer or null"),
    "str.split": _of_text(str.split, Types.LIST(_STRING), "string"),
    "dt.year": _of_time("year", *_DATES),
    "dt.month": _of_time("month", *_DATES),
    "dt.day": _of_time("day", *_DATES),
    "dt.weekday": PureFunction(datetime.date.isoweekday, ("temporal",), _INT, _DATES),
    "dt.hour": _of_time("hour", *_TIMES),
    "dt.minute": _of_time("minute", *_TIMES),
    "dt.second": _of_time("second", *_TIMES),
    "dt.microsecond": _of_time("microsecond", *_TIMES),
    "millis.year": PureFunction(_year, ("integer",), _INT, (int,)),
    "millis.month": PureFunction(_month, ("integer",), _INT, (int,)),
    "millis.day": PureFunction(_day, ("integer",), _INT, (int,)),
    "abs": PureFunction(abs, ("number",), None),
    "round": PureFunction(round, ("number", "integer"), None),
    "floor": PureFunction(math.floor, ("number",), _BIG_INT),
    "ceil": PureFunction(math.ceil, ("number",), _BIG_INT),
    "sqrt": PureFunction(math.sqrt, ("number",), _DOUBLE),
    "exp": PureFunction(math.exp, ("number",), _DOUBLE),
    "ln": PureFunction(math.log, ("number",), _DOUBLE),
    "log10": PureFunction(math.log10, ("number",), _DOUBLE),
    "least": PureFunction(builtins.min, ("any",), None),
    "greatest": PureFunction(builtins.max, ("any",), None),
    "to_integer": PureFunction(int, ("any",), None),
    "to_float": PureFunction(float, ("any",), _DOUBLE),
    "to_string": PureFunction(str, ("any",), _STRING),
    "to_boolean": PureFunction(_to_boolean, ("any",), _BOOLEAN),
}
