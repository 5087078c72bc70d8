"""The aggregates of one operator over records, and the rows that it emits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.aggregates.folds import FOLDS, UserFold
from penstock.common.types import Row, rows_of_columns
from penstock.datastream.functions.basic import AggregateFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.aggregates.folds import Fold
    from penstock.common.composite_types import RowTypeInfo
    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.functions import RuntimeContext
    from penstock.expressions.computed import ComputedFunction
    from penstock.expressions.evaluation import Evaluation


class Call(NamedTuple):
    """One aggregate and its arguments.

    Attributes:
        function: The name of the aggregate.
        positions: The positions of its arguments among the values computed for a record.
        condition: The position of its condition; None if every record counts.
        types: The types of its arguments.
        user_function: The function of a user-defined aggregate, or None.
    """

    function: str
    positions: tuple[int, ...]
    condition: int | None = None
    types: tuple[TypeInformation, ...] = ()
    user_function: AggregateFunction | None = None

    def fold(self) -> Fold:
        """Return the fold of the aggregate."""
        function = self.user_function
        return FOLDS[self.function]() if function is None else UserFold(function)


class KeyFields(NamedTuple):
    """The fields of the key in emitted rows.

    Attributes:
        names: Their names.
        types: Their types.
        is_tuple: True if keys are tuples of the fields; else the key is the single value.
    """

    names: tuple[str, ...]
    types: tuple[TypeInformation, ...]
    is_tuple: bool

    def values(self, key: Any) -> tuple[Any, ...]:
        """Return the values of the fields for a key."""
        if not self.names:  # for windows over all records
            return ()
        return tuple(key) if self.is_tuple else (key,)

    def keys(self, columns: Sequence[list[Any]]) -> list[Any]:
        """Return the keys of some records, given the values of their fields."""
        return list(zip(*columns, strict=True)) if self.is_tuple else columns[0]


class NamedAggregates(AggregateFunction):
    """Several aggregates as one function, whose accumulator is the tuple of their accumulators.

    Attributes:
        calls: The aggregates.
        arguments: Computes the tuple of argument values of a record; None without arguments.
        given: Computes the same with the operator's fastest evaluator.
    """

    def __init__(self, calls: Sequence[Call], arguments: ComputedFunction | None) -> None:
        """Create the folds of aggregates."""
        self.calls = tuple(calls)
        self.arguments = arguments
        self.folds = [call.fold() for call in calls]
        users = [fold.function for fold in self.folds if isinstance(fold, UserFold)]
        #: Each function once, however many aggregates call it.
        self._users = list({id(function): function for function in users}.values())
        #: Immutable, as folds do not change an initial accumulator in place; None if users may.
        self._empty = None if self._users else tuple([fold.create() for fold in self.folds])
        self.given: Callable[[Any], Sequence[Any]] = _nothing if arguments is None else arguments

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the functions of users."""
        for function in self._users:
            function.open(runtime_context)

    def close(self) -> None:
        """Close the functions of users."""
        for function in self._users:
            function.close()

    def evaluate_by(self, evaluation: Evaluation, types: tuple[object | None, ...]) -> None:
        """Compute the arguments with an operator's fastest evaluator.

        Args:
            evaluation: The operator's evaluation.
            types: The declared type of the records.
        """
        if self.arguments is not None:
            self.given = evaluation.without_call(self.arguments.function, 1, types)

    def changed_in_place(self) -> str | None:
        """Return an aggregate that changes its accumulator in place, or None."""
        pairs = zip(self.calls, self.folds, strict=True)
        return next((call.function for call, fold in pairs if fold.is_changed_in_place), None)

    def create_accumulator(self) -> tuple[Any, ...]:
        """Return the accumulator of no records."""
        if self._empty is None:
            return tuple([fold.create() for fold in self.folds])
        return self._empty

    def add(self, value: Any, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the accumulator with one more record."""
        given = self.given(value)
        found = []
        for call, fold, kept in zip(self.calls, self.folds, accumulator, strict=True):
            if call.condition is not None and given[call.condition] is not True:
                found.append(kept)
                continue
            values = [given[position] for position in call.positions]
            found.append(kept if None in values else fold.add(kept, *values))
        return tuple(found)

    def merge(self, acc_a: tuple[Any, ...], acc_b: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the accumulator of the records of both."""
        triples = zip(self.folds, acc_a, acc_b, strict=True)
        return tuple([fold.merge(one, other) for fold, one, other in triples])

    def get_result(self, accumulator: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the values of the aggregates."""
        return tuple([f.result(kept) for f, kept in zip(self.folds, accumulator, strict=True)])


def _nothing(value: Any) -> tuple[Any, ...]:
    del value
    return ()


class ResultRows:
    """Creates the rows that an operator emits."""

    def __init__(self, declared: RowTypeInfo) -> None:
        """Create a builder of rows of a type."""
        self._names = declared.get_field_names()

    def one(self, values: Iterable[Any]) -> Row:
        """Return a row of some values."""
        return rows_of_columns(self._names, [(value,) for value in values])[0]

    def of_columns(self, columns: Sequence[Iterable[Any]]) -> list[Row]:
        """Return the rows of some columns."""
        return rows_of_columns(self._names, columns)
