"""Watermark strategies can be composed in any order."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkAlignment
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable


class OfValue(TimestampAssigner):
    """Uses the value itself as timestamp."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the value."""
        return int(value)


ASSIGNER = OfValue()

STEPS: dict[str, Callable[[WatermarkStrategy], WatermarkStrategy]] = {
    "assigner": lambda strategy: strategy.with_timestamp_assigner(ASSIGNER),
    "idleness": lambda strategy: strategy.with_idleness(Duration.of_seconds(5)),
    "alignment": lambda strategy: strategy.with_watermark_alignment("g", Duration.of_seconds(1)),
}


@pytest.mark.parametrize("order", list(permutations(STEPS)), ids="-".join)
def test_the_order_of_the_calls_does_not_matter(order: tuple[str, ...]) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    for step in order:
        strategy = STEPS[step](strategy)
    assert strategy.timestamp_assigner is ASSIGNER
    assert strategy.idle_timeout_ms == 5_000
    assert strategy.alignment == WatermarkAlignment("g", 1_000, 1_000)


def test_ingestion_time_keeps_its_clock_with_idleness() -> None:
    strategy = WatermarkStrategy.for_ingestion_time()
    clock = strategy.timestamp_assigner
    assert clock is not None
    assert strategy.with_idleness(Duration.of_seconds(5)).timestamp_assigner is clock


def test_a_strategy_with_idleness_is_another_one() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with_idleness = strategy.with_idleness(Duration.of_seconds(5))
    with_idleness.with_timestamp_assigner(ASSIGNER)
    assert strategy.idle_timeout_ms is None
    assert strategy.timestamp_assigner is None


@pytest.mark.parametrize("interval", [Duration.of_millis(0), Duration.of_nanos(5)])
def test_watermarks_are_not_compared_without_a_pause(interval: Duration) -> None:
    with pytest.raises(InvalidProgramError, match="an update interval must be positive"):
        WatermarkStrategy.no_watermarks().with_watermark_alignment(
            "g", Duration.of_seconds(1), interval
        )
