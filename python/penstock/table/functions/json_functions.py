"""JSON: constructors, and functions that read values by a path."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.casts import java_double, timestamp_text
from penstock.table.functions.registry import define, rowwise
from penstock.table.plan.expressions import Call, Expression

if TYPE_CHECKING:
    from collections.abc import Callable

STRING = rules.string()
_STEP = re.compile(
    r"""\.\.?(?P<name>[A-Za-z_]\w*|\*)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]|\["(?P<double>[^"]*)"\]"""
    r"""|\[(?P<index>-?\d+(?:\s*,\s*-?\d+)*|\*)\]"""
)


class JsonPathError(ValueError):
    """A path matches nothing, or the text is not JSON."""


@lru_cache(maxsize=256)
def parse_path(path: str) -> tuple[bool, tuple[Any, ...]]:
    """Parse a path: whether it is strict, and its steps: names, indexes, ``*`` and ``..``.

    Raises:
        JsonPathError: The path is malformed.
    """
    text = path.strip()
    mode, _, rest = text.partition(" ")
    is_strict = True
    if mode.lower() in ("lax", "strict"):
        is_strict, text = mode.lower() == "strict", rest.strip()
    if not text.startswith("$"):
        raise JsonPathError(f"Illegal JSON path {path!r}: it begins with $")
    steps: list[Any] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise JsonPathError(f"Illegal JSON path {path!r}")
        if found["name"] is not None:
            if found[0].startswith(".."):
                steps.append("..")
            steps.append(("*",) if found["name"] == "*" else found["name"])
        elif found["quoted"] is not None:
            steps.append(re.sub(r"\\(.)", r"\1", found["quoted"]))
        elif found["double"] is not None:
            steps.append(found["double"])
        elif found["index"] == "*":
            steps.append(("*",))
        else:
            numbers = [int(n) for n in found["index"].split(",")]
            steps.append(numbers[0] if len(numbers) == 1 else tuple(numbers))
        at = found.end()
    return is_strict, tuple(steps)


_MISSING = object()


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_float=decimal.Decimal)
    except (ValueError, RecursionError, decimal.InvalidOperation):
        raise JsonPathError(f"{text!r:.200} is not JSON") from None


def _is_definite(steps: tuple[Any, ...]) -> bool:
    return not any(isinstance(step, tuple) or step == ".." for step in steps)


def _follow(values: list[Any], step: Any, is_strict: bool) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if step == ".." or (isinstance(step, tuple) and step == ("*",)):
            if isinstance(value, dict):
                found.extend(value.values())
            elif isinstance(value, list):
                found.extend(value)
        elif isinstance(step, tuple):
            if isinstance(value, list):
                found.extend(value[i] for i in step if -len(value) <= i < len(value))
        elif isinstance(step, int):
            if isinstance(value, list) and -len(value) <= step < len(value):
                found.append(value[step])
            elif is_strict:
                raise JsonPathError(f"No element {step}")
        elif isinstance(value, dict) and step in value:
            found.append(value[step])
        elif is_strict:
            raise JsonPathError(f"No value at {step!r}")
    return found


def select(text: str, path: str) -> tuple[Any, bool]:
    """Return the value at a path, and whether it is a list of matches.

    The value is `_MISSING` if a lax path matches nothing, or the text is not JSON.

    Raises:
        JsonPathError: The path is strict, and matches nothing or the text is not JSON.
    """
    is_strict, steps = parse_path(path)
    try:
        values = [_load(text)]
    except JsonPathError:
        if is_strict:
            raise
        return _MISSING, False
    for position, step in enumerate(steps):
        if step == "..":
            values = _descendants(values)
        else:
            values = _follow(values, step, is_strict and _is_definite(steps[: position + 1]))
    if not _is_definite(steps):
        return values, True
    return (values[0] if values else _MISSING), False


def _descendants(values: list[Any]) -> list[Any]:
    found = []
    for value in values:
        found.append(value)
        if isinstance(value, dict):
            found.extend(_descendants(list(value.values())))
        elif isinstance(value, list):
            found.extend(_descendants(value))
    return found


# JSON_VALUE, JSON_QUERY, JSON_EXISTS --------------------------------------------------------------


def _options(options: tuple[Any, ...]) -> dict[str, Any]:
    return dict(options)


def _scalar_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, decimal.Decimal):
        return str(value)
    return str(value)


def _json_value(text: str | None, path: str, *rest: Any) -> Any:
    *defaults, options = rest
    known = _options(options)
    if text is None:
        return None
    try:
        value, is_list = select(text, path)
    except JsonPathError as error:
        return _otherwise(known.get("ERROR", ("NULL",)), defaults, str(error))
    if value is _MISSING or value is None:
        return _otherwise(known.get("EMPTY", ("NULL",)), defaults, "the result is empty")
    if is_list or isinstance(value, dict | list):
        return _otherwise(
            known.get("ERROR", ("NULL",)), defaults, f"{_dumps(value)} is not a scalar"
        )
    return _scalar_text(value)


