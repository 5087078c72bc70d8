# cython: annotation_typing=False, boundscheck=True
# The C types come from function_operators.pxd; the annotations below are for readers and mypy.
"""Operators around one function that only see records: map, filter, folds, sinks.

One source with two uses; see ``operator_loop``.
"""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any

from penstock.common.exception_deadline import repr_in_time
from penstock.common.exception_text import annotate

# Relative: when compiled, these are the classes that the .pxd cimports.
from .operator_loop import MAX_TIMESTAMP, FunctionOperator, StreamOperator  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.columns.column_batch import ColumnBatch
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.table import CopyOnWriteStateMap


class MapOperator(FunctionOperator):
    """Emits one record for each record."""

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        done = False
        try:
            self.output.collect(self.function(value), timestamp)
            done = True
        finally:
            if not done:
                self.note_failure()


def truth(answer: object) -> bool:
    """Return the truth of a filter's answer that is neither True nor False.

    Raises:
        TypeError: The answer is a coroutine, which is always true.
    """
    if type(answer) is CoroutineType:
        answer.close()
        msg = (
            "a filter's function returned a coroutine, which nobody awaits; "
            "only functions of AsyncDataStream may be written with async def"
        )
        raise TypeError(msg)
    return bool(answer)


class FilterOperator(FunctionOperator):
    """Emits the records for which the function is true."""

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        done = False
        try:
            answer: Any = self.function(value)
            if answer is True or (answer is not False and truth(answer)):
                self.output.collect(value, timestamp)
            done = True
        finally:
            if not done:
                self.note_failure()


class FlatMapOperator(FunctionOperator):
    """Emits any number of records for each record: the items of the function's result."""

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        result: Any = ()
        done = False
        try:
            result = self.function(value)
            if not self.is_checked:
                self.check_first(result)
            self.output.collect_all(result, timestamp)
            done = True
        finally:
            if not done:
                self.note_failure()
                if not hasattr(result, "__iter__"):
                    annotate(
                        self.failed_with,  # type: ignore[arg-type]
                        "flat_map emits what its function returns one by one, but that returned "
                        f"{repr_in_time(result)}: return a list, or use yield",
                    )


class FusedOperator(StreamOperator):
    """Several map and filter operators in one call.

    Its function is composed of theirs, so that Python calls them without leaving the interpreter.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        function_of_all: Callable[[Iterable[object]], Iterator[object]],
        dropped: object,
        blame: Callable[[BaseException], BaseException],
    ) -> None:
        """Create the operator from a composed function.

        Args:
            function: Returns the record to emit, or ``dropped``.
            function_of_all: Yields the records to emit for many records, lazily.
            dropped: The result of ``function`` for records that a filter drops.
            blame: Records the error on the operator that raised it; returns the original error.
        """
        StreamOperator.__init__(self)
        self.function = function
        self.function_of_all = function_of_all
        self.dropped = dropped
        self.blame = blame
        #: Computes batches by their columns; None if records are processed as objects.
        self.columns: Any = None

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        try:
            result = self.function(value)
        except BaseException as error:
            self.blame(error)
            raise
        if result is not self.dropped:
            self.output.collect(result, timestamp)

    def process_all(self, values: Iterable[object], timestamp: int) -> None:
        """Process records of one timestamp, each before the next is requested."""
        try:
            self.output.collect_all(self.function_of_all(values), timestamp)
        except BaseException as error:
            cause = self.blame(error)
            if cause is error:
                raise
        else:
            return
        raise cause

    def process_batch(self, batch: ColumnBatch) -> None:
        """Process a batch by columns, or as objects if it cannot be computed so."""
        columns = self.columns
        result = None if columns is None else columns.evaluated(batch)
        if result is None:
            StreamOperator.process_batch(self, batch)
        elif len(result) > 0:
            self.output.collect_batch(result)


class KeyedReduceOperator(FunctionOperator):
    """Folds the records of each key and emits the running result.

    The fold of a key is an entry of a state; None means that there is no fold yet.
    """

    def __init__(
        self,
        user_function: object,
        function: Callable[..., Any],
        keys: KeyReader,
        folds: CopyOnWriteStateMap,
    ) -> None:
        """Create the operator.

        Args:
            user_function: The object whose ``open`` and ``close`` are called.
            function: ``function(fold, element)`` returns the next fold.
            keys: Reads the keys of records.
            folds: Key to fold; owned by the keyed state backend.
        """
        FunctionOperator.__init__(self, user_function, function)
        self.keys = keys
        self.folds = folds

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        done = False
        try:
            key = self.keys.read(value)
            position = self.folds.find(key)
            if position < 0:
                self.folds.put(key, value)
            else:
                fold = self.folds.at(position)
                if fold is not None:
                    value = self.function(fold, value)
                self.folds.put_at(position, key, value)
            self.output.collect(value, timestamp)
            done = True
        finally:
            if not done:
                self.note_failure()


class FinalReduceOperator(KeyedReduceOperator):
    """The fold of bounded input: emits one record for each key when the input has ended."""

    def process(self, value: object, timestamp: int) -> None:  # noqa: ARG002
        """Process a record."""
        done = False
        try:
            key = self.keys.read(value)
            position = self.folds.find(key)
            if position >= 0:
                fold = self.folds.at(position)
                if fold is not None:
                    value = self.function(fold, value)
            self.folds.put_at(position, key, value)
            done = True
        finally:
            if not done:
                self.note_failure()

    def process_watermark(self, timestamp: int) -> None:
        """Emit the folds at the end of event time, and forward the watermark."""
        if timestamp == MAX_TIMESTAMP:
            for _, value in self.folds:
                self.output.collect(value, timestamp)
            self.folds.clear()
        self.output.emit_watermark(timestamp)


def refuse_coroutine(value: Any) -> None:
    """Raise an error for a coroutine, whose body has not even started.

    Raises:
        TypeError: Always.
    """
    if type(value) is CoroutineType:
        value.close()
    msg = (
        f"a record to discard is the coroutine {value.__qualname__}, which nobody awaits; "
        "only functions of AsyncDataStream may be written with async def"
    )
    raise TypeError(msg)


class DiscardingSink(StreamOperator):
    """Drops every record."""

    def process(self, value: object, timestamp: int) -> None:  # noqa: ARG002
        """Drop the record."""
        # Check for the usual type first: when compiled, the other classes are looked up by name.
        if type(value) is not tuple and (
            type(value) is CoroutineType or type(value) is AsyncGeneratorType
        ):
            refuse_coroutine(value)

    def process_batch(self, batch: ColumnBatch) -> None:
        """Drop the records, which cannot be coroutines."""


class FunctionSink(FunctionOperator):
    """Calls a function with every record."""

    def process(self, value: object, timestamp: int) -> None:  # noqa: ARG002
        """Process a record."""
        done = False
        try:
            self.function(value)
            done = True
        finally:
            if not done:
                self.note_failure()
