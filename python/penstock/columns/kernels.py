"""Python operators over columns, by Arrow kernels with exactly equal results.

Operands are Arrow arrays of one length, or Python constants; so are results.  An operand for which
no kernel is exact raises `GivenUpError`.  So does a null, which Python's operators reject.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from penstock.expressions.pure_functions import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

#: Integers up to this bound are exact as floats.
_EXACT: Final = 2**53

_INTEGERS: Final = (-(2**63), 2**63 - 1)


class GivenUpError(Exception):
    """No kernel computes the operation exactly."""


def _is_column(value: Any) -> bool:
    return hasattr(value, "null_count")


def kind_of(value: Any) -> str:
    """Return the kind of an operand: "integer", "float", "boolean", "text".

    Raises:
        GivenUpError: The operand is of another kind, or a value is null.
    """
    if not _is_column(value):
        kind = _KINDS.get(type(value))
        if kind is None or (kind == "integer" and not _INTEGERS[0] <= value <= _INTEGERS[1]):
            raise GivenUpError
        return kind
    if value.null_count:
        raise GivenUpError
    kind = _KINDS_OF_COLUMNS.get(str(value.type))
    if kind is None:
        raise GivenUpError
    return kind


_KINDS: Final[dict[type, str]] = {bool: "boolean", int: "integer", float: "float", str: "text"}
_KINDS_OF_COLUMNS: Final = {
    "bool": "boolean",
    "int8": "integer",
    "int16": "integer",
    "int32": "integer",
    "int64": "integer",
    "float": "float",
    "double": "float",
    "string": "text",
}


def _integers(value: Any) -> Any:
    """Return integers with 64 bits."""
    import pyarrow as pa

    if not _is_column(value):
        return pa.scalar(value, pa.int64())
    return value if value.type == pa.int64() else value.cast(pa.int64())


def _floats(value: Any) -> Any:
    """Return numbers as floats; integers only if that is exact."""
    import pyarrow as pa

    if not _is_column(value):
        if type(value) is int and abs(value) > _EXACT:
            raise GivenUpError
        return pa.scalar(float(value), pa.float64())
    return value if value.type == pa.float64() else value.cast(pa.float64())


def _with_type(value: Any) -> Any:
    """Return a text or a boolean with its type: to find one, pyarrow imports pandas."""
    import pyarrow as pa

    if _is_column(value):
        return value
    return pa.scalar(value, pa.bool_() if type(value) is bool else pa.string())


def computed(operation: str, left: Any, right: Any) -> Any:
    """Return the result of an arithmetic operator, "+" of texts, or "not".

    Raises:
        GivenUpError: No kernel computes it exactly.
        pyarrow.ArrowInvalid: A result has more than 64 bits, or a divisor is zero.
    """
    import pyarrow.compute as pc

    if operation == "not":
        found = truth(left)
        return not found if isinstance(found, bool) else pc.invert(found)
    kinds = {kind_of(left)} if operation == "negate" else {kind_of(left), kind_of(right)}
    if not _is_column(left) and not _is_column(right):
        # Both are constants: the call of the function raises Python's own error.
        return -left if operation == "negate" else _OPERATORS[operation](left, right)
    if kinds == {"text"} and operation == "+":
        return pc.binary_join_element_wise(*map(_with_type, (left, right, "")))
    if not kinds <= {"integer", "float"}:
        raise GivenUpError
    if operation == "negate":
        is_whole = kinds == {"integer"}
        return pc.negate_checked(_integers(left)) if is_whole else pc.negate(_floats(left))
    if operation == "/":
        return pc.divide_checked(_floats(left), _floats(right))
    if kinds == {"integer"}:
        return _of_integers(operation, _integers(left), _integers(right))
    if operation not in _OF_FLOATS:
        raise GivenUpError
    return getattr(pc, _OF_FLOATS[operation])(_floats(left), _floats(right))


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_OF_INTEGERS: Final = {"+": "add_checked", "-": "subtract_checked", "*": "multiply_checked"}
_OF_FLOATS: Final = {"+": "add", "-": "subtract", "*": "multiply"}


def _of_integers(operation: str, left: Any, right: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if operation in _OF_INTEGERS:
        return getattr(pc, _OF_INTEGERS[operation])(left, right)
    if operation not in ("//", "%"):
        raise GivenUpError
    # Arrow truncates, Python rounds down: they differ if the signs differ.
    quotient = pc.divide_checked(left, right)
    remainder = pc.subtract(left, pc.multiply(quotient, right))
    zero = pa.scalar(0, pa.int64())
    differs = pc.and_(
        pc.not_equal(remainder, zero),
        pc.not_equal(pc.less(remainder, zero), pc.less(right, zero)),
    )
    if not pc.any(differs).as_py():
        return quotient if operation == "//" else remainder
    if operation == "//":
        return pc.if_else(differs, pc.subtract(quotient, pa.scalar(1, pa.int64())), quotient)
    return pc.if_else(differs, pc.add(remainder, right), remainder)


def truth(value: Any) -> Any:
    """Return the mask of rows for which a value is true; a bool for a constant.

    Raises:
        GivenUpError: A value is null or of another kind.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is_column(value):
        if value is not None and type(value) not in _KINDS:
            raise GivenUpError
        return bool(value)
    kind = kind_of(value)
    if kind == "boolean":
        return value
    if kind == "text":
        return pc.not_equal(value, pa.scalar("", value.type))
    return pc.not_equal(value, pa.scalar(0, value.type))


