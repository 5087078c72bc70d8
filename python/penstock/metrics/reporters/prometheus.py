"""Metrics in Prometheus's text format, under the names of Flink's reporter.

The names are ``flink_`` and the logical scope, as ``flink_taskmanager_job_task_numRecordsIn``, so
that rules and dashboards made for Flink find them.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from penstock.common.exception_text import encodable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.metrics.export import Scope
    from penstock.metrics.values import MetricValues

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_INVALID: Final = re.compile(r"[^a-zA-Z0-9:_]")
_QUANTILES: Final = (
    ("0.5", "median"),
    ("0.75", "p75"),
    ("0.95", "p95"),
    ("0.98", "p98"),
    ("0.99", "p99"),
    ("0.999", "p999"),
)


def prometheus_text(metrics: Iterable[tuple[Scope, MetricValues]]) -> str:
    """Return all metrics as one page.

    Counters and rates are gauges, as in Flink's reporter: a counter may decrease.  Texts are left
    out.
    """
    page = _Page()
    for scope, values in metrics:
        for name, count in values.counters.items():
            page.add(scope, name, "gauge", [("", {}, count)])
        for name, value in values.gauges.items():
            if not isinstance(value, str):
                page.add(scope, name, "gauge", [("", {}, value)])
        for name, meter in values.meters.items():
            page.add(scope, name, "gauge", [("", {}, meter.rate)])
        for name, histogram in values.histograms.items():
            samples: list[_Sample] = [
                ("", {"quantile": quantile}, getattr(histogram, figure))
                for quantile, figure in _QUANTILES
            ]
            page.add(scope, name, "summary", [*samples, ("_count", {}, histogram.count)])
    return page.text()


_Sample = tuple[str, dict[str, str], float]
"""Suffix of the family's name, further labels, and the value."""


class _Page:
    """Samples in the order of the format: those of one family together."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        self._kinds: dict[str, str] = {}
        self._helps: dict[str, str] = {}

    def add(self, scope: Scope, name: str, kind: str, samples: Iterable[_Sample]) -> None:
        family = _INVALID.sub("_", "_".join(("flink", *scope.logical, name)))
        if self._kinds.setdefault(family, kind) != kind:
            return  # another metric has the name already, and a family has one kind
        self._helps.setdefault(family, f"{name} (scope: {'_'.join(scope.logical)})")
        self._lines.setdefault(family, []).extend(
            f"{family}{suffix}{{{_labels({**scope.variables, **extra})}}} {_number(value)}"
            for suffix, extra, value in samples
        )

    def text(self) -> str:
        return "".join(
            f"# HELP {family} {_escaped_help(self._helps[family])}\n"
            f"# TYPE {family} {self._kinds[family]}\n" + "\n".join(lines) + "\n"
            for family, lines in self._lines.items()
        )


def _labels(variables: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in variables.items())


def _escaped(value: str) -> str:
    return _escaped_help(value).replace('"', '\\"')


def _escaped_help(text: str) -> str:
    # Lone surrogates first: readers of the format reject a backslash before a "u".
    return encodable(text).replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
