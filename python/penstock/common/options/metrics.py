"""Options of metrics: how often they are gathered, and their reporters.

Reporters have names of the user's choice, and keys with these names, as in Flink:
``metrics.reporter.<name>.factory.class`` and others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    BooleanType,
    ChoiceType,
    DurationType,
    IntegerType,
    ListType,
    PortRangeType,
    TextType,
    ValueType,
)
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FETCHER_INTERVAL: Final = Option(
    "metrics.fetcher.update-interval",
    DurationType(),
    10_000,
    "interval at which TaskExecutors send metrics to the driver while the REST interface is "
    "on; 0 for never",
    scope="cluster",
)
REPORTED_AT_END: Final = Option(
    "penstock.metrics.reported-at-end",
    BooleanType(),
    False,
    "let tasks send their metrics to the driver when they end although nothing else asks for "
    "metrics; `explain(analyze=True)` sets it for its job",
    scope="cluster",
)
REPORTERS: Final[Option[tuple[str, ...]]] = Option(
    "metrics.reporters",
    ListType(),
    (),
    "names of the reporters that run, of those in `metrics.reporter.<name>.*`; see "
    "[Metrics](metrics.md)",
    default_text="all of them",
    scope="cluster",
)

SCOPE_DELIMITER: Final = Option(
    "metrics.scope.delimiter",
    TextType(),
    ".",
    "separator between the parts of a metric's name, for StatsD and the log",
    scope="cluster",
)
SCOPE_DRIVER: Final = Option(
    "metrics.scope.jm",
    TextType(),
    "<host>.jobmanager",
    "prefix of the driver's metrics; see [Names of metrics](metrics.md#names-of-metrics)",
    scope="cluster",
)
SCOPE_DRIVER_JOB: Final = Option(
    "metrics.scope.jm-job",
    TextType(),
    "<host>.jobmanager.<job_name>",
    "prefix of a job's metrics",
    alternate_keys=("metrics.scope.jm.job",),
    scope="cluster",
)
SCOPE_WORKER: Final = Option(
    "metrics.scope.tm",
    TextType(),
    "<host>.taskmanager.<tm_id>",
    "prefix of a TaskExecutor's metrics",
    scope="cluster",
)
SCOPE_TASK: Final = Option(
    "metrics.scope.task",
    TextType(),
    "<host>.taskmanager.<tm_id>.<job_name>.<task_name>.<subtask_index>",
    "prefix of a task's metrics",
    scope="cluster",
)
SCOPE_OPERATOR: Final = Option(
    "metrics.scope.operator",
    TextType(),
    "<host>.taskmanager.<tm_id>.<job_name>.<operator_name>.<subtask_index>",
    "prefix of an operator's metrics",
    scope="cluster",
)

_KEY: Final = re.compile(r"(metrics|traces)\.reporter\.([^.]+)\.(.+)")
_CLASS: Final = "factory.class"
_INTERVAL: Final = DurationType(1)
REPORTER_CLASSES: Final = {
    "log": "log",
    "org.apache.flink.metrics.slf4j.Slf4jReporterFactory": "log",
    "prometheus": "prometheus",
    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory": "prometheus",
    "otel": "otel",
    "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory": "otel",
    "pushgateway": "pushgateway",
    "org.apache.flink.metrics.prometheus.PrometheusPushGatewayReporterFactory": "pushgateway",
    "spark": "spark",
    "statsd": "statsd",
    "org.apache.flink.metrics.statsd.StatsDReporterFactory": "statsd",
}
"""Flink's names of factories and short ones, with penstock's equivalents."""

_CLASSES: Final = {
    "metrics": REPORTER_CLASSES,
    "traces": {
        "otel": "otel-traces",
        "org.apache.flink.traces.otel.OpenTelemetryTraceReporterFactory": "otel-traces",
    },
}
"""The same by the reported family, with which keys start."""

_OTLP: Final[dict[str, tuple[ValueType[Any], str]]] = {
    "exporter.protocol": (ChoiceType("HTTP"), "HTTP"),
    "exporter.timeout": (_INTERVAL, "10 s"),
    "service.name": (TextType(), "penstock"),
    "service.version": (TextType(), ""),
}

_OF_KIND: Final[dict[str, dict[str, tuple[ValueType[Any], str]]]] = {
    "log": {"interval": (_INTERVAL, "10 s")},
    "otel": {
        "interval": (_INTERVAL, "10 s"),
        "exporter.endpoint": (TextType(), "http://localhost:4318/v1/metrics"),
        **_OTLP,
    },
    "otel-traces": {
        "interval": (_INTERVAL, "1 s"),
        "exporter.endpoint": (TextType(), "http://localhost:4318/v1/traces"),
        **_OTLP,
    },
    "prometheus": {"port": (PortRangeType(), "9249"), "host": (TextType(), "127.0.0.1")},
    "pushgateway": {
        "interval": (_INTERVAL, "10 s"),
        "hostUrl": (TextType(), "http://localhost:9091"),
        "jobName": (TextType(), "penstock"),
        "randomJobNameSuffix": (BooleanType(), "true"),
        "deleteOnShutdown": (BooleanType(), "true"),
    },
    "spark": {"interval": (_INTERVAL, "10 s")},
    "statsd": {
        "interval": (_INTERVAL, "10 s"),
        "host": (TextType(), "localhost"),
        "port": (IntegerType(1, 65535), "8125"),
    },
}
"""The options of each kind with their defaults."""


@dataclass(frozen=True)
class ReporterSettings:
    """One reporter.

    Attributes:
        name: Its name, chosen by the user.
        kind: ``log``, ``prometheus``, ``pushgateway``, ``spark``, ``statsd``, ``otel`` or
            ``otel-traces``.
        values: Its own options by their last names.
        family: ``metrics`` or ``traces``.
    """

    name: str
    kind: str
    values: Mapping[str, Any]
    family: str = "metrics"

    @property
    def class_key(self) -> str:
        """Return the key that sets the kind of reporter."""
        return self.key(_CLASS)

    def key(self, option: str) -> str:
        """Return the key of one of its options."""
        return f"{self.family}.reporter.{self.name}.{option}"


def reporters_of(
    configuration: Mapping[str, str], chosen: tuple[str, ...] = ()
) -> list[ReporterSettings]:
    """Return the configured reporters that penstock supports, in the order of their names.

    Args:
        configuration: The options.
        chosen: The value of `REPORTERS`.

    Raises:
        ConfigurationError: A value is invalid, or `REPORTERS` names one that has no class;
            names the key.
    """
    found = _by_name(configuration)
    names = _names(chosen)
    for name in names:
        if _CLASS not in found.get(("metrics", name), {}):
            raise ConfigurationError(
                f"{REPORTERS.key} names {name!r}, but metrics.reporter.{name}.{_CLASS} is not set"
            )
    return [
        _reporter(family, name, _CLASSES[family][options[_CLASS]], options)
        for (family, name), options in sorted(found.items())
        if options.get(_CLASS) in _CLASSES[family] and _is_chosen(family, name, names)
    ]


def idle_reporter_keys(configuration: Mapping[str, str], chosen: tuple[str, ...] = ()) -> set[str]:
    """Return the keys of unsupported reporters, and of unsupported options of the others.

    Args:
        configuration: The options.
        chosen: The value of `REPORTERS`.
    """
    idle: set[str] = set()
    names = _names(chosen)
    for (family, name), options in _by_name(configuration).items():
        kind = _CLASSES[family].get(options.get(_CLASS, ""))
        if kind is None or not _is_chosen(family, name, names):
            idle |= {f"{family}.reporter.{name}.{option}" for option in options}
        else:
            idle |= {
                f"{family}.reporter.{name}.{option}"
                for option in options
                if option != _CLASS and option not in _OF_KIND[kind]
            }
    return idle


def is_reporter_key(key: str) -> bool:
    """Return whether a key is an option of a named reporter."""
    return _KEY.fullmatch(key) is not None


def _is_chosen(family: str, name: str, names: list[str]) -> bool:
    """Return whether a reporter is chosen; `REPORTERS` chooses only among those of metrics."""
    return family != "metrics" or not names or name in names


def _by_name(configuration: Mapping[str, str]) -> dict[tuple[str, str], dict[str, str]]:
    found: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in configuration.items():
        match = _KEY.fullmatch(key)
        if match is not None:
            found.setdefault((match[1], match[2]), {})[match[3]] = value
    return found


def _names(chosen: tuple[str, ...]) -> list[str]:
    # Flink accepts commas here, too.
    return [name.strip() for text in chosen for name in text.split(",") if name.strip()]


def _reporter(family: str, name: str, kind: str, options: Mapping[str, str]) -> ReporterSettings:
    values = {}
    for option, (value_type, default) in _OF_KIND[kind].items():
        text = options.get(option, default)
        try:
            values[option] = value_type.parse(text)
        except ValueError as error:
            raise ConfigurationError(
                f"{family}.reporter.{name}.{option}: {text!r}: {error}"
            ) from None
    return ReporterSettings(name, kind, values, family)
