"""WatermarkStrategy: assignment of timestamps and generation of watermarks."""

from __future__ import annotations

import inspect
import time
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import accepts
from penstock.common.calls.coroutines import refuse_coroutines
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import MissingMethods, NoJavaMembers
from penstock.common.calls.names import checked_name
from penstock.common.time import Duration, Time
from penstock.common.watermark_generator import (
    BoundedOutOfOrdernessWatermarks,
    IngestionTimeWatermarks,
    NoWatermarksGenerator,
    WatermarkGenerator,
)
from penstock.errors import InvalidProgramError, WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.expressions.expression import Expression


class TimestampAssigner(ABC):
    """A function that returns the timestamp of a record."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        """Return the timestamp of a record.

        Args:
            value: The record.
            record_timestamp: Its previous timestamp in ms, or -2**63 if it has none.

        Returns:
            Milliseconds since the epoch, or (beyond PyFlink) a `datetime`, an `Instant` or a
            ``numpy.datetime64``; a datetime without a zone is in UTC.
        """


@dataclass(frozen=True)
class WatermarkAlignment:
    """Lets the sources of a group wait for the slowest of them.

    Attributes:
        group: The name of the group.
        max_drift_ms: The time by which a source may be ahead of the slowest one.
        update_interval_ms: The interval at which the group compares its watermarks.
    """

    group: str
    max_drift_ms: int
    update_interval_ms: int = 1000


class IngestionTimeAssigner(TimestampAssigner):
    """Assign the time of the machine's clock to records; it never decreases."""

    def __init__(self) -> None:
        """Create an assigner."""
        self._last_ms = -(2**63)

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:  # noqa: ARG002
        """Return the time of the clock, in ms."""
        self._last_ms = max(self._last_ms, time.time_ns() // 1_000_000)
        return self._last_ms


class FunctionAssigner(TimestampAssigner):
    """Assign timestamps by a function of the record and its previous timestamp.

    Attributes:
        function: The function.
    """

    def __init__(self, function: Callable[[Any, int], Any]) -> None:
        """Create an assigner whose method is the function."""
        self.function = function
        vars(self)["extract_timestamp"] = function

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the function."""
        return FunctionAssigner, (self.function,)

    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        """Return the function's result."""
        return self.function(value, record_timestamp)


class WatermarkStrategy(MissingMethods):
    """Strategy that assigns timestamps and generates watermarks.

    Attributes:
        timestamp_assigner: The assigner of timestamps; None keeps the existing ones.
        idle_timeout_ms: The time without records after which the input is idle; None for never.
        alignment: The limit of the drift between sources, or None.
    """

    def __init__(self, generator_supplier: Callable[[], WatermarkGenerator]) -> None:
        """Create a strategy; prefer the static methods."""
        self._generator_supplier = generator_supplier
        self.timestamp_assigner: TimestampAssigner | None = None
        self.idle_timeout_ms: int | None = None
        self.alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Return a strategy for timestamps that never decrease, without delay of watermarks."""
        return WatermarkStrategy(_Bounded(0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration | Time) -> WatermarkStrategy:
        """Return a strategy for records that are out of order by a bound at most.

        Raises:
            InvalidProgramError: The bound is negative or not a Duration.
        """
        bound_ms = _millis(max_out_of_orderness, "for_bounded_out_of_orderness")
        return WatermarkStrategy(_Bounded(bound_ms))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return a strategy without watermarks before the end of the input."""
        return WatermarkStrategy(NoWatermarksGenerator)

    @staticmethod
    def for_generator(generator_supplier: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Return a strategy with a custom generator, created once per subtask (beyond PyFlink)."""
        if not callable(generator_supplier):
            raise InvalidProgramError(
                "for_generator takes a function or class that creates a WatermarkGenerator, got "
                f"{generator_supplier!r}"
            )
        refuse_coroutines(generator_supplier, "for_generator")
        return WatermarkStrategy(generator_supplier)

    @staticmethod
    def for_ingestion_time() -> WatermarkStrategy:
        """Return a strategy whose event time is the time of arrival (beyond PyFlink)."""
        strategy = WatermarkStrategy(IngestionTimeWatermarks)
        return strategy.with_timestamp_assigner(IngestionTimeAssigner())

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Expression | Callable[[Any, int], Any]
    ) -> WatermarkStrategy:
        """Set the timestamp assigner of this strategy, and return the strategy.

        Args:
            timestamp_assigner: A TimestampAssigner; beyond PyFlink an expression, or a function
                of the record and its previous timestamp, ``lambda event, ts: event.at``.

        Raises:
            InvalidProgramError: The assigner has another type, or takes other arguments.
        """
        as_assigner = getattr(timestamp_assigner, "__timestamp_assigner__", None)
        refuse_coroutines(timestamp_assigner, "with_timestamp_assigner")
        if as_assigner is not None:
            # An expression, evaluated for each record.
            timestamp_assigner = as_assigner()
        elif not isinstance(timestamp_assigner, TimestampAssigner | type) and callable(
            timestamp_assigner
        ):
            _check_two_arguments(timestamp_assigner)
            timestamp_assigner = FunctionAssigner(timestamp_assigner)
        if not isinstance(timestamp_assigner, TimestampAssigner):
            hint = ""
            if isinstance(timestamp_assigner, type):
                hint = f"; pass an instance: {timestamp_assigner.__name__}()"
            raise InvalidProgramError(
                "with_timestamp_assigner takes a TimestampAssigner or a function, got "
                f"{timestamp_assigner!r}{hint}"
            )
        self.timestamp_assigner = timestamp_assigner
        return self

    def with_idleness(self, idle_timeout: Duration | Time) -> WatermarkStrategy:
        """Return this strategy with a timeout after which an input without records is idle.

        The timestamp assigner is kept, so the order of the calls does not matter, as in Java.

        Raises:
            InvalidProgramError: The timeout is not positive or not a Duration.
        """
        timeout_ms = _millis(idle_timeout, "with_idleness")
        if timeout_ms <= 0:
            raise InvalidProgramError(f"an idle timeout must be positive, got {idle_timeout!r}")
        strategy = copy(self)
        strategy.idle_timeout_ms = timeout_ms
        return strategy

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration | Time,
        update_interval: Duration | Time | None = None,
    ) -> WatermarkStrategy:
        """Return this strategy with alignment: sources wait for the slowest of their group.

        The timestamp assigner is kept.

        Args:
            watermark_group: The name of the group.
            max_allowed_watermark_drift: The time by which a source may be ahead of the slowest one.
            update_interval: The interval at which watermarks are compared; by default 1 s.

        Raises:
            InvalidProgramError: The group's name is not a string or cannot be sent, or the interval
                is not positive.
        """
        where = "with_watermark_alignment"
        drift_ms = _millis(max_allowed_watermark_drift, where)
        interval_ms = 1000 if update_interval is None else _millis(update_interval, where)
        if interval_ms <= 0:
            raise InvalidProgramError(f"an update interval must be positive: {update_interval!r}")
        strategy = copy(self)
        strategy.alignment = WatermarkAlignment(
            checked_name("a watermark group", watermark_group), drift_ms, interval_ms
        )
        return strategy

    def create_watermark_generator(self) -> WatermarkGenerator:
        """Return a new generator for one subtask; the caller handles idleness."""
        generator = self._generator_supplier()
        refuse_coroutines(generator, "for_generator")
        return generator

    @property
    def emits_periodically(self) -> bool:
        """Return whether the generator may emit at all."""
        return self._generator_supplier is not NoWatermarksGenerator


@dataclass(frozen=True)
class _Bounded:
    """Creates the generators of the built-in strategies; a class, so that it pickles by name."""

    bound_ms: int

    def __call__(self) -> WatermarkGenerator:
        return BoundedOutOfOrdernessWatermarks(self.bound_ms)


class AssignerWithPeriodicWatermarksWrapper(NoJavaMembers):
    """PyFlink's wrapper of a Java assigner."""

    def __init__(self, j_assigner_with_periodic_watermarks: object) -> None:  # noqa: ARG002
        """Reject the call.

        Raises:
            JvmOnlyError: Always.
        """
        requires_jvm(
            "AssignerWithPeriodicWatermarksWrapper",
            "use WatermarkStrategy with a TimestampAssigner, or WatermarkStrategy.for_generator",
        )


def _check_two_arguments(function: Callable[..., Any]) -> None:
    """Check that a function can be called with a record and its timestamp.

    Raises:
        InvalidProgramError: The function takes other arguments.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a builtin function without a signature
        return
    if not accepts(signature, 2):
        raise InvalidProgramError(
            "with_timestamp_assigner takes a function of the record and its previous timestamp, "
            f"lambda event, ts: …, got one that takes {signature}"
        )


def _millis(duration: Duration | Time, where: str) -> int:
    given: Any = duration
    if not isinstance(given, Duration | Time):
        raise WrongArgumentError(f"{where} takes a Duration or a Time, got {given!r}")
    if duration.to_nanos() < 0:
        raise InvalidProgramError(f"{where} takes a Duration that is not negative: {duration!r}")
    return duration.to_millis()
