"""Patterns on streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.cep.compilation import compile_pattern
from penstock.cep.functions import PatternProcessFunction, TimedOutPartialMatchHandler
from penstock.cep.pattern import Pattern
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.time import Duration, Time
from penstock.datastream.data_stream.keyed import KeyedStream
from penstock.datastream.data_stream.stream import DataStream
from penstock.datastream.data_stream.type_arguments import type_argument
from penstock.datastream.functions.function import check_function, check_parameters
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError
from penstock.expressions.computed import computed
from penstock.graph import operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.cep.conditions import Call
    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.data_stream.type_arguments import TypeArgument
    from penstock.datastream.data_stream.typed_functions import ProcessesMatch

    Match = dict[str, list[Any]]

T = TypeVar("T")
OUT = TypeVar("OUT")


class CEP:
    """Entry point of complex event processing."""

    @staticmethod
    def pattern(
        stream: DataStream[T],
        pattern: Pattern,
        comparator: Callable[[T, T], int] | None = None,
    ) -> PatternStream[T]:
        """Look for a pattern in a stream.

        On a keyed stream each key has its own matches.  On any other stream, a single subtask looks
        for matches over all records.

        Args:
            stream: The stream.
            pattern: The last part of the pattern.
            comparator: Orders records of one timestamp by a negative number, 0 or a positive one;
                None keeps the order in which they arrive.

        Raises:
            InvalidProgramError: An argument has another type.
        """
        if not isinstance(stream, DataStream):
            raise InvalidProgramError(f"CEP.pattern takes a stream, got {stream!r}")
        if not isinstance(pattern, Pattern):
            raise InvalidProgramError(f"CEP.pattern takes a Pattern, got {pattern!r}")
        if comparator is not None and not callable(comparator):
            raise InvalidProgramError(f"comparator must be a function, got {comparator!r}")
        return PatternStream(stream, pattern, comparator)


class PatternStream(MissingMethods, Generic[T]):
    """A stream with a pattern; `process`, `select` or `flat_select` emits records for matches.

    Uses event time unless `in_processing_time` is called.
    """

    def __init__(
        self,
        stream: DataStream[T],
        pattern: Pattern,
        comparator: Callable[[T, T], int] | None,
    ) -> None:
        """Use `CEP.pattern`."""
        self._stream = stream
        self._pattern = pattern
        self._comparator = comparator
        self._is_event_time = True
        self._late_tag: OutputTag | None = None
        self._ttl_ms = 0

    def in_processing_time(self) -> PatternStream[T]:
        """Process records as they arrive, by processing time."""
        self._is_event_time = False
        return self

    def in_event_time(self) -> PatternStream[T]:
        """Order records by timestamp, and measure windows by the watermark."""
        self._is_event_time = True
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> PatternStream[T]:
        """Send records at or before the watermark to a side output; otherwise drop them.

        Raises:
            InvalidProgramError: The argument is not an OutputTag.
        """
        if not isinstance(output_tag, OutputTag):
            raise InvalidProgramError(
                f"side_output_late_data takes an OutputTag, got {output_tag!r}"
            )
        self._late_tag = output_tag
        return self

    def with_ttl(self, ttl: Duration | Time) -> PatternStream[T]:
        """Drop the partial matches of a key that gets no record for a processing time.

        They do not time out: only ``within`` passes partial matches to functions.

        Raises:
            InvalidProgramError: The argument is not a positive duration.
        """
        given: Any = ttl
        if not isinstance(given, Duration | Time) or given.to_millis() <= 0:
            raise InvalidProgramError(
                f"with_ttl takes a Duration or a Time of at least one millisecond, got {ttl!r}"
            )
        self._ttl_ms = ttl.to_millis()
        return self

    def process(
        self, function: ProcessesMatch[OUT], output_type: TypeArgument = None
    ) -> DataStream[OUT]:
        """Call a function with each match.

        Args:
            function: The function; a TimedOutPartialMatchHandler also receives the partial matches
                that ``within`` ends.
            output_type: The type of the records that it yields.

        Raises:
            MalformedPatternError: The parts of the pattern do not fit together.
            InvalidProgramError: A condition cannot be evaluated for records of the stream's type.
        """
        check_function(function, PatternProcessFunction, "CEP process", or_callable=False)
        source = self._stream
        if not isinstance(source, KeyedStream):
            source = source._null_keyed()
        element_type = source._plain()._record_type()
        pattern = compiled_for(self._pattern, element_type)
        descriptor = operators.MatchPattern(
            function,
            pattern=pattern,
            is_event_time=self._is_event_time,
            comparator=self._comparator,
            late_tag=None if self._late_tag is None else self._late_tag.tag_id,
            ttl_ms=self._ttl_ms,
        )
        matches = source._typed_one_input(
            shipped(descriptor, "CEP process"), "Pattern", type_argument(output_type, "process")
        )
        if not isinstance(self._stream, KeyedStream):
            matches.force_non_parallel()
        return matches

    def select(
        self,
        function: Callable[[dict[str, list[T]]], OUT],
        output_type: TypeArgument = None,
        *,
        timed_out: Callable[[dict[str, list[T]], int], Any] | None = None,
        timed_out_tag: OutputTag | None = None,
    ) -> DataStream[OUT]:
        """Emit one record for each match.

        Args:
            function: A function from a match to a record.
            output_type: The type of the records.
            timed_out: A function of a partial match that ``within`` ended and the time of its end,
                in ms, which returns a record for a side output.
            timed_out_tag: The side output.

        Raises:
            InvalidProgramError: A function is missing, or only one of the last two is set.
        """
        _require_functions("select", function, timed_out, timed_out_tag)
        if timed_out is None or timed_out_tag is None:
            return self.process(_Select(function), output_type)
        return self.process(_SelectWithTimeouts(function, timed_out, timed_out_tag), output_type)

    def flat_select(
        self,
        function: Callable[[dict[str, list[T]]], Iterable[OUT] | None],
        output_type: TypeArgument = None,
        *,
        timed_out: Callable[[dict[str, list[T]], int], Iterable[Any] | None] | None = None,
        timed_out_tag: OutputTag | None = None,
    ) -> DataStream[OUT]:
        """Emit any number of records for each match.

        Args:
            function: A function from a match to an iterable of records.
            output_type: The type of the records.
            timed_out: As in `select`, but returns an iterable.
            timed_out_tag: See `select`.

        Raises:
            InvalidProgramError: A function is missing, or only one of the last two is set.
        """
        _require_functions("flat_select", function, timed_out, timed_out_tag)
        if timed_out is None or timed_out_tag is None:
            return self.process(_FlatSelect(function), output_type)
        return self.process(
            _FlatSelectWithTimeouts(function, timed_out, timed_out_tag), output_type
        )


def compiled_for(
    pattern: Pattern, element_type: TypeInformation | None
) -> operators.CompiledPattern:
    """Compile a pattern for records of a type, or of any type for None.

    Raises:
        MalformedPatternError: The parts of the pattern do not fit together.
        InvalidProgramError: A condition cannot be evaluated for records of the type.
    """
    return compile_pattern(pattern, lambda call: _function_of(call, element_type))


def _function_of(call: Call, element_type: Any) -> operators.PatternCondition:
    """Return the function of a condition; expressions are checked for the type of the records."""
    if call.kind == "expression":
        checked = computed(call.given, call.place, [element_type], wanted="boolean")
        return operators.PatternCondition(checked.function, is_iterative=False)
    return operators.PatternCondition(call.given, is_iterative=call.kind == "iterative")


def _require_functions(method: str, function: Any, timed_out: Any, tag: Any) -> None:
    for given in (function, timed_out):
        if given is not None and not callable(given):
            raise InvalidProgramError(f"{method} takes functions of a match, got {given!r}")
    if not callable(function):
        raise InvalidProgramError(f"{method} takes a function of a match, got {function!r}")
    check_parameters(function, "a match", (1,), method)
    check_parameters(timed_out, "a partial match and its end", (2,), f"{method}: timed_out")
    if (timed_out is None) != (tag is None):
        raise InvalidProgramError(
            f"{method} takes timed_out and timed_out_tag together: the function of partial matches "
            "and their side output"
        )
    if tag is not None and not isinstance(tag, OutputTag):
        raise InvalidProgramError(f"{method}: timed_out_tag must be an OutputTag, got {tag!r}")


class _Select(PatternProcessFunction):
    def __init__(self, function: Callable[[Match], Any]) -> None:
        self._function = function

    def process_match(self, match: Match, ctx: PatternProcessFunction.Context) -> Iterable[Any]:
        del ctx
        return (self._function(match),)


class _SelectWithTimeouts(_Select, TimedOutPartialMatchHandler):
    def __init__(
        self,
        function: Callable[[Match], Any],
        timed_out: Callable[[Match, int], Any],
        tag: OutputTag,
    ) -> None:
        super().__init__(function)
        self._timed_out = timed_out
        self._tag = tag

    def process_timed_out_match(
        self, match: Match, ctx: PatternProcessFunction.Context
    ) -> Iterable[Any]:
        return ((self._tag, self._timed_out(match, ctx.timestamp())),)


class _FlatSelect(PatternProcessFunction):
    def __init__(self, function: Callable[[Match], Iterable[Any] | None]) -> None:
        self._function = function

    def process_match(
        self, match: Match, ctx: PatternProcessFunction.Context
    ) -> Iterable[Any] | None:
        del ctx
        return self._function(match)


class _FlatSelectWithTimeouts(_FlatSelect, TimedOutPartialMatchHandler):
    def __init__(
        self,
        function: Callable[[Match], Iterable[Any] | None],
        timed_out: Callable[[Match, int], Iterable[Any] | None],
        tag: OutputTag,
    ) -> None:
        super().__init__(function)
        self._timed_out = timed_out
        self._tag = tag

    def process_timed_out_match(
        self, match: Match, ctx: PatternProcessFunction.Context
    ) -> Iterable[Any] | None:
        values = self._timed_out(match, ctx.timestamp())
        return None if values is None else ((self._tag, value) for value in values)
