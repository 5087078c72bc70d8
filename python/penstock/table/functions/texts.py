"""Functions of texts and bytes."""

from __future__ import annotations

import re
import uuid
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.logic import cast_to
from penstock.table.functions.plain_patterns import re2_pattern
from penstock.table.functions.registry import (
    define,
    nullable_result,
    rowwise,
)
from penstock.table.plan.expressions import Call, Column, Expression, Literal, walk

if TYPE_CHECKING:
    from collections.abc import Callable

STRING = rules.string()
INT = types.IntType()
BOOLEAN = types.BooleanType()


def _compute(name: str) -> Any:
    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        del rows, call
        import pyarrow.compute as pc

        return getattr(pc, name)(*arguments)

    return kernel


def _cased(name: str, by_row: Callable[[str], str]) -> Any:
    """Return the kernel of a change of case; Arrow maps some letters otherwise than Java."""
    whole_rows = rowwise(by_row)

    def kernel(arguments: list[Any], rows: int, call: Call) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        (value,) = arguments
        if isinstance(value, pa.Scalar) or not pc.all(pc.string_is_ascii(value)).as_py():
            return whole_rows(arguments, rows, call)
        return getattr(pc, f"ascii_{name}")(value)

    return kernel


def _first_byte(value: str) -> int:
    """Return the first byte, which is signed as in Java."""
    return int.from_bytes(value.encode()[:1], signed=True)


def _length(arguments: list[Any], rows: int, call: Call) -> Any:
    del rows, call
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.utf8_length(arguments[0]).cast(pa.int32())


_replaced_rows = rowwise(lambda v, a, b: v.replace(a, b))


def _replaced(arguments: list[Any], rows: int, call: Call) -> Any:
    """Evaluate REPLACE by Arrow if the texts to find and to insert are constant."""
    import pyarrow as pa
    import pyarrow.compute as pc

    value, old, new = arguments
    if isinstance(value, pa.Array) and isinstance(old, pa.Scalar) and isinstance(new, pa.Scalar):
        pattern, replacement = old.as_py(), new.as_py()
        if pattern and replacement is not None:
            return pc.replace_substring(value, pattern=pattern, replacement=replacement)
    return _replaced_rows(arguments, rows, call)


define("UPPER", "text", "first", _cased("upper", str.upper))
define("LOWER", "text", "first", _cased("lower", str.lower))
define("CHAR_LENGTH|CHARACTER_LENGTH", "text", INT, _length)
define(
    "OCTET_LENGTH", "textual", INT, rowwise(lambda v: len(v.encode() if isinstance(v, str) else v))
)
define("REVERSE", "text", nullable_result(STRING), rowwise(lambda v: v[::-1]))
define("INITCAP", "text", "first", rowwise(lambda v: _initcap(v)))
define("ASCII", "text", INT, rowwise(_first_byte))
define("CHR", "int", nullable_result(STRING), rowwise(lambda v: "" if v < 0 else chr(v % 256)))
define("REPEAT", "text int", STRING, rowwise(lambda v, n: v * max(n, 0)))
define("REPLACE", "text text text", STRING, _replaced)
define("STARTSWITH", "textual textual", BOOLEAN, rowwise(lambda v, p: v.startswith(p)))
define("ENDSWITH", "textual textual", BOOLEAN, rowwise(lambda v, p: v.endswith(p)))
define(
    "TRANSLATE|TRANSLATE3", "text text text", STRING, rowwise(lambda v, a, b: _translate(v, a, b))
)
define("UUID", "", types.CharType(36, nullable=False), rowwise(lambda: str(uuid.uuid4())),
       is_deterministic=False)  # fmt: skip


def _initcap(value: str) -> str:
    # As in Flink, other characters than ASCII's letters and digits separate words.
    return re.sub("[A-Za-z0-9]+", lambda m: m[0].capitalize(), value)


def _translate(value: str, source: str, target: str) -> str:
    table: dict[int, str | None] = {}
    for position, character in enumerate(source):
        if ord(character) not in table:
            table[ord(character)] = target[position] if position < len(target) else None
    return value.translate(table)


