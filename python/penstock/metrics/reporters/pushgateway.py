"""Pushes metrics to a Prometheus Pushgateway, for clusters that end before they are scraped."""

from __future__ import annotations

import secrets
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Final

from penstock.errors import ConfigurationError
from penstock.metrics.reporters.prometheus import CONTENT_TYPE, prometheus_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.common.options.metrics import ReporterSettings
    from penstock.metrics.export import Scope
    from penstock.metrics.values import MetricValues

TIMEOUT_S: Final = 10.0


class PushgatewaySender:
    """Replaces the metrics of one group at a gateway."""

    def __init__(self, settings: ReporterSettings) -> None:
        """Read the gateway's address.

        Raises:
            ConfigurationError: The address is invalid; names the key.
        """
        address = settings.values["hostUrl"]
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise ConfigurationError(
                f"{settings.key('hostUrl')}: {address!r} is not a URL such as http://localhost:9091"
            )
        name = settings.values["jobName"]
        if settings.values["randomJobNameSuffix"]:
            name += secrets.token_hex(8)
        quoted = urllib.parse.quote(name, safe="")
        self.url = f"{address.rstrip('/')}/metrics/job/{quoted}"
        self._deletes = settings.values["deleteOnShutdown"]

    def send(self, metrics: Iterable[tuple[Scope, MetricValues]]) -> None:
        """Push a report."""
        self._ask("PUT", prometheus_text(metrics).encode())

    def close(self) -> None:
        """Delete the metrics at the gateway, if so configured."""
        if self._deletes:
            self._ask("DELETE", None)

    def _ask(self, method: str, body: bytes | None) -> None:
        request = urllib.request.Request(
            self.url, body, {"Content-Type": CONTENT_TYPE}, method=method
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            answer.read()
