"""Metrics that functions register: what `RuntimeContext.get_metrics_group` gives."""

from penstock.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
