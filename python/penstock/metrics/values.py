"""Values of metrics at one moment, in the form in which a worker sends them.

A metric keeps its kind, so that a reporter can distinguish a count from a level.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.common.exception_text import described, encodable
from penstock.metrics import metricbase
from penstock.metrics.gauges import GAUGES_TIME_S, GaugeTurn, UserGauge

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

#: Limit of the metrics of one scope that a worker sends; more are a defect of user code.
MAX_METRICS: Final = 4096
#: Limits of a metric's name and of a text that is its value; longer ones are cut.
MAX_NAME_CHARACTERS: Final = 512
MAX_TEXT_CHARACTERS: Final = 1024

GaugeValue = int | float | str


class HistogramValue(msgspec.Struct, frozen=True):
    """The distribution of the last values; all zero if there are none yet."""

    count: int = 0
    min: float = 0
    max: float = 0
    mean: float = 0
    median: float = 0
    stddev: float = 0
    p75: float = 0
    p90: float = 0
    p95: float = 0
    p98: float = 0
    p99: float = 0
    p999: float = 0

    @staticmethod
    def of(values: list[int], count: int) -> HistogramValue:
        """Summarise the last values of ``count`` values in all."""
        if not values:
            return HistogramValue(count)
        ordered = sorted(map(float, values))
        mean = math.fsum(ordered) / len(ordered)
        variance = math.fsum((value - mean) ** 2 for value in ordered) / len(ordered)

        def quantile(share: float) -> float:
            return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])

        return HistogramValue(
            count,
            ordered[0],
            ordered[-1],
            mean,
            quantile(0.5),
            math.sqrt(variance),
            *(quantile(share) for share in (0.75, 0.9, 0.95, 0.98, 0.99, 0.999)),
        )


class MeterValue(msgspec.Struct, frozen=True):
    """The total of events, and their recent rate per second."""

    count: int
    rate: float


class MetricValues(msgspec.Struct, frozen=True, omit_defaults=True):
    """The metrics of one scope, by name within the scope."""

    counters: dict[str, int] = {}
    gauges: dict[str, GaugeValue] = {}
    meters: dict[str, MeterValue] = {}
    histograms: dict[str, HistogramValue] = {}

    def flat(self) -> dict[str, GaugeValue]:
        """Return one value for each name, as Flink's REST interface does.

        A meter is its rate; a distribution becomes one name for each of its figures.
        """
        values: dict[str, GaugeValue] = {**self.counters, **self.gauges}
        values |= {name: meter.rate for name, meter in self.meters.items()}
        for name, histogram in self.histograms.items():
            for figure in HISTOGRAM_FIGURES:
                values[f"{name}_{figure}"] = getattr(histogram, figure)
        return values


HISTOGRAM_FIGURES: Final = tuple(
    name for name in HistogramValue.__struct_fields__ if name != "count"
)
NO_VALUES: Final = MetricValues()


def read_metrics(
    metrics: Mapping[str, Any], scope: str, until_s: float | None = None
) -> MetricValues:
    """Read registered metrics; any thread, while their owner continues.

    A metric that raises, and a gauge that returns neither a number nor a text or takes too long, is
    skipped; this is logged once.

    Args:
        metrics: By name: counters, meters, distributions, gauges of users, or functions that return
            a value.
        scope: Their owner, for the log.
        until_s: The deadline for gauges of users, on the monotonic clock; None for the default
            time limit.
    """
    gauges_of_users: dict[str, UserGauge] = {}
    counters: dict[str, int] = {}
    gauges: dict[str, GaugeValue] = {}
    meters: dict[str, MeterValue] = {}
    histograms: dict[str, HistogramValue] = {}
    for number, (full_name, metric) in enumerate(list(metrics.items())):
        if number >= MAX_METRICS:
            _complain(scope, "", f"has {len(metrics)} metrics; {MAX_METRICS} of them are reported")
            break
        name = encodable(full_name, MAX_NAME_CHARACTERS)
        try:
            if isinstance(metric, UserGauge):
                gauges_of_users[name] = metric
            elif isinstance(metric, metricbase.Counter):
                counters[name] = _bounded(metric.get_count())
            elif isinstance(metric, metricbase.Meter):
                meters[name] = MeterValue(_bounded(metric.get_count()), float(metric.get_rate()))
            elif isinstance(metric, metricbase.Distribution):
                count = _bounded(metric.get_count())
                histograms[name] = HistogramValue.of(metric.recent_values(), count)
            elif (value := _gauge_value(metric, scope, name)) is not None:
                gauges[name] = value
        except Exception as error:  # of counted or recorded values, which may not be numbers
            _complain(scope, name, f"has no value: {described(error)}")
    if gauges_of_users:
        turn = GaugeTurn(
            gauges_of_users,
            lambda name, gauge: _gauge_value(gauge, scope, name),
            lambda name, what: _complain(scope, name, what),
        )
        gauges |= turn.run(time.monotonic() + GAUGES_TIME_S if until_s is None else until_s)
    return MetricValues(counters, gauges, meters, histograms)


def _gauge_value(gauge: Any, scope: str, name: str) -> GaugeValue | None:
    try:
        return _as_gauge_value(gauge(), scope, name)
    except BaseException as error:  # the user's gauge raised; this must not end anything
        _complain(scope, name, f"raised {described(error)}")
        return None


def _as_gauge_value(value: Any, scope: str, name: str) -> GaugeValue | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return _bounded(value)
    if isinstance(value, str):
        return encodable(value, MAX_TEXT_CHARACTERS)
    try:
        # Also a number of numpy or another subclass of float, which a message cannot have.
        return float(value)
    except Exception:
        _complain(scope, name, f"is a {type(value).__name__}, not a number or text")
        return None


def _bounded(value: int) -> int:
    """Return a number within the range of MessagePack."""
    return max(-(2**63), min(int(value), 2**63 - 1))


_complained: set[tuple[str, str]] = set()


def _complain(scope: str, name: str, what: str) -> None:
    key = (scope, name)
    if key not in _complained and len(_complained) < MAX_METRICS:
        _complained.add(key)
        logger.warning("metric %s of %s %s", name or "registry", scope, what)


def as_number(value: GaugeValue | None) -> float:
    """Return the value as a number; NaN if it is not one."""
    if isinstance(value, (int, float)):
        return float(value)
    return math.nan