# Concatenation ------------------------------------------------------------------------------------


def _pipes(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    left, right = arguments
    if isinstance(left.type, types.ArrayType) or isinstance(right.type, types.ArrayType):
        from penstock.table.functions.registry import call

        return call("ARRAY_CONCAT", left, right)
    for kind in (left.type, right.type):
        if not (rules.is_text(kind) or rules.is_bytes(kind) or isinstance(kind, types.NullType)):
            raise ValidationException(
                f"Cannot apply '||' to arguments of type '<{left.type}> || <{right.type}>': it "
                "joins texts, use CAST or CONCAT"
            )
    made = [_as_text(a) for a in arguments]
    nullable = any(a.type.is_nullable for a in made)
    kinds: list[Any] = [a.type for a in made]
    length = min(sum(k.length for k in kinds), rules.MAX_LENGTH)
    joined = (
        types.CharType(length, nullable)
        if all(isinstance(k, types.CharType) for k in kinds)
        else types.VarCharType(length, nullable)
    )
    return Call(joined, "||", tuple(made))


def _as_text(argument: Expression) -> Expression:
    return argument if rules.is_text(argument.type) else cast_to(argument, STRING)


def _join(arguments: list[Any], rows: int, call: Call) -> Any:
    del rows, call
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*arguments, pa.scalar("", pa.string()))


define("||", "any any", STRING, _join, bind=_pipes)