def _otherwise(behaviour: tuple[Any, ...], defaults: list[Any], why: str) -> Any:
    match behaviour[0]:
        case "NULL":
            return None
        case "ERROR":
            raise TableException(f"JSON_VALUE: {why}")
        case "DEFAULT":
            return _scalar_text(defaults[behaviour[1] - 2])
    raise AssertionError(behaviour)


def _value_bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    known = _options(options)
    kind = known.get("RETURNING", STRING)
    made = Call(STRING, "JSON_VALUE", tuple(arguments), (tuple(
        pair for pair in options if pair[0] != "RETURNING"),))  # fmt: skip
    if rules.is_text(kind):
        return made
    from penstock.table.plan.expressions import Cast

    return Cast(kind.nullable(), made, is_try=False)


def _query_bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    known = _options(options)
    kind = known.get("RETURNING", STRING)
    is_array = isinstance(kind, types.ArrayType)
    kept = tuple(pair for pair in options if pair[0] != "RETURNING")
    return Call(
        kind.nullable() if is_array else STRING, "JSON_QUERY", tuple(arguments), (kept, is_array)
    )


def _json_query(text: str | None, path: str, options: Any, is_array: bool) -> Any:
    known = _options(options)
    if text is None:
        return None
    wrapper = known.get("WRAPPER", "WITHOUT")
    try:
        value, _ = select(text, path)
    except JsonPathError as error:
        return _empty(known.get("ERROR", ("NULL",)), str(error), is_array)
    if value is _MISSING or (value is None and wrapper == "WITHOUT"):
        return _empty(known.get("EMPTY", ("NULL",)), "the result is empty", is_array)
    # The matches of a path with a wildcard form an array, which may be wrapped as well.
    is_wrapped = wrapper == "UNCONDITIONAL" or (
        wrapper == "CONDITIONAL" and not isinstance(value, dict | list)
    )
    value = [value] if is_wrapped else value
    if not isinstance(value, dict | list):
        return _empty(
            known.get("ERROR", ("NULL",)), f"{_dumps(value)} is not an object or array", is_array
        )
    if is_array:
        return [v if isinstance(v, str) or v is None else _dumps(v) for v in value]
    return _dumps(value)


def _empty(behaviour: tuple[Any, ...], why: str, is_array: bool) -> Any:
    match behaviour[0]:
        case "NULL":
            return None
        case "EMPTY ARRAY":
            return [] if is_array else "[]"
        case "EMPTY OBJECT":
            return "{}"
    raise TableException(f"JSON_QUERY: {why}")


def _json_exists(text: str | None, path: str, options: Any) -> bool | None:
    known = _options(options)
    if text is None:
        return None
    try:
        value, is_list = select(text, path)
    except JsonPathError as error:
        match known.get("ERROR", ("FALSE",))[0]:
            case "TRUE":
                return True
            case "FALSE":
                return False
            case "UNKNOWN":
                return None
        raise TableException(f"JSON_EXISTS: {error}") from None
    # As in Flink, a list of matches exists, even an empty one.
    return is_list or (value is not _MISSING and value is not None)


def _exists_bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    return Call(types.BooleanType(), "JSON_EXISTS", tuple(arguments), (options,))


define(
    "JSON_VALUE", "text text any*", STRING,
    rowwise(_json_value, takes_nulls=True, options=True), bind=_value_bind,
)  # fmt: skip
define(
    "JSON_QUERY", "text text", STRING,
    rowwise(_json_query, takes_nulls=True, options=True), bind=_query_bind,
)  # fmt: skip
define(
    "JSON_EXISTS", "text text", types.BooleanType(),
    rowwise(_json_exists, takes_nulls=True, options=True), bind=_exists_bind,
)  # fmt: skip


# Constructors -------------------------------------------------------------------------------------


class RawJson(str):
    """A text that is already JSON."""

    __slots__ = ()


def _dumps(value: Any) -> str:
    """Format a value as JSON in one line, like Jackson."""
    if isinstance(value, RawJson):
        return str(value)
    if isinstance(value, dict):
        # As in Flink, members are in the order of their names.
        parts = (f"{json.dumps(k, ensure_ascii=False)}:{_dumps(value[k])}" for k in sorted(value))
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_dumps, value)) + "]"
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, float):
        return java_double(value)
    return json.dumps(value, ensure_ascii=False)


