"""Evaluation of resolved expressions over batches of columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.functions import type_rules as rules
from penstock.table.functions.casts import cast_array, shifted_by_zone
from penstock.table.functions.registry import table
from penstock.table.functions.rows import Rows, plain_array, without_nulls
from penstock.table.options.time_zones import time_zone
from penstock.table.plan.expressions import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    PythonCall,
    transform,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from penstock.table.functions.numbers import JavaRandom

    #: Computes an array or a scalar.
    Step = Callable[[Rows], Any]

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

    An expression is compiled once into nested functions of rows.  A deterministic part that occurs
    several times in the expressions is computed once for the same rows.

    Attributes:
        expressions: The expressions.
        session: The settings.
    """

    def __init__(
        self,
        expressions: Sequence[Expression],
        session: Session,
        call_python: Callable[[PythonCall, list[Any], int], Any] | None = None,
        condition: Expression | None = None,
    ) -> None:
        """Create an evaluator.

        Args:
            expressions: The expressions.
            session: The settings.
            call_python: Calls user functions with columns of arguments.
            condition: A condition that is computed before them, over the same rows or more.
        """
        self.expressions = tuple(expressions)
        self.session = session
        self._functions = table()
        self._call_python = call_python
        #: The watermark, for CURRENT_WATERMARK; set by the operator.
        self.watermark: int | None = None
        #: By the id of a call with a constant seed: its generator of random numbers.
        self.generators: dict[int, JavaRandom] = {}
        #: The number of values that were not computed again.
        self.reused = 0
        self._uses: dict[Hashable, int] = {}
        for expression in (*self.expressions, *(() if condition is None else (condition,))):
            self._count(expression)
        #: By the ids of expressions: these, which keeps the ids theirs, and their functions.
        self._columns: dict[int, tuple[Expression, Step]] = {}

    def evaluate(self, rows: Any) -> list[Any]:
        """Return one array for each expression, as long as the batch or `Rows`."""
        given = rows if isinstance(rows, Rows) else Rows(rows)
        return [self.column(expression, given) for expression in self.expressions]

    def column(self, expression: Expression, rows: Any) -> Any:
        """Return the values of an expression as an array."""
        found = self._columns.get(id(expression))
        if found is None:
            found = self._columns[id(expression)] = (expression, self._column_step(expression))
        return found[1](rows if isinstance(rows, Rows) else Rows(rows))

    def condition(self, expression: Expression, rows: Any) -> Any:
        """Return an array of booleans, false for NULL."""
        return without_nulls(self.column(expression, rows))

    def _count(self, expression: Expression) -> None:
        """Count the uses of an expression; parts of one that is computed once count once."""
        key = _key(expression)
        self._uses[key] = self._uses.get(key, 0) + 1
        if self._uses[key] == 1:
            for child in self._expanded(expression).children:
                self._count(child)

    def _expanded(self, expression: Expression) -> Expression:
        """Return a call as it is computed, as calls whose results others may share."""
        if isinstance(expression, Call):
            expand = self._functions[expression.function].expand
            return (expand and expand(expression)) or expression
        return expression

    # Compilation ----------------------------------------------------------------------------------

    def _column_step(self, expression: Expression) -> Step:
        """Return the function that computes an expression as an array of its type."""
        import pyarrow as pa

        from penstock.table.types.arrow_types import arrow_type

        wanted = arrow_type(expression.type)
        step = self._step(expression)

        def column(rows: Rows) -> Any:
            value = step(rows)
            if value.type != wanted:
                value = value.cast(wanted)
            if isinstance(value, pa.Scalar):
                if not value.is_valid:
                    return pa.nulls(rows.num_rows, wanted)
                return pa.repeat(value, rows.num_rows)
            return plain_array(value)

        return column

    def _mask_step(self, expression: Expression) -> Step:
        """Return the function that computes a condition, false for NULL."""
        step = self._column_step(expression)
        return lambda rows: without_nulls(step(rows))

    def _step(self, expression: Expression) -> Step:
        """Return the function that computes an expression as an array or a scalar."""
        step = self._own_step(expression)
        if isinstance(expression, Column | Literal) or not self._is_deterministic(expression):
            return step
        if not any(isinstance(part, Column) for part in walk(expression)):
            return _constant(step)
        key = _key(expression)
        if self._uses.get(key, 0) < 2:
            return step

        def shared(rows: Rows) -> Any:
            value = rows.known(key)
            if value is None:
                value = rows.values[key] = step(rows)
            else:
                self.reused += 1
            return value

        return shared

    def _is_deterministic(self, expression: Expression) -> bool:
        return not any(
            isinstance(part, PythonCall)
            or (isinstance(part, Call) and not self._functions[part.function].is_deterministic)
            for part in walk(expression)
        )

    def _own_step(self, expression: Expression) -> Step:
        expression = self._expanded(expression)
        match expression:
            case Column():
                index = expression.index
                return lambda rows: rows.column(index)
            case Literal():
                value = _scalar(expression)
                return lambda _: value
            case Cast():
                return self._cast(expression)
            case Case():
                return self._case(expression)
            case PythonCall():
                return self._python_call(expression)
            case Call():
                return self._call(expression)
        raise AssertionError(f"{type(expression).__name__} cannot be evaluated")

    def _python_call(self, call: PythonCall) -> Step:
        assert self._call_python is not None
        call_python = self._call_python
        arguments = [self._step(argument) for argument in call.arguments]
        return lambda rows: call_python(call, [step(rows) for step in arguments], rows.num_rows)

    def _call(self, call: Call) -> Step:
        if call.function in ("AND", "OR") and any(map(_may_fail, call.arguments[1:])):
            guarded = _guarded(call)
            self._count(guarded)
            return self._case(guarded)
        kernel = self._functions[call.function].kernel
        arguments = [self._step(argument) for argument in call.arguments]
        if getattr(kernel, "needs_session", False):
            return lambda rows: kernel(
                [step(rows) for step in arguments], rows.num_rows, call, self
            )
        return lambda rows: kernel([step(rows) for step in arguments], rows.num_rows, call)

    def _cast(self, cast: Cast) -> Step:
        source, target, is_try = cast.argument.type, cast.type, cast.is_try
        step = self._step(cast.argument)
        zoned = types.LocalZonedTimestampType
        if isinstance(source, zoned) != isinstance(target, zoned):
            zone = self.session.zone
            if isinstance(source, zoned) and (rules.is_temporal(target) or rules.is_text(target)):
                local = types.TimestampType(source.precision)

                def from_instant(rows: Rows) -> Any:
                    moved = shifted_by_zone(step(rows), rows.num_rows, source, target, zone)
                    return cast_array(_timestamps(moved, local), local, target, is_try=is_try)

                return from_instant
            if isinstance(target, zoned) and (rules.is_temporal(source) or rules.is_text(source)):
                local = types.TimestampType(target.precision)

                def to_instant(rows: Rows) -> Any:
                    value = cast_array(step(rows), source, local, is_try=is_try)
                    moved = shifted_by_zone(value, rows.num_rows, local, target, zone)
                    return _timestamps(moved, target)

                return to_instant
        return lambda rows: cast_array(step(rows), source, target, is_try=is_try)

    def _case(self, case: Case) -> Step:
        """Return the function of CASE; it evaluates each result only for the rows that need it."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        whole = self._whole_case(case)
        if _is_safe(case) and not any(map(_costs, case.results)):
            return whole
        masks = [self._mask_step(condition) for condition in case.conditions]
        steps = [self._step(result) for result in case.results]
        columns = [self._column_step(result) for result in case.results]
        costly = [_key(result) for result in case.results if _costs(result)]
        is_safe = _is_safe(case)

        def chosen(rows: Rows) -> Any:
            if is_safe and all(rows.known(key) is not None for key in costly):
                return whole(rows)
            rest = rows
            positions = None  # positions in the batch of the rows of `rest`; None for all
            parts: list[Any] = []
            places: list[Any] = []
            for number, condition in enumerate(masks):
                if rest.num_rows == 0:
                    break
                mask = condition(rest)
                true_count = mask.true_count
                if true_count == 0:
                    continue
                if true_count == rest.num_rows and positions is None:
                    return steps[number](rows)
                parts.append(columns[number](rest.filtered(mask)))
                if positions is None:
                    positions = pa.array(np.arange(rest.num_rows))
                places.append(positions.filter(mask))
                opposite = pc.invert(mask)
                rest, positions = rest.filtered(opposite), positions.filter(opposite)
            if positions is None:
                return steps[-1](rows)
            if rest.num_rows:
                parts.append(columns[-1](rest))
                places.append(positions)
            combined = pa.concat_arrays(parts)
            return combined.take(pc.sort_indices(pa.concat_arrays(places)))

        return chosen

    def _whole_case(self, case: Case) -> Step:
        """Return the function that evaluates all conditions and results for all rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from penstock.table.types.arrow_types import arrow_type

        wanted = arrow_type(case.type)
        masks = [self._mask_step(condition) for condition in case.conditions]
        steps = [self._step(result) for result in case.results]
        names = list(map(str, range(len(masks))))

        def whole(rows: Rows) -> Any:
            found = pa.StructArray.from_arrays([mask(rows) for mask in masks], names)
            results = [step(rows) for step in steps]
            results = [each if each.type == wanted else each.cast(wanted) for each in results]
            return pc.case_when(found, *results)

        return whole