def _concat(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    made = tuple(_as_text(a) for a in arguments)
    nullable = any(a.type.is_nullable for a in made)
    return Call(rules.string(nullable), "CONCAT", made)


def _concat_ws(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    made = tuple(_as_text(a) for a in arguments)
    # As in Flink, a NULL among the parts makes the type nullable, though not the result.
    return Call(rules.string(any(a.type.is_nullable for a in made)), "CONCAT_WS", made)


def _joined(separator: str | None, *parts: str | None) -> str | None:
    if separator is None:
        return None
    return separator.join(p for p in parts if p is not None)


define("CONCAT", "text*", STRING, _join, bind=_concat)
define("CONCAT_WS", "text text*", STRING, rowwise(_joined, takes_nulls=True), bind=_concat_ws)


# Parts --------------------------------------------------------------------------------------------


def _substring(value: Any, start: int, length: int | None = None) -> Any:
    if length is not None and length < 0:
        return None
    if start > 0:
        first = start - 1
    elif start < 0:
        first = len(value) + start
        if first < 0:
            return type(value)()
    else:
        first = 0
    last = len(value) if length is None else first + length
    return value[first:last]


def _part_type(arguments: list[Expression], _: Any) -> types.DataType:
    """Return the type of a part of a text: at most as long as the text."""
    whole = arguments[0].type
    if isinstance(whole, types.CharType | types.VarCharType):
        return types.VarCharType(whole.length)
    return STRING


define("SUBSTRING|SUBSTR", "text int int?", _part_type, rowwise(_substring))


def _overlaid_type(arguments: list[Expression], _: Any) -> types.DataType:
    """Return the type of a text with a part replaced: at most as long as both together."""
    kinds: list[Any] = [argument.type for argument in arguments[:2]]
    length = min(sum(kind.length for kind in kinds), rules.MAX_LENGTH)
    return types.VarCharType(length, any(a.type.is_nullable for a in arguments))


define("LEFT", "text int", _part_type, rowwise(lambda v, n: "" if n < 0 else v[:n]))
define("RIGHT", "text int", _part_type, rowwise(lambda v, n: "" if n <= 0 else v[-n:]))
define("POSITION", "text text", INT, rowwise(lambda part, v: v.find(part) + 1))
define("INSTR", "text text int? int?", INT, rowwise(lambda v, part, *more: _instr(v, part, *more)))
define("LOCATE", "text text int?", INT, rowwise(lambda part, v, at=1: _locate(part, v, at)))
define(
    "OVERLAY", "text text int int?", _overlaid_type,
    rowwise(lambda v, new, at, length=None: _overlay(v, new, at, length)),
)  # fmt: skip
define("LPAD", "text int text", STRING, rowwise(lambda v, n, p: _pad(v, n, p, is_left=True)))
define("RPAD", "text int text", STRING, rowwise(lambda v, n, p: _pad(v, n, p, is_left=False)))


def _instr(value: str, part: str, start: int = 1, occurrence: int = 1) -> int:
    if occurrence <= 0:
        return 0
    at = start - 1
    if start > 0:
        for number in range(occurrence):
            at = value.find(part, at)
            if at < 0:
                return 0
            if number < occurrence - 1:
                at += 1
        return at + 1
    end = len(value) + start + len(part)
    for _ in range(occurrence):
        at = value.rfind(part, 0, max(end, 0))
        if at < 0:
            return 0
        end = at + len(part) - 1
    return at + 1


def _locate(part: str, value: str, start: int) -> int:
    return value.find(part, max(start - 1, 0)) + 1


def _overlay(value: str, new: str, start: int, length: int | None) -> str:
    if start <= 0 or start > len(value):
        return value
    length = len(new) if length is None else length
    first = start - 1
    if first + length > len(value) or length < 0:
        return value[:first] + new
    return value[:first] + new + value[first + length :]


def _pad(value: str, length: int, pad: str, *, is_left: bool) -> str | None:
    if length < 0 or (not pad and length > len(value)):
        return None
    if length <= len(value):
        return value[:length]
    wanted = length - len(value)
    filling = (pad * (wanted // len(pad) + 1))[:wanted]
    return filling + value if is_left else value + filling


# Trimming -----------------------------------------------------------------------------------------


def _trim(value: str, *rest: str) -> str:
    characters, side = (rest[0], rest[1]) if len(rest) == 2 else (" ", rest[0])
    if side in ("BOTH", "LEADING"):
        value = value.lstrip(characters)
    if side in ("BOTH", "TRAILING"):
        value = value.rstrip(characters)
    return value


def _trim_bind(arguments: list[Expression], options: tuple[Any, ...]) -> Expression:
    side = options if options else ("BOTH",)
    if len(arguments) == 3:  # the Table API passes the side as an argument
        arguments = arguments[1:]
    return Call(_trimmed_type(arguments, ()), "TRIM", tuple(arguments), side)


def _trimmed_type(arguments: list[Expression], _: Any) -> types.DataType:
    """Return the type of a text without its ends: a VARCHAR as long as the text."""
    kind: Any = arguments[0].type
    length = kind.length if rules.is_text(kind) else rules.MAX_LENGTH
    return types.VarCharType(length, any(a.type.is_nullable for a in arguments))


define("TRIM", "text text? text?", STRING, rowwise(_trim, options=True), bind=_trim_bind)
define("LTRIM", "text text?", _trimmed_type, rowwise(lambda v, c=" ": v.lstrip(c)))
define("RTRIM", "text text?", _trimmed_type, rowwise(lambda v, c=" ": v.rstrip(c)))
define("BTRIM", "text text?", STRING, rowwise(lambda v, c=" ": v.strip(c)))


# Splitting ----------------------------------------------------------------------------------------


def _split_index(value: str, separator: Any, index: int) -> str | None:
    if isinstance(separator, int):
        if not 1 <= separator <= 255:
            return None
        separator = chr(separator)
    if index < 0 or not value:
        return None
    # As in Flink, an empty separator stands for each space.
    parts = value.split(separator) if separator else re.split(r"\s", value)
    return parts[index] if index < len(parts) else None


def _split(value: str, separator: str) -> list[str]:
    return value.split(separator) if value and separator else list(value)


def _split_expanded(call: Call) -> Expression | None:
    """Return SPLIT_INDEX as a part of a split that calls with other constant indices share."""
    value, separator, index = call.arguments
    if not any(isinstance(part, Column) for part in walk(value)):
        return None
    if not isinstance(separator, Literal) or not isinstance(index, Literal):
        return None
    if not isinstance(separator.value, str) or not separator.value:
        return None
    if index.value is None or index.value < 0:
        return None
    # Splits of up to 7, 15, … separators: an index needs those up to the one behind its part.
    most = Literal(INT, (index.value + 1) | 7)
    parts = Call(types.ArrayType(STRING), "$SPLITS", (value, separator, most))
    return Call(call.type, "$PART", (parts, value, index))


def _splits(arguments: list[Any], rows: int, call: Call) -> Any:
    del rows, call
    import pyarrow.compute as pc

    value, separator, most = arguments
    return pc.split_pattern(value, separator.as_py(), max_splits=most.as_py())


def _part_of_split(arguments: list[Any], rows: int, call: Call) -> Any:
    del rows, call
    import pyarrow as pa
    import pyarrow.compute as pc

    parts, value, index = arguments
    position = index.as_py()
    nothing = pa.scalar(None, pa.string())
    if position == 0:
        # The only part of an empty text is NULL.
        is_there = pc.not_equal(value, pa.scalar("", pa.string()))
        return pc.if_else(is_there, pc.list_element(parts, index), nothing)
    lengths = pc.list_value_length(parts)
    least = pc.min(lengths).as_py()
    if least is not None and least > position:
        return pc.list_element(parts, index)
    is_there = pc.greater(lengths, index)
    kept = pc.if_else(is_there, parts, pa.scalar(None, parts.type))
    filled = pc.fill_null(kept, pa.scalar([""] * (position + 1), parts.type))
    return pc.if_else(is_there, pc.list_element(filled, index), nothing)


define("SPLIT_INDEX", "text any int", nullable_result(STRING), rowwise(_split_index),
       expand=_split_expanded)  # fmt: skip
define("$SPLITS", "text text int", types.ArrayType(STRING), _splits)
define("$PART", "array text int", nullable_result(STRING), _part_of_split)
define("SPLIT", "text text", types.ArrayType(STRING), rowwise(_split))


def _str_to_map(value: str, pairs: str = ",", keys: str = "=") -> dict[str, str | None]:
    made: dict[str, str | None] = {}
    for part in re.split(pairs, value) if value else ():
        found = re.split(keys, part, maxsplit=1)
        made[found[0]] = found[1] if len(found) > 1 else None
    return made


define(
    "STR_TO_MAP", "text text? text?", nullable_result(types.MapType(STRING, STRING)),
    rowwise(_str_to_map),
)  # fmt: skip


def _choice_type(arguments: list[Expression], _: Any) -> types.DataType:
    """Return the common type of the texts: CHAR if all have one length."""
    common = rules.common_type([argument.type for argument in arguments[1:]])
    return common.nullable() if isinstance(common, types.CharType | types.VarCharType) else STRING


define("ELT", "int text*", _choice_type, rowwise(
    lambda i, *texts: texts[i - 1] if 0 < i <= len(texts) else None))  # fmt: skip


# Regular expressions ------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def java_pattern(pattern: str) -> re.Pattern[str]:
    """Convert Java's regular expression to Python's.

    Raises:
        ValueError: The text is malformed.
    """
    text = re.sub(r"\(\?<([A-Za-z]\w*)>", r"(?P<\1>", pattern)
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"invalid regular expression {pattern!r}: {error}") from None


def _lenient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns NULL for an invalid pattern, as Flink does."""

    def called(*values: Any) -> Any:
        try:
            return function(*values)
        except ValueError:
            return None

    return called


def _regexp_extract(value: str, pattern: str, group: int = 0) -> str | None:
    found = java_pattern(pattern).search(value)
    if found is None or group < 0 or group > (found.re.groups or 0):
        return None
    return found[group]


_regexp_extract_rows = rowwise(_lenient(_regexp_extract))


def _regexp_extract_kernel(arguments: list[Any], rows: int, call: Call) -> Any:
    """Evaluate REGEXP_EXTRACT by Arrow if the pattern and the group are plain constants."""
    import pyarrow as pa
    import pyarrow.compute as pc

    value, *constants = arguments
    if isinstance(value, pa.Array) and all(isinstance(each, pa.Scalar) for each in constants):
        pattern, group = [*(each.as_py() for each in constants), 0][:2]
        found = None if pattern is None or group is None else re2_pattern(pattern, group)
        if found is not None:
            return pc.struct_field(pc.extract_regex(value, found), [0])
    return _regexp_extract_rows(arguments, rows, call)


def _regexp_extract_all(value: str, pattern: str, group: int = 1) -> list[str] | None:
    compiled = java_pattern(pattern)
    if group < 0 or group > compiled.groups:
        return None
    return [m[group] for m in compiled.finditer(value)]


def _regexp_replace(value: str, pattern: str, new: str) -> str:
    # As in Flink, the replacement is literal: $1 does not refer to a group.
    return java_pattern(pattern).sub(lambda _: new, value)


def _regexp_instr(value: str, pattern: str) -> int:
    found = java_pattern(pattern).search(value)
    return 0 if found is None else found.start() + 1


def _regexp_substr(value: str, pattern: str) -> str | None:
    found = java_pattern(pattern).search(value)
    return None if found is None else found[0]


def _regexp(value: str, pattern: str) -> bool:
    """Return whether a pattern is found; an empty or invalid one is not, as in Flink."""
    try:
        return bool(pattern) and java_pattern(pattern).search(value) is not None
    except ValueError:
        return False


define("REGEXP", "text text", BOOLEAN, rowwise(_regexp))
define("REGEXP_REPLACE", "text text text", STRING, rowwise(_lenient(_regexp_replace)))
define("REGEXP_EXTRACT", "text text int?", nullable_result(STRING), _regexp_extract_kernel)
define(
    "REGEXP_EXTRACT_ALL", "text text int?", nullable_result(types.ArrayType(STRING)),
    rowwise(_lenient(_regexp_extract_all)),
)  # fmt: skip
define("REGEXP_COUNT", "text text", nullable_result(INT), rowwise(
    _lenient(lambda v, p: sum(1 for _ in java_pattern(p).finditer(v)))))  # fmt: skip
define("REGEXP_INSTR", "text text", nullable_result(INT), rowwise(_lenient(_regexp_instr)))
define("REGEXP_SUBSTR", "text text", nullable_result(STRING), rowwise(_lenient(_regexp_substr)))


# PRINTF -------------------------------------------------------------------------------------------


def _printf_bind(arguments: list[Expression], _: tuple[Any, ...]) -> Expression:
    return Call(STRING, "PRINTF", tuple(arguments))


def _printf(pattern: str | None, *values: Any) -> str | None:
    if pattern is None:
        return None
    try:
        return re.sub(r"%(\d+\$)?", "%", pattern) % tuple(
            "null" if v is None else v for v in values
        )
    except (TypeError, ValueError):
        return None


define("PRINTF", "text any*", STRING, rowwise(_printf, takes_nulls=True), bind=_printf_bind)


# Internet addresses -------------------------------------------------------------------------------


_PART_OF_ADDRESS = re.compile(r"\d{1,10}", re.ASCII)


def _inet_aton(text: str) -> int | None:
    parts = text.split(".")
    if not 1 <= len(parts) <= 4 or not all(map(_PART_OF_ADDRESS.fullmatch, parts)):
        return None
    *front, last = map(int, parts)
    if any(p > 255 for p in front) or last >= 256 ** (4 - len(front)):
        return None
    value = last
    for position, part in enumerate(front):
        value += part << (8 * (3 - position))
    return value


def _inet_ntoa(value: int) -> str | None:
    if not 0 <= value < 1 << 32:
        return None
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


define("INET_ATON", "text", nullable_result(types.BigIntType()), rowwise(_inet_aton))
define("INET_NTOA", "int", nullable_result(STRING), rowwise(_inet_ntoa))


def text_of(expression: Expression) -> str | None:
    """Return the text of a literal; None for other expressions."""
    value = expression.value if isinstance(expression, Literal) else None
    return value if isinstance(value, str) else None
