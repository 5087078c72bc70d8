"""SparkMetricsSender: penstock's metrics in the metrics system of the Spark that hosts it.

From outside its JVM, Spark's public interface for this is accumulators that a source of its driver
reports (`DoubleAccumulatorSource`): one for each metric, set to the metric's value.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import ConfigurationError
from penstock.metrics.export import Scope
from penstock.metrics.values import MetricValues

if TYPE_CHECKING:
    from penstock.common.options.metrics import ReporterSettings

MAX_METRICS: Final = 10_000
"""Spark keeps an accumulator as long as its application runs; more names are a program's bug."""
_EXACT: Final = 2.0**53


class SparkMetricsSender:
    """Reports metrics to Spark's metrics system, as long as its application runs."""

    def __init__(self, settings: "ReporterSettings", delimiter: str) -> None:
        """Find the Spark of this process.

        Args:
            settings: The settings of the reporter.
            delimiter: The separator of the parts of a name.

        Raises:
            ConfigurationError: The process has no Spark.
        """
        try:
            from pyspark import SparkContext
        except ImportError:
            context: Any = None
        else:
            context = SparkContext._active_spark_context
        if context is None:
            raise ConfigurationError(
                f"{settings.class_key}: spark is for jobs that Spark hosts, and this "
                "process has no Spark; prometheus, statsd and otel need none"
            )
        self._jvm: Any = context._jvm
        self._spark: Any = context._jsc.sc()
        package = self._jvm.org.apache.spark.metrics.source
        self._source = getattr(getattr(package, "DoubleAccumulatorSource$"), "MODULE$")
        self._delimiter = delimiter
        self._known: dict[str, tuple[Any, float]] = {}

    def send(self, metrics: Iterable[tuple[Scope, MetricValues]]) -> None:
        """Set the accumulators to the values, and register new names."""
        fresh = self._jvm.java.util.HashMap()
        for scope, values in metrics:
            prefix = self._delimiter.join(scope.identifier)
            for name, value in values.flat().items():
                if not isinstance(value, str) and math.isfinite(value):
                    self._show(f"{prefix}{self._delimiter}{name}", float(value), fresh)
        if not fresh.isEmpty():
            self._source.register(self._spark, self._jvm.PythonUtils.toScalaMap(fresh))

    def _show(self, name: str, value: float, fresh: Any) -> None:
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= MAX_METRICS:
                return
            known = self._spark.doubleAccumulator(name), 0.0
            fresh[f"penstock{self._delimiter}{name}"] = known[0]
        accumulator, before = known
        self._known[name] = accumulator, value
        if value == before:
            return
        if max(abs(value), abs(before)) > _EXACT:
            accumulator.reset()  # adding the difference would not yield the value
            before = 0.0
        accumulator.add(value - before)