def json_value(value: Any, kind: Any) -> Any:
    """Convert an SQL value to a JSON value."""
    if value is None:
        return None
    if isinstance(kind, types.RowType):
        return {
            f.name: json_value(v, f.data_type)
            for f, v in zip(kind, _parts(value, kind), strict=True)
        }
    if isinstance(kind, types.MapType):
        items = value.items() if isinstance(value, dict) else value
        return {str(k): json_value(v, kind.value_type) for k, v in items}
    if isinstance(kind, types.ArrayType):
        return [json_value(v, kind.element_type) for v in value]
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        text = timestamp_text(value, getattr(kind, "precision", 3)).replace(" ", "T")
        return text + ("Z" if value.tzinfo is not None else "")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value


def _parts(value: Any, kind: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    del kind
    return list(value)


_JSON_CALLS = ("JSON_OBJECT", "JSON_ARRAY", "JSON_OBJECTAGG", "JSON_ARRAYAGG", "JSON")


def _is_json(argument: Expression) -> bool:
    """Return whether an argument is JSON text, which is not quoted again."""
    from penstock.table.plan.expressions import AggregateCall

    if isinstance(argument, Call):
        return argument.function in _JSON_CALLS
    return isinstance(argument, AggregateCall) and argument.function in _JSON_CALLS


def _object_bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    if len(arguments) % 2:
        raise ValidationException("JSON_OBJECT takes pairs of keys and values")
    for key in arguments[::2]:
        if not rules.is_text(key.type):
            raise ValidationException(f"A key of JSON_OBJECT is a text, got <{key.type}>")
    return _constructor("JSON_OBJECT", arguments, options or ("NULL",))


def _array_bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    return _constructor("JSON_ARRAY", arguments, options or ("ABSENT",))


def _constructor(name: str, arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    kinds = tuple(a.type for a in arguments)
    raw = tuple(map(_is_json, arguments))
    return Call(rules.string(nullable=False), name, tuple(arguments), (str(options[0]), kinds, raw))


def _values(values: tuple[Any, ...], kinds: Any, raw: Any) -> list[Any]:
    return [
        RawJson(v) if is_raw and v is not None else json_value(v, k)
        for v, k, is_raw in zip(values, kinds, raw, strict=True)
    ]


def _json_object(*given: Any) -> str:
    *values, on_null, kinds, raw = given
    made = _values(tuple(values), kinds, raw)
    pairs = {
        k: v
        for k, v in zip(made[::2], made[1::2], strict=True)
        if v is not None or on_null != "ABSENT"
    }
    return _dumps(pairs)


def _json_array(*given: Any) -> str:
    *values, on_null, kinds, raw = given
    made = _values(tuple(values), kinds, raw)
    return _dumps([v for v in made if v is not None or on_null != "ABSENT"])


define("JSON_OBJECT", "any*", STRING, rowwise(_json_object, takes_nulls=True, options=True),
       bind=_object_bind)  # fmt: skip
define("JSON_ARRAY", "any*", STRING, rowwise(_json_array, takes_nulls=True, options=True),
       bind=_array_bind)  # fmt: skip


def _json_string_bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    kind = arguments[0].type
    return Call(rules.string(kind.is_nullable), "JSON_STRING", tuple(arguments), (kind,))


def _raw_bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    return Call(STRING.with_nullability(arguments[0].type.is_nullable), "JSON", tuple(arguments))


define("JSON_STRING", "any", STRING, rowwise(lambda v, k: _dumps(json_value(v, k)), options=True),
       bind=_json_string_bind)  # fmt: skip
define("JSON", "text", STRING, rowwise(lambda v: _dumps(_load(v))), bind=_raw_bind)
define("JSON_QUOTE", "text", STRING, rowwise(lambda v: json.dumps(v).replace("/", r"\/")))


def _unquote(value: str) -> str:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, str) else value


define("JSON_UNQUOTE", "text", STRING, rowwise(_unquote))


# IS JSON ------------------------------------------------------------------------------------------

_KINDS: dict[str, Callable[[Any], bool]] = {
    "VALUE": lambda _: True,
    "OBJECT": lambda v: isinstance(v, dict),
    "ARRAY": lambda v: isinstance(v, list),
    "SCALAR": lambda v: not isinstance(v, dict | list),
}


def _is_json_text(text: str | None, kind: str = "VALUE") -> bool:
    if text is None:
        return False
    try:
        return _KINDS[kind](json.loads(text))
    except (ValueError, RecursionError):
        return False


def _is_json_bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    return Call(types.BooleanType(nullable=False), "IS JSON", tuple(arguments), options[:1])


define(
    "IS JSON", "text", types.BooleanType(),
    rowwise(_is_json_text, takes_nulls=True, options=True), bind=_is_json_bind,
)  # fmt: skip
