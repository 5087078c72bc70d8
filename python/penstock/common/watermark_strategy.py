"""WatermarkStrategy: assignment of timestamps and generation of watermarks."""

from __future__ import annotations

import inspect
import time
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.coroutines import refuse_coroutines
from penstock.common.jvm import requires_jvm
from penstock.common.missing_methods import MissingMethods, NoJavaMembers
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
    """Gives records their timestamp."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        """The timestamp of a record.

        Args:
            value: The record.
            record_timestamp: Its timestamp so far in ms, or -2**63 when it has none.

        Returns:
            Milliseconds since the epoch, or (beyond PyFlink) a `datetime`, an `Instant` or a
            ``numpy.datetime64``; a datetime without a zone counts as one of UTC.
        """


@dataclass(frozen=True)
class WatermarkAlignment:
    """Sources of one group wait for the slowest of them.

    Attributes:
        group: The name of the group.
        max_drift_ms: The time by which a source may be ahead of the slowest one.
        update_interval_ms: The interval at which the group compares its watermarks.
    """

    group: str
    max_drift_ms: int
    update_interval_ms: int = 1000


class IngestionTimeAssigner(TimestampAssigner):
    """Gives records the time of the machine's clock; it never goes back."""

    def __init__(self) -> None:
        """Start before any record."""
        self._last_ms = -(2**63)

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:  # noqa: ARG002
        """The time of the clock, in ms."""
        self._last_ms = max(self._last_ms, time.time_ns() // 1_000_000)
        return self._last_ms


class FunctionAssigner(TimestampAssigner):
    """Timestamps records by a function of the record and its timestamp so far.

    Attributes:
        function: The function.
    """

    def __init__(self, function: Callable[[Any, int], Any]) -> None:
        """Keep the function, which stands for the method."""
        self.function = function
        vars(self)["extract_timestamp"] = function

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the function alone."""
        return FunctionAssigner, (self.function,)

    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        """The function's result."""
        return self.function(value, record_timestamp)


class WatermarkStrategy(MissingMethods):
    """Strategy that assigns timestamps and generates watermarks.

    Attributes:
        timestamp_assigner: Gives records their timestamp; None keeps the one they have.
        idle_timeout_ms: After so long without records the input counts as idle; None never.
        alignment: Limits how far sources drift apart, or None.
    """

    def __init__(self, generator_supplier: Callable[[], WatermarkGenerator]) -> None:
        """Make a strategy; the static methods read better."""
        self._generator_supplier = generator_supplier
        self.timestamp_assigner: TimestampAssigner | None = None
        self.idle_timeout_ms: int | None = None
        self.alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For timestamps that never decrease: watermarks follow at once."""
        return WatermarkStrategy(_Bounded(0))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration | Time) -> WatermarkStrategy:
        """For records that come later than others by a bound at most.

        Raises:
            InvalidProgramError: The bound is negative or no Duration.
        """
        bound_ms = _millis(max_out_of_orderness, "for_bounded_out_of_orderness")
        return WatermarkStrategy(_Bounded(bound_ms))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """For pipelines without event time: the watermark only moves at the end of the input."""
        return WatermarkStrategy(NoWatermarksGenerator)

    @staticmethod
    def for_generator(generator_supplier: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """A generator of the user's own; called once per subtask (beyond PyFlink)."""
        if not callable(generator_supplier):
            raise InvalidProgramError(
                "for_generator takes a function or class that makes a WatermarkGenerator, got "
                f"{generator_supplier!r}"
            )
        refuse_coroutines(generator_supplier, "for_generator")
        return WatermarkStrategy(generator_supplier)

    @staticmethod
    def for_ingestion_time() -> WatermarkStrategy:
        """Event time is when records arrive: they get the clock's time (beyond PyFlink)."""
        strategy = WatermarkStrategy(IngestionTimeWatermarks)
        return strategy.with_timestamp_assigner(IngestionTimeAssigner())

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Expression | Callable[[Any, int], Any]
    ) -> WatermarkStrategy:
        """Set where timestamps come from, on this very strategy.

        Args:
            timestamp_assigner: A TimestampAssigner; beyond PyFlink an expression, or a function
                of the record and its timestamp so far, ``lambda event, ts: event.at``.

        Raises:
            InvalidProgramError: It is none of these, or takes other arguments.
        """
        as_assigner = getattr(timestamp_assigner, "__timestamp_assigner__", None)
        refuse_coroutines(timestamp_assigner, "with_timestamp_assigner")
        if as_assigner is not None:
            # An expression: what is computed of records.
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
        """Return a strategy whose input counts as idle after so long without records.

        Everything else is as in this strategy, the timestamp assigner included: the order of
        the calls does not matter, as in Java.

        Raises:
            InvalidProgramError: The timeout is not positive or no Duration.
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
        """Return a strategy whose sources wait for the slowest of their group.

        Everything else is as in this strategy, the timestamp assigner included.

        Args:
            watermark_group: The name of the group.
            max_allowed_watermark_drift: The most that a source may be ahead of the slowest one.
            update_interval: The interval at which watermarks are compared; by default 1 s.
        """
        strategy = copy(self)
        strategy.alignment = WatermarkAlignment(
            watermark_group,
            _millis(max_allowed_watermark_drift, "with_watermark_alignment"),
            1000
            if update_interval is None
            else _millis(update_interval, "with_watermark_alignment"),
        )
        return strategy

    def create_watermark_generator(self) -> WatermarkGenerator:
        """A new generator, for one subtask; idleness is the caller's affair."""
        generator = self._generator_supplier()
        refuse_coroutines(generator, "for_generator")
        return generator

    @property
    def emits_periodically(self) -> bool:
        """Return whether the generator may emit at all."""
        return self._generator_supplier is not NoWatermarksGenerator


@dataclass(frozen=True)
class _Bounded:
    """Makes the generators of the built-in strategies; a class, so that it pickles by name."""

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
    """Refuse a function that cannot be called with a record and its timestamp.

    Raises:
        InvalidProgramError: It takes other arguments.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a builtin function that does not say
        return
    try:
        signature.bind(None, 0)
    except TypeError:
        raise InvalidProgramError(
            "with_timestamp_assigner takes a function of the record and its timestamp so far, "
            f"lambda event, ts: …, got one that takes {signature}"
        ) from None


def _millis(duration: Duration | Time, where: str) -> int:
    given: Any = duration
    if not isinstance(given, Duration | Time):
        raise WrongArgumentError(f"{where} takes a Duration or a Time, got {given!r}")
    if duration.to_nanos() < 0:
        raise InvalidProgramError(f"{where} takes a Duration that is not negative: {duration!r}")
    return duration.to_millis()
