"""Evaluation of resolved expressions over batches of columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.functions import type_rules as rules
from penstock.table.functions.casts import cast_array, shifted_by_zone
from penstock.table.functions.registry import table
from penstock.table.plan.expressions import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    PythonCall,
    columns_of,
    transform,
    walk,
)
from penstock.table.time_zones import time_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.table.functions.numbers import JavaRandom

#: Functions without errors, whose values for rows that do not need them cost little.
_SAFE: Final = frozenset(
    [
        *("=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IS NULL", "IS NOT NULL"),
        *("IS TRUE", "IS FALSE", "EXTRACT", "LOWER", "UPPER", "CHAR_LENGTH"),
    ]
)
#: Calls that may raise errors: they are evaluated only where the other side of an AND allows it.
_MAY_FAIL: Final = frozenset(("/", "%", "MOD", "ITEM", "ELEMENT", "TO_TIMESTAMP"))


@dataclass(frozen=True)
class Session:
    """Settings on which results of functions depend.

    Attributes:
        time_zone: The session's time zone, for TIMESTAMP_LTZ.
        query_time_ms: The time of functions with one time per query; None if each batch has its
            own.
        database: The current database.
    """

    time_zone: str = "UTC"
    query_time_ms: int | None = None
    database: str = "default_database"

    @cached_property
    def zone(self) -> Any:
        """The time zone as a tzinfo."""
        return time_zone(self.time_zone)


class Evaluator:
    """Computes expressions over record batches.

    Attributes:
        expressions: The expressions.
        session: The settings.
    """

    def __init__(
        self,
        expressions: Sequence[Expression],
        session: Session,
        call_python: Callable[[PythonCall, list[Any], int], Any] | None = None,
    ) -> None:
        """Create an evaluator.

        Args:
            expressions: The expressions.
            session: The settings.
            call_python: Calls user functions with columns of arguments.
        """
        self.expressions = tuple(expressions)
        self.session = session
        self._functions = table()
        self._call_python = call_python
        #: The watermark, for CURRENT_WATERMARK; set by the operator.
        self.watermark: int | None = None
        #: By the id of a call with a constant seed: its generator of random numbers.
        self.generators: dict[int, JavaRandom] = {}

    def evaluate(self, batch: Any) -> list[Any]:
        """Return one array for each expression, as long as the batch."""
        return [self.column(expression, batch) for expression in self.expressions]

    def column(self, expression: Expression, batch: Any) -> Any:
        """Return the values of an expression as an array."""
        return _array(self._value(expression, batch), batch.num_rows, expression)

    def condition(self, expression: Expression, batch: Any) -> Any:
        """Return an array of booleans, false for NULL."""
        import pyarrow.compute as pc

        return pc.fill_null(self.column(expression, batch), False)

    def _value(self, expression: Expression, batch: Any) -> Any:
        match expression:
            case Column():
                return batch.column(expression.index)
            case Literal():
                return _scalar(expression)
            case Cast():
                return self._cast(expression, batch)
            case Case():
                return self._case(expression, batch)
            case PythonCall():
                assert self._call_python is not None
                arguments = [self._value(a, batch) for a in expression.arguments]
                return self._call_python(expression, arguments, batch.num_rows)
            case Call():
                return self._call(expression, batch)
        raise AssertionError(f"{type(expression).__name__} cannot be evaluated")

    def _call(self, call: Call, batch: Any) -> Any:
        if call.function in ("AND", "OR") and any(map(_may_fail, call.arguments[1:])):
            return self._guarded(call, batch)
        function = self._functions[call.function]
        arguments = [self._value(a, batch) for a in call.arguments]
        if getattr(function.kernel, "needs_session", False):
            return function.kernel(arguments, batch.num_rows, call, self)
        return function.kernel(arguments, batch.num_rows, call)

    def _guarded(self, call: Call, batch: Any) -> Any:
        """Evaluate AND or OR from left to right, and the right side only where it matters."""
        is_and = call.function == "AND"
        first, rest = call.arguments[0], call.arguments[1:]
        second = rest[0] if len(rest) == 1 else Call(call.type, call.function, rest)
        if is_and:
            return self._case(
                Case(
                    call.type,
                    (_decided(first, "IS FALSE"),),
                    (Literal(call.type, False), _both(call, first, second)),
                ),
                batch,
            )
        return self._case(
            Case(
                call.type,
                (_decided(first, "IS TRUE"),),
                (Literal(call.type, True), _both(call, first, second)),
            ),
            batch,
        )

    def _cast(self, cast: Cast, batch: Any) -> Any:
        source, target = cast.argument.type, cast.type
        value = self._value(cast.argument, batch)
        rows = batch.num_rows
        zoned = types.LocalZonedTimestampType
        if isinstance(source, zoned) != isinstance(target, zoned):
            if isinstance(source, zoned) and (rules.is_temporal(target) or rules.is_text(target)):
                local = types.TimestampType(source.precision)
                value = _timestamps(
                    shifted_by_zone(value, rows, source, target, self.session.zone), local
                )
                return cast_array(value, local, target, is_try=cast.is_try)
            if isinstance(target, zoned) and (rules.is_temporal(source) or rules.is_text(source)):
                local = types.TimestampType(target.precision)
                value = cast_array(value, source, local, is_try=cast.is_try)
                moved = shifted_by_zone(value, rows, local, target, self.session.zone)
                return _timestamps(moved, target)
        return cast_array(value, source, target, is_try=cast.is_try)

    def _case(self, case: Case, batch: Any) -> Any:
        """Evaluate each result only for the rows that need it."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if _is_simple(case):
            return self._simple_case(case, batch)
        rest = _with_columns(batch, columns_of(case))
        positions = None  # positions in the batch of the rows of `rest`; None for all
        parts: list[Any] = []
        places: list[Any] = []
        for condition, result in zip(case.conditions, case.results, strict=False):
            if rest.num_rows == 0:
                break
            mask = self.condition(condition, rest)
            true_count = pc.sum(mask).as_py() or 0
            if true_count == 0:
                continue
            if true_count == rest.num_rows and positions is None:
                return self._value(result, batch)
            chosen = rest.filter(mask)
            parts.append(self.column(result, chosen))
            numbers = pa.array(range(rest.num_rows), pa.int64()) if positions is None else positions
            places.append(numbers.filter(mask))
            opposite = pc.invert(mask)
            rest, positions = rest.filter(opposite), numbers.filter(opposite)
        if positions is None:
            return self._value(case.results[-1], batch)
        if rest.num_rows:
            parts.append(self.column(case.results[-1], rest))
            places.append(positions)
        combined = pa.concat_arrays([_plain(part) for part in parts])
        order = pc.sort_indices(pa.concat_arrays(places))
        return combined.take(order)

    def _simple_case(self, case: Case, batch: Any) -> Any:
        """Evaluate all conditions for all rows, which costs less than splitting the batch."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from penstock.table.arrow_types import arrow_type

        wanted = arrow_type(case.type)
        masks = [self.condition(condition, batch) for condition in case.conditions]
        results = [self._value(result, batch) for result in case.results]
        results = [result if result.type == wanted else result.cast(wanted) for result in results]
        names = list(map(str, range(len(masks))))
        return pc.case_when(pa.StructArray.from_arrays(masks, names), *results)


def _plain(array: Any) -> Any:
    import pyarrow as pa

    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _decided(condition: Expression, name: str) -> Expression:
    return Call(types.BooleanType(nullable=False), name, (condition,))


def _both(call: Call, first: Expression, second: Expression) -> Expression:
    # As CASE, because a plain AND would be guarded again.
    tests = _decided(first, "IS NULL")
    if call.function == "AND":
        nothing = Case(
            call.type,
            (_decided(second, "IS FALSE"),),
            (Literal(call.type, False), Literal(call.type.nullable(), None)),
        )
    else:
        nothing = Case(
            call.type,
            (_decided(second, "IS TRUE"),),
            (Literal(call.type, True), Literal(call.type.nullable(), None)),
        )
    return Case(call.type, (tests,), (nothing, second))


def _may_fail(expression: Expression) -> bool:
    return any(
        isinstance(part, PythonCall)
        or (isinstance(part, Cast) and _cast_may_fail(part))
        or (isinstance(part, Call) and part.function in _MAY_FAIL)
        for part in walk(expression)
    )


def _cast_may_fail(cast: Cast) -> bool:
    source, target = cast.argument.type, cast.type
    if isinstance(source, types.NumericType) and isinstance(
        target, types.FloatType | types.DoubleType
    ):
        return False
    return not cast.is_try and not cast.is_implicit


def _is_simple(case: Case) -> bool:
    """Return whether results are constants or columns, and conditions never fail."""
    results = [
        result.argument if isinstance(result, Cast) and result.is_implicit else result
        for result in case.results
    ]
    return all(isinstance(result, Literal | Column) for result in results) and all(
        part.function in _SAFE if isinstance(part, Call) else not _may_fail(part)
        for condition in case.conditions
        for part in walk(condition)
    )


def _with_columns(batch: Any, wanted: set[int]) -> Any:
    """Return a batch with columns of nulls in place of others than the wanted ones."""
    import pyarrow as pa

    others = pa.nulls(batch.num_rows)
    columns = [column if place in wanted else others for place, column in enumerate(batch.columns)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _scalar(literal: Literal) -> Any:
    import pyarrow as pa

    from penstock.table.arrow_types import arrow_array, arrow_type

    if literal.value is None:
        return pa.scalar(None, arrow_type(literal.type))
    return arrow_array([literal.value], literal.type)[0]


def _array(value: Any, rows: int, expression: Expression) -> Any:
    import pyarrow as pa

    from penstock.table.arrow_types import arrow_type

    wanted = arrow_type(expression.type)
    if isinstance(value, pa.Scalar):
        if value.type != wanted:
            value = value.cast(wanted)
        return pa.repeat(value, rows) if value.is_valid else pa.nulls(rows, wanted)
    if value.type != wanted:
        value = value.cast(wanted)
    return _plain(value)


def _timestamps(values: list[Any], kind: Any) -> Any:
    from penstock.table.arrow_types import arrow_array

    return arrow_array(values, kind)


def with_numbers(expression: Expression, session: Session) -> Expression:
    """Return an expression whose numbers have their types, instead of a cast for each batch."""
    return transform(
        expression,
        lambda part: (
            fold(part, session)
            if isinstance(part, Cast)
            and isinstance(part.argument, Literal)
            and isinstance(part.type, types.NumericType)
            else part
        ),
    )


def fold(expression: Expression, session: Session) -> Expression:
    """Replace an expression without columns whose value never changes by a literal.

    Expressions that fail are unchanged, and fail when they are evaluated.
    """
    import pyarrow as pa

    from penstock.table.arrow_types import python_values
    from penstock.table.errors import TableException

    parts = walk(expression)
    functions = table()
    for part in parts:
        if isinstance(part, Literal | Cast | Case):
            continue
        if not isinstance(part, Call):
            return expression
        if not functions[part.function].is_deterministic:
            return expression
    if len(parts) == 1 or isinstance(expression.type, types.RowType):
        return expression
    batch = pa.RecordBatch.from_arrays([pa.array([0])], ["$"])
    try:
        value = Evaluator([expression], session).column(expression, batch)
    except (TableException, ValueError, ArithmeticError, pa.ArrowInvalid):
        return expression
    return Literal(expression.type, python_values(value, expression.type)[0])