def _key(expression: Expression) -> Hashable:
    """Return a key that only expressions with equal values share."""
    match expression:
        case Column():
            return expression.index
        case Literal():
            # Equal numbers may differ, as 0.0 and -0.0 do.
            return (expression.type, repr(expression.value))
        case Call():
            own: Any = (expression.function, expression.options)
        case Cast():
            own = (Cast, expression.is_try)
        case Case():
            own = (Case, len(expression.conditions))
        case _:
            return id(expression)
    return (own, expression.type, *map(_key, expression.children))


def _constant(step: Step) -> Step:
    """Return a function that computes a value without columns once, unless it is an array."""
    import pyarrow as pa

    known: list[Any] = []

    def constant(rows: Rows) -> Any:
        if known:
            return known[0]
        value = step(rows)
        if isinstance(value, pa.Scalar):
            known.append(value)
        return value

    return constant


def _guarded(call: Call) -> Case:
    """Return AND or OR as CASE, which evaluates the right side only where it matters."""
    first, rest = call.arguments[0], call.arguments[1:]
    second = rest[0] if len(rest) == 1 else Call(call.type, call.function, rest)
    is_and = call.function == "AND"
    decided = _decided(first, "IS FALSE" if is_and else "IS TRUE")
    return Case(call.type, (decided,), (Literal(call.type, not is_and), _both(call, first, second)))


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