def compared(operation: str, left: Any, right: Any) -> Any:
    """Return the mask of rows for which a comparison holds.

    Raises:
        GivenUpError: No kernel compares these exactly.
    """
    import pyarrow.compute as pc

    if operation in ("is", "is not"):
        if right is not None:
            raise GivenUpError
        if not _is_column(left):
            return (left is None) == (operation == "is")
        return pc.is_null(left) if operation == "is" else pc.is_valid(left)
    kinds = {kind_of(left), kind_of(right)}
    if not _is_column(left) and not _is_column(right):
        return _COMPARE[operation](left, right)
    if kinds == {"integer"}:
        left, right = _integers(left), _integers(right)
    elif kinds <= {"integer", "float"}:
        left, right = _floats(left), _floats(right)
    elif len(kinds) > 1:
        raise GivenUpError
    else:
        left, right = _with_type(left), _with_type(right)
    return getattr(pc, _COMPARISONS[operation])(left, right)


_COMPARISONS: Final = {
    "<": "less",
    "<=": "less_equal",
    "==": "equal",
    "!=": "not_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


def contained(operation: str, left: Any, right: Any) -> Any:
    """Return the mask of rows whose value is in a constant, or whose text contains one.

    Raises:
        GivenUpError: The operands are of other kinds.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if _is_column(right):
        if type(left) is not str or kind_of(right) != "text":
            raise GivenUpError
        found = pc.match_substring(right, left)
    elif _is_column(left) and type(right) in (tuple, frozenset, list, set):
        kind = kind_of(left)
        if kind not in ("integer", "text") or any(kind_of(each) != kind for each in right):
            raise GivenUpError
        whole = kind == "integer"
        values = pa.array(list(right), pa.int64() if whole else pa.string())
        found = pc.is_in(_integers(left) if whole else left, values)
    else:
        raise GivenUpError
    return pc.invert(found) if operation == "not in" else found


def _text_call(kernel: str, keyword: str = "") -> Callable[..., Any]:
    """Return a function of a column of texts, with a constant text if it has a keyword."""

    def call(*operands: Any) -> Any:
        import pyarrow.compute as pc

        if len(operands) != 1 + bool(keyword):
            raise GivenUpError
        if not _is_column(operands[0]) or kind_of(operands[0]) != "text":
            raise GivenUpError
        if not keyword:
            return getattr(pc, kernel)(operands[0])
        if type(operands[1]) is not str:
            raise GivenUpError
        return getattr(pc, kernel)(operands[0], **{keyword: operands[1]})

    return call


def _ascii_call(kernel: str) -> Callable[..., Any]:
    """Return a function of texts for which Arrow agrees with Python if the texts are ASCII."""
    plain = _text_call(kernel)

    def call(*operands: Any) -> Any:
        import pyarrow.compute as pc

        found = plain(*operands)
        if not pc.all(pc.string_is_ascii(operands[0])).as_py():
            raise GivenUpError
        return found

    return call


def _length(*operands: Any) -> Any:
    import pyarrow as pa

    return _text_call("utf8_length")(*operands).cast(pa.int64())


def _texts_of(column: Any) -> Any:
    """Return a column of texts without nulls."""
    if not _is_column(column) or kind_of(column) != "text":
        raise GivenUpError
    return column


def _find(column: Any, part: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    # Arrow counts bytes.
    if type(part) is not str or not pc.all(pc.string_is_ascii(_texts_of(column))).as_py():
        raise GivenUpError
    return pc.find_substring(column, part).cast(pa.int64())


def _replace(column: Any, old: Any, new: Any) -> Any:
    import pyarrow.compute as pc

    # If the old text is empty, Python inserts the new one between all characters.
    if type(old) is not str or type(new) is not str or not old:
        raise GivenUpError
    return pc.replace_substring(_texts_of(column), old, new)


def _slice(column: Any, start: Any, stop: Any) -> Any:
    import pyarrow.compute as pc

    first = 0 if start is None else start
    for place in (first, 0 if stop is None else stop):
        if type(place) is not int or not 0 <= place < 2**31:
            raise GivenUpError
    return pc.utf8_slice_codeunits(_texts_of(column), first, stop)


def _split(column: Any, separator: Any) -> Any:
    import pyarrow.compute as pc

    if type(separator) is not str or not separator:
        raise GivenUpError
    return pc.split_pattern(_texts_of(column), separator)


def element(parts: Any, position: int) -> Any:
    """Return the element at a position of each list of a column, such as split texts.

    Raises:
        GivenUpError: The column does not hold lists.
        pyarrow.ArrowInvalid: A list is shorter.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is_column(parts) or not pa.types.is_list(parts.type):
        raise GivenUpError
    return pc.list_element(parts, position)


def _absolute(column: Any) -> Any:
    import pyarrow.compute as pc

    kind = kind_of(column)
    if not _is_column(column) or kind not in ("integer", "float"):
        raise GivenUpError
    if kind == "integer":
        return pc.abs_checked(_integers(column))
    return pc.abs(_floats(column))


def _to_text(column: Any) -> Any:
    import pyarrow as pa

    kind = kind_of(column)
    if not _is_column(column) or kind not in ("integer", "text"):
        raise GivenUpError
    return column.cast(pa.string())


def _to_float(column: Any) -> Any:
    if not _is_column(column) or kind_of(column) not in ("integer", "float"):
        raise GivenUpError
    return _floats(column)


#: By the Python functions that programs call.
CALLS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    FUNCTIONS["str.lower"].call: _ascii_call("ascii_lower"),
    FUNCTIONS["str.upper"].call: _ascii_call("ascii_upper"),
    FUNCTIONS["str.starts_with"].call: _text_call("starts_with", "pattern"),
    FUNCTIONS["str.ends_with"].call: _text_call("ends_with", "pattern"),
    FUNCTIONS["str.contains"].call: _text_call("match_substring", "pattern"),
    FUNCTIONS["str.length"].call: _length,
    FUNCTIONS["str.find"].call: _find,
    FUNCTIONS["str.replace"].call: _replace,
    FUNCTIONS["str.slice"].call: _slice,
    FUNCTIONS["str.split"].call: _split,
    FUNCTIONS["abs"].call: _absolute,
    FUNCTIONS["to_string"].call: _to_text,
    FUNCTIONS["to_float"].call: _to_float,
}
