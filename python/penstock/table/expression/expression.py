"""Expression: the result of ``col``, ``lit`` and ``call``, with PyFlink's operators and methods.

An expression wraps an unresolved tree of ``penstock.table.plan.expressions``, whose calls have
SQL's names.  Types and names are checked when a table uses the expression.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.expression.literals import check_literal
from penstock.table.expression.options import (
    JsonExistsOnError,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
    TimeIntervalUnit,
)
from penstock.table.plan.expressions import (
    UnresolvedAlias,
    UnresolvedCall,
    UnresolvedCast,
    UnresolvedColumn,
    UnresolvedLiteral,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


T = TypeVar("T")


def tree_of(value: Any) -> Any:
    """Return the unresolved tree of an expression or of a Python value."""
    if isinstance(value, Expression):
        return value.tree
    check_literal(value)
    return UnresolvedLiteral(value)


def make_call(function: str, *arguments: Any, options: tuple[Any, ...] = ()) -> Expression[Any]:
    """Return the call of a function by its SQL name."""
    return Expression(UnresolvedCall(function, tuple(map(tree_of, arguments)), options=options))


class _Unary:
    """A property that calls a function on the expression."""

    def __init__(self, function: str) -> None:
        self._function = function

    def __get__(self, instance: Expression[Any], owner: type) -> Expression[Any]:
        if instance is None:
            return self
        return make_call(self._function, instance)


class _Interval:
    """A property that creates an interval from a literal number."""

    def __init__(self, unit: str) -> None:
        self._unit = unit

    def __get__(self, instance: Expression[Any], owner: type) -> Expression[Any]:
        if instance is None:
            return self
        tree = instance.tree
        if not isinstance(tree, UnresolvedLiteral) or not isinstance(tree.value, (int, float)):
            raise ValidationException(
                f"The interval of {tree} {self._unit}s needs a number: write lit(5).{self._unit}s"
            )
        return Expression(interval(tree.value, self._unit))


_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_MILLISECONDS: Final = {
    "milli": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}


def interval(number: float, unit: str) -> UnresolvedLiteral:
    """Return the literal of an interval: of months, or of milliseconds as a timedelta."""
    months = _MONTHS.get(unit)
    if months is not None:
        return UnresolvedLiteral(int(number * months), types.YearMonthIntervalType().not_null())
    length = datetime.timedelta(milliseconds=number * _MILLISECONDS[unit])
    kind = types.DayTimeIntervalType(fractional_precision=3, nullable=False)
    return UnresolvedLiteral(length, kind)


def _binary(function: str, *, reverse: bool = False) -> Callable[[Any, Any], Expression[Any]]:
    def method(self: Expression[Any], other: Any) -> Expression[Any]:
        return make_call(function, other, self) if reverse else make_call(function, self, other)

    method.__doc__ = f"Return the call of SQL's {function}."
    return method


def _method(function: str) -> Callable[..., Expression[Any]]:
    """Return a method that passes its arguments to a function, without trailing Nones."""

    def method(self: Expression[Any], *arguments: Any, **named: Any) -> Expression[Any]:
        values = [*arguments, *named.values()]
        while values and values[-1] is None:
            values.pop()
        return make_call(function, self, *values)

    method.__doc__ = f"Return the call of SQL's {function} with the expression and the arguments."
    return method


class Expression(Generic[T]):
    """A computation of a column of a table.

    Operators and methods create larger expressions; every argument may be an expression or a
    Python value.  Methods have PyFlink's names and call the SQL function named beside them.
    """

    __slots__ = ("tree",)

    def __init__(self, tree: Any) -> None:
        """Wrap an unresolved tree; use ``penstock.table.expressions``."""
        self.tree = tree

    # Operators --------------------------------------------------------------------------------

    __eq__ = _binary("=")  # type: ignore[assignment] # an expression, as in PyFlink
    __ne__ = _binary("<>")  # type: ignore[assignment] # an expression, as in PyFlink
    __lt__ = _binary("<")
    __gt__ = _binary(">")
    __le__ = _binary("<=")
    __ge__ = _binary(">=")
    __and__ = _binary("AND")
    __or__ = _binary("OR")
    __rand__ = _binary("AND", reverse=True)
    __ror__ = _binary("OR", reverse=True)
    __add__ = _binary("+")
    __sub__ = _binary("-")
    __mul__ = _binary("*")
    __truediv__ = _binary("/")
    __mod__ = _binary("MOD")
    __pow__ = _binary("POWER")
    __radd__ = _binary("+", reverse=True)
    __rsub__ = _binary("-", reverse=True)
    __rmul__ = _binary("*", reverse=True)
    __rtruediv__ = _binary("/", reverse=True)
    __rmod__ = _binary("MOD", reverse=True)
    __rpow__ = _binary("POWER", reverse=True)

    def __hash__(self) -> int:
        return hash(self.tree)

    def __invert__(self) -> Expression[bool]:
        """Return IS NOT TRUE, as in PyFlink: ``~`` of NULL is true."""
        return make_call("IS NOT TRUE", self)

    def __neg__(self) -> Expression[Any]:
        """Return the negated number."""
        return make_call("NEGATIVE", self)

    def __abs__(self) -> Expression[Any]:
        """Return ABS."""
        return make_call("ABS", self)

    def __bool__(self) -> bool:
        """Reject the call: an expression has no value while the program is built.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "An expression is neither true nor false while a program is built: combine conditions "
            "with &, | and ~ instead of and, or, not"
        )

    def __iter__(self) -> Any:
        """Reject the call: an expression is one column.

        Raises:
            TypeError: Always.
        """
        raise TypeError("An expression cannot be iterated: use flatten for the fields of a row")

    def __getitem__(self, index: Any) -> Expression[Any]:
        """Return the element of an array, from 1, or of a map, by key."""
        return self.at(index)

    def __getattr__(self, name: str) -> Expression[Any]:
        """Return the field of a row.

        Raises:
            AttributeError: The name begins with an underscore.
        """
        if name.startswith("_") or name == "tree":
            raise AttributeError(name)
        return self.get(name)

    def __str__(self) -> str:
        return str(self.tree)

    def __repr__(self) -> str:
        return f"<Expression {self.tree}>"

    # Mathematics ------------------------------------------------------------------------------

    exp = _Unary("EXP")
    log10 = _Unary("LOG10")
    log2 = _Unary("LOG2")
    ln = _Unary("LN")
    cosh = _Unary("COSH")
    sinh = _Unary("SINH")
    sin = _Unary("SIN")
    cos = _Unary("COS")
    tan = _Unary("TAN")
    cot = _Unary("COT")
    asin = _Unary("ASIN")
    acos = _Unary("ACOS")
    atan = _Unary("ATAN")
    tanh = _Unary("TANH")
    degrees = _Unary("DEGREES")
    radians = _Unary("RADIANS")
    sqrt = _Unary("SQRT")
    abs = _Unary("ABS")
    sign = _Unary("SIGN")
    bin = _Unary("BIN")
    hex = _Unary("HEX")
    unhex = _Unary("UNHEX")
    round = _method("ROUND")
    truncate = _method("TRUNCATE")

    def log(self, base: Any = None) -> Expression[float]:
        """Return the natural logarithm, or the one to a base."""
        return make_call("LN", self) if base is None else make_call("LOG", base, self)

    # Comparison and logic ---------------------------------------------------------------------

    is_null = _Unary("IS NULL")
    is_not_null = _Unary("IS NOT NULL")
    is_true = _Unary("IS TRUE")
    is_false = _Unary("IS FALSE")
    is_not_true = _Unary("IS NOT TRUE")
    is_not_false = _Unary("IS NOT FALSE")
    between = _method("BETWEEN")
    not_between = _method("NOT BETWEEN")
    then = _method("IF THEN ELSE")
    if_null = _method("IFNULL")

    def in_(self, first_element_or_table: Any, *remaining_elements: Any) -> Expression[bool]:
        """Return whether the value equals one of several values, or is in the rows of a table.

        Args:
            first_element_or_table: The first value, or a table with one column.
            remaining_elements: The other values.
        """
        first: Any = first_element_or_table
        node = getattr(first, "plan_node", None)
        if node is not None and not isinstance(first, Expression):
            tree = UnresolvedCall("IN TABLE", (self.tree,), options=(node,))
            return Expression(tree)
        return make_call("IN", self, first, *remaining_elements)

    # Aggregates -------------------------------------------------------------------------------

    sum = _Unary("SUM")
    sum0 = _Unary("$SUM0")
    min = _Unary("MIN")
    max = _Unary("MAX")
    count = _Unary("COUNT")
    avg = _Unary("AVG")
    first_value = _Unary("FIRST_VALUE")
    last_value = _Unary("LAST_VALUE")
    list_agg = _method("LISTAGG")
    stddev_pop = _Unary("STDDEV_POP")
    stddev_samp = _Unary("STDDEV_SAMP")
    var_pop = _Unary("VAR_POP")
    var_samp = _Unary("VAR_SAMP")
    collect = _Unary("COLLECT")
    array_agg = _Unary("ARRAY_AGG")
    percentile = _method("PERCENTILE")

    @property
    def distinct(self) -> Expression[Any]:
        """The aggregate over distinct values: ``col("a").sum.distinct``.

        Raises:
            ValidationException: The expression is not an aggregate.
        """
        if not isinstance(self.tree, UnresolvedCall):
            raise ValidationException(f"Only an aggregate can be distinct, got {self.tree}")
        return Expression(replace(self.tree, is_distinct=True))

    def over(self, alias: Any) -> Expression[Any]:
        """Return the aggregate over the rows of an OVER window that has this alias."""
        return make_call("OVER", self, _name(alias))

    # Names, types, order ----------------------------------------------------------------------

    asc = _Unary("ASC")
    desc = _Unary("DESC")
    start = _Unary("WINDOW_START")
    end = _Unary("WINDOW_END")
    rowtime = _Unary("ROWTIME")
    proctime = _Unary("PROCTIME")

    def alias(self, name: str, *extra_names: str) -> Expression[T]:
        """Name the expression; several names are for the columns of a table function."""
        return Expression(UnresolvedAlias(self.tree, (name, *extra_names)))

    def as_argument(self, name: str) -> Expression[Any]:
        """Return the expression as the named argument of a function."""
        return make_call("ARGUMENT", self, options=(name,))

    def cast(self, data_type: types.DataType) -> Expression[Any]:
        """Return CAST: a value that cannot be converted fails the job."""
        return Expression(UnresolvedCast(self.tree, data_type))

    def try_cast(self, data_type: types.DataType) -> Expression[Any]:
        """Return TRY_CAST: a value that cannot be converted becomes NULL."""
        return Expression(UnresolvedCast(self.tree, data_type, is_try=True))

    # Texts ------------------------------------------------------------------------------------

    char_length = _Unary("CHAR_LENGTH")
    upper_case = _Unary("UPPER")
    lower_case = _Unary("LOWER")
    init_cap = _Unary("INITCAP")
    from_base64 = _Unary("FROM_BASE64")
    to_base64 = _Unary("TO_BASE64")
    ascii = _Unary("ASCII")
    chr = _Unary("CHR")
    reverse = _Unary("REVERSE")
    concat = _method("CONCAT")
    starts_with = _method("STARTSWITH")
    ends_with = _method("ENDSWITH")
    substring = _method("SUBSTRING")
    substr = _method("SUBSTRING")
    replace = _method("REPLACE")
    translate = _method("TRANSLATE")
    like = _method("LIKE")
    similar = _method("SIMILAR TO")
    position = _method("POSITION")
    lpad = _method("LPAD")
    rpad = _method("RPAD")
    overlay = _method("OVERLAY")
    regexp = _method("REGEXP")
    regexp_count = _method("REGEXP_COUNT")
    regexp_replace = _method("REGEXP_REPLACE")
    regexp_extract = _method("REGEXP_EXTRACT")
    regexp_extract_all = _method("REGEXP_EXTRACT_ALL")
    regexp_instr = _method("REGEXP_INSTR")
    regexp_substr = _method("REGEXP_SUBSTR")
    decode = _method("DECODE")
    encode = _method("ENCODE")
    left = _method("LEFT")
    right = _method("RIGHT")
    instr = _method("INSTR")
    locate = _method("LOCATE")
    url_decode = _method("URL_DECODE")
    url_encode = _method("URL_ENCODE")
    inet_aton = _method("INET_ATON")
    inet_ntoa = _method("INET_NTOA")
    parse_url = _method("PARSE_URL")
    printf = _method("PRINTF")
    ltrim = _method("LTRIM")
    rtrim = _method("RTRIM")
    btrim = _method("BTRIM")
    repeat = _method("REPEAT")
    split_index = _method("SPLIT_INDEX")
    str_to_map = _method("STR_TO_MAP")
    elt = _method("ELT")
    split = _method("SPLIT")

    def trim(self, character: Any = None) -> Expression[str]:
        """Return the text without that character, a space by default, at both ends."""
        return make_call("TRIM", self, " " if character is None else character, options=("BOTH",))

    def trim_leading(self, character: Any = None) -> Expression[str]:
        """Return the text without that character, a space by default, at its beginning."""
        trimmed = " " if character is None else character
        return make_call("TRIM", self, trimmed, options=("LEADING",))

    def trim_trailing(self, character: Any = None) -> Expression[str]:
        """Return the text without that character, a space by default, at its end."""
        trimmed = " " if character is None else character
        return make_call("TRIM", self, trimmed, options=("TRAILING",))

    # Times ------------------------------------------------------------------------------------

    year = _Interval("year")
    years = _Interval("year")
    quarter = _Interval("quarter")
    quarters = _Interval("quarter")
    month = _Interval("month")
    months = _Interval("month")
    week = _Interval("week")
    weeks = _Interval("week")
    day = _Interval("day")
    days = _Interval("day")
    hour = _Interval("hour")
    hours = _Interval("hour")
    minute = _Interval("minute")
    minutes = _Interval("minute")
    second = _Interval("second")
    seconds = _Interval("second")
    milli = _Interval("milli")
    millis = _Interval("milli")

    @property
    def to_date(self) -> Expression[datetime.date]:
        """The date of a text of the form ``yyyy-MM-dd``."""
        return self.cast(types.DateType())

    @property
    def to_time(self) -> Expression[datetime.time]:
        """The time of a text of the form ``HH:mm:ss``."""
        return self.cast(types.TimeType(0))

    @property
    def to_timestamp(self) -> Expression[datetime.datetime]:
        """The timestamp of a text of the form ``yyyy-MM-dd HH:mm:ss[.SSS]``."""
        return self.cast(types.TimestampType(3))

    def extract(self, time_interval_unit: TimeIntervalUnit) -> Expression[int]:
        """Return a part of a point in time or of an interval."""
        return make_call("EXTRACT", self, options=(time_interval_unit.name,))

    def floor(self, time_interval_unit: TimeIntervalUnit | None = None) -> Expression[Any]:
        """Return the number, or the point in time to that unit, rounded down."""
        unit = () if time_interval_unit is None else (time_interval_unit.name,)
        return make_call("FLOOR", self, options=unit)

    def ceil(self, time_interval_unit: TimeIntervalUnit | None = None) -> Expression[Any]:
        """Return the number, or the point in time to that unit, rounded up."""
        unit = () if time_interval_unit is None else (time_interval_unit.name,)
        return make_call("CEIL", self, options=unit)

    # Collections and rows ---------------------------------------------------------------------

    flatten = _Unary("FLATTEN")
    cardinality = _Unary("CARDINALITY")
    element = _Unary("ELEMENT")
    map_keys = _Unary("MAP_KEYS")
    map_values = _Unary("MAP_VALUES")
    map_entries = _Unary("MAP_ENTRIES")
    at = _method("ITEM")
    array_append = _method("ARRAY_APPEND")
    array_contains = _method("ARRAY_CONTAINS")
    array_distinct = _method("ARRAY_DISTINCT")
    array_position = _method("ARRAY_POSITION")
    array_prepend = _method("ARRAY_PREPEND")
    array_remove = _method("ARRAY_REMOVE")
    array_reverse = _method("ARRAY_REVERSE")
    array_slice = _method("ARRAY_SLICE")
    array_sort = _method("ARRAY_SORT")
    array_union = _method("ARRAY_UNION")
    array_concat = _method("ARRAY_CONCAT")
    array_max = _method("ARRAY_MAX")
    array_min = _method("ARRAY_MIN")
    array_join = _method("ARRAY_JOIN")
    array_except = _method("ARRAY_EXCEPT")
    array_intersect = _method("ARRAY_INTERSECT")
    map_union = _method("MAP_UNION")
    object_update = _method("OBJECT_UPDATE")

    def get(self, name_or_index: str | int) -> Expression[Any]:
        """Return the field of a row, by name or by position from 0."""
        return make_call("GET", self, options=(name_or_index,))

    # Hashes -----------------------------------------------------------------------------------

    md5 = _Unary("MD5")
    sha1 = _Unary("SHA1")
    sha224 = _Unary("SHA224")
    sha256 = _Unary("SHA256")
    sha384 = _Unary("SHA384")
    sha512 = _Unary("SHA512")
    sha2 = _method("SHA2")

    # JSON -------------------------------------------------------------------------------------

    json_quote = _method("JSON_QUOTE")
    json_unquote = _method("JSON_UNQUOTE")

    def is_json(self, json_type: JsonType | None = None) -> Expression[bool]:
        """Return whether a text is JSON of a kind; NULL if the text is not JSON."""
        kind = "VALUE" if json_type is None else json_type.name
        return make_call("IS JSON", self, options=(kind,))

    def json_exists(self, path: str, on_error: JsonExistsOnError | None = None) -> Expression[bool]:
        """Return whether a path matches in a JSON text."""
        options = {} if on_error is None else {"ERROR": (on_error.name,)}
        return _json_call("JSON_EXISTS", [self, path], options)

    def json_value(
        self,
        path: str,
        returning_type: types.DataType | None = None,
        on_empty: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_empty: Any = None,
        on_error: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_error: Any = None,
    ) -> Expression[Any]:
        """Return the scalar that a path selects in a JSON text."""
        arguments: list[Any] = [self, path]
        options: dict[str, Any] = {} if returning_type is None else {"RETURNING": returning_type}
        for event, behaviour, default in (
            ("EMPTY", on_empty, default_on_empty),
            ("ERROR", on_error, default_on_error),
        ):
            options[event] = (behaviour.name,)
            if behaviour is JsonValueOnEmptyOrError.DEFAULT:
                options[event] = ("DEFAULT", len(arguments))
                arguments.append(default)
        return _json_call("JSON_VALUE", arguments, options)

    def json_query(
        self,
        path: str,
        wrapping_behavior: JsonQueryWrapper = JsonQueryWrapper.WITHOUT_ARRAY,
        on_empty: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
        on_error: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
    ) -> Expression[str]:
        """Return the JSON that a path selects in a JSON text."""
        options = {
            "WRAPPER": wrapping_behavior.name.removesuffix("_ARRAY"),
            "EMPTY": (on_empty.name.replace("_", " "),),
            "ERROR": (on_error.name.replace("_", " "),),
        }
        return _json_call("JSON_QUERY", [self, path], options)


def _json_call(function: str, arguments: Sequence[Any], options: dict[str, Any]) -> Expression[Any]:
    """Return a call with options, as an SQL statement sets them."""
    return make_call(function, *arguments, options=tuple(sorted(options.items())))


def _name(alias: Any) -> Any:
    """Return the column of a window's name, which is an expression or a text."""
    return alias if isinstance(alias, Expression) else Expression(UnresolvedColumn(str(alias)))