def _is_safe(case: Case) -> bool:
    """Return whether conditions never fail, and cost little for rows that do not need them."""
    return all(
        part.function in _SAFE if isinstance(part, Call) else not _may_fail(part)
        for condition in case.conditions
        for part in walk(condition)
    )


def _costs(result: Expression) -> bool:
    """Return whether a result is not a constant or a column."""
    if isinstance(result, Cast) and result.is_implicit:
        result = result.argument
    return not isinstance(result, Literal | Column)


def _scalar(literal: Literal) -> Any:
    import pyarrow as pa

    from penstock.table.types.arrow_types import arrow_array, arrow_type

    if literal.value is None:
        return pa.scalar(None, arrow_type(literal.type))
    return arrow_array([literal.value], literal.type)[0]


def _timestamps(values: list[Any], kind: Any) -> Any:
    from penstock.table.types.arrow_types import arrow_array

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

    from penstock.table.exceptions import TableException
    from penstock.table.types.arrow_types import python_values

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
    batch = pa.RecordBatch.from_arrays([pa.nulls(1)], ["$"])
    try:
        value = Evaluator([expression], session).column(expression, batch)
    except (TableException, ValueError, ArithmeticError, pa.ArrowInvalid):
        return expression
    return Literal(expression.type, python_values(value, expression.type)[0])
