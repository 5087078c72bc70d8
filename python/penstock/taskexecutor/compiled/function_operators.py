# cython: annotation_typing=False, boundscheck=True
# The C types come from function_operators.pxd; the annotations below are for readers and mypy.
"""Operators around one function that see nothing but elements: map, filter, folds, sinks.

One source, two uses, as ``operator_loop``, which says how.
"""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any

from penstock.common.exception_text import annotate, repr_of

# Relative: compiled, these are the classes that the .pxd cimports.
from .operator_loop import MAX_TIMESTAMP, FunctionOperator, StreamOperator  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.table import StateMap


class MapOperator(FunctionOperator):
    """One record for each record."""

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
        done = False
        try:
            self.output.collect(self.function(value), timestamp)
            done = True
        finally:
            if not done:
                self.note_failure()


def truth(answer: Any) -> bool:
    """Return the truth of a filter's answer that is neither True nor False.

    Raises:
        TypeError: It is a coroutine, which is always true.
    """
    if type(answer) is CoroutineType:
        answer.close()
        msg = (
            "a filter's function gave a coroutine, which nobody awaits; "
            "only functions of AsyncDataStream may be written with async def"
        )
        raise TypeError(msg)
    return bool(answer)


class FilterOperator(FunctionOperator):
    """The records for which the function is true."""

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
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
    """Any number of records for each record: whatever the function's result iterates over."""

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
        result: Any = ()
        done = False
        try:
            result = self.function(value)
            self.output.collect_all(result, timestamp)
            done = True
        finally:
            if not done:
                self.note_failure()
                if not hasattr(result, "__iter__"):
                    annotate(
                        self.failed_with,  # type: ignore[arg-type]
                        "flat_map emits what its function returns one by one, but that returned "
                        f"{repr_of(result)}: return a list, or use yield",
                    )


class FusedOperator(StreamOperator):
    """Several map and filter operators in one call.

    Its function is composed of theirs, so that Python calls them without leaving the interpreter.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        function_of_all: Callable[[Iterable[Any]], Iterator[Any]],
        dropped: object,
        blame: Callable[[BaseException], BaseException],
    ) -> None:
        """Keeps the composed function.

        Args:
            function: Gives the record to emit, or ``dropped``.
            function_of_all: Gives the records to emit for many, each when it is asked for.
            dropped: What ``function`` gives for records that a filter drops.
            blame: Notes on the operator whose function raised that it did; gives what it raised.
        """
        StreamOperator.__init__(self)
        self.function = function
        self.function_of_all = function_of_all
        self.dropped = dropped
        self.blame = blame
        #: Computes batches by their columns; None if they are taken as objects.
        self.columns: Any = None

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
        try:
            result = self.function(value)
        except BaseException as error:
            self.blame(error)
            raise
        if result is not self.dropped:
            self.output.collect(result, timestamp)

    def process_all(self, values: Iterable[Any], timestamp: int) -> None:
        """Takes records of one timestamp, each of them before it asks for the next."""
        try:
            self.output.collect_all(self.function_of_all(values), timestamp)
        except BaseException as error:
            cause = self.blame(error)
            if cause is error:
                raise
        else:
            return
        raise cause

    def process_batch(self, batch: Any) -> None:
        """Takes the records of a batch: by columns, or as objects where that is given up."""
        columns = self.columns
        result = None if columns is None else columns.evaluated(batch)
        if result is None:
            StreamOperator.process_batch(self, batch)
        elif len(result) > 0:
            self.output.collect_batch(result)


class KeyedReduceOperator(FunctionOperator):
    """Folds the records of each key and emits the running result.

    The fold of a key is one entry of a state; None means that there is none yet.
    """

    def __init__(
        self,
        user_function: Any,
        function: Callable[..., Any],
        keys: KeyReader,
        folds: StateMap,
    ) -> None:
        """Keeps the fold.

        Args:
            user_function: The object whose ``open`` and ``close`` are called.
            function: ``function(fold, element)`` gives the next fold.
            keys: Gives the keys of records.
            folds: Key to fold; owned by the keyed state backend.
        """
        FunctionOperator.__init__(self, user_function, function)
        self.keys = keys
        self.folds = folds

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one record."""
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
    """The fold of bounded input: one record for each key, when the input has ended."""

    def process(self, value: Any, timestamp: int) -> None:  # noqa: ARG002
        """Takes one record."""
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
        """Event time of the input has advanced."""
        if timestamp == MAX_TIMESTAMP:
            for _, value in self.folds:
                self.output.collect(value, timestamp)
            self.folds.clear()
        self.output.emit_watermark(timestamp)


def refuse_coroutine(value: Any) -> None:
    """Says that a record is none: whatever should have been done was not even begun.

    Raises:
        TypeError: Always.
    """
    if type(value) is CoroutineType:
        value.close()
    msg = (
        f"an element to discard is the coroutine {value.__qualname__}, which nobody awaits; "
        "only functions of AsyncDataStream may be written with async def"
    )
    raise TypeError(msg)


class DiscardingSink(StreamOperator):
    """Takes every record and drops it."""

    def process(self, value: Any, timestamp: int) -> None:  # noqa: ARG002
        """Drops the record."""
        # First what most records are: compiled, the other classes are looked up by their names.
        if type(value) is not tuple and (
            type(value) is CoroutineType or type(value) is AsyncGeneratorType
        ):
            refuse_coroutine(value)

    def process_batch(self, batch: Any) -> None:
        """Drops the records, which are no coroutines."""


class FunctionSink(FunctionOperator):
    """Calls a function with every record."""

    def process(self, value: Any, timestamp: int) -> None:  # noqa: ARG002
        """Takes one record."""
        done = False
        try:
            self.function(value)
            done = True
        finally:
            if not done:
                self.note_failure()
