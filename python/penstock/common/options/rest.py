"""Options of the REST interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.common.options import high_availability, security
from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    BooleanType,
    ChoiceType,
    DurationType,
    IntegerType,
    MemorySizeType,
    PortRangeType,
    TextType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

PORT: Final[Option[tuple[int, ...] | None]] = Option(
    "rest.bind-port",
    PortRangeType(),
    None,
    "port of the REST interface; 0 for any free port; see [REST interface](rest.md)",
    alternate_keys=("rest.port", "web.port", "jobmanager.web.port"),
    default_text="there is none",
    scope="cluster",
)
ADDRESS: Final[Option[str | None]] = Option(
    "rest.address",
    TextType(),
    None,
    "host at which commands look for the REST interface whose port is set by -D",
    default_text="`jobmanager.rpc.address`, else localhost",
    scope="cluster",
)
BIND_ADDRESS: Final = Option(
    "rest.bind-address",
    TextType(),
    "127.0.0.1",
    "address on which the REST interface listens",
    alternate_keys=("web.address", "jobmanager.web.address"),
    scope="cluster",
)
AUTHENTICATION: Final = Option(
    "rest.authentication",
    ChoiceType("token", "none"),
    "token",
    "require a token for the REST interface; with none, it is open to all who reach it",
    scope="cluster",
)
TOKEN: Final[Option[str | None]] = Option(
    "rest.token",
    TextType(),
    None,
    "token of the REST interface",
    default_text="a new one for each cluster",
    scope="cluster",
)
READ_ONLY: Final = Option(
    "rest.read-only",
    BooleanType(),
    False,
    "reject requests to the REST interface that change a job: cancel, stop, savepoints, "
    "checkpoints",
    scope="cluster",
)
CANCEL_ON_PAGE: Final = Option(
    "web.cancel.enable",
    BooleanType(),
    True,
    "show buttons in the dashboard that cancel or stop a job",
    scope="cluster",
)
RESCALE_ON_PAGE: Final = Option(
    "web.rescale.enable",
    BooleanType(),
    True,
    "show a button in the dashboard that rescales a job",
    scope="cluster",
)
MAX_CONTENT: Final = Option(
    "rest.server.max-content-length",
    MemorySizeType(1024),
    64 * 1024,
    "longest body that the REST interface accepts",
    scope="cluster",
)
FLAME_GRAPHS: Final = Option(
    "rest.flamegraph.enabled",
    BooleanType(),
    False,
    "let the REST interface and the dashboard show where tasks spend their time",
    scope="cluster",
)
FLAME_GRAPH_SAMPLES: Final = Option(
    "rest.flamegraph.num-samples",
    IntegerType(1, 10_000),
    100,
    "number of samples of a task's threads for a flame graph",
    scope="cluster",
)
FLAME_GRAPH_DELAY: Final = Option(
    "rest.flamegraph.delay-between-samples",
    DurationType(1),
    50,
    "time between two samples",
    scope="cluster",
)
FLAME_GRAPH_DEPTH: Final = Option(
    "rest.flamegraph.stack-depth",
    IntegerType(1, 200),
    100,
    "number of calls of a stack that a flame graph shows, the innermost ones",
    scope="cluster",
)
FLAME_GRAPH_NATIVE: Final = Option(
    "penstock.rest.flamegraph-native-functions",
    BooleanType(),
    True,
    "show native functions among those of Python in flame graphs; threads then get signals",
    scope="cluster",
)
FLAME_GRAPH_REFRESH: Final = Option(
    "rest.flamegraph.refresh-interval",
    DurationType(),
    60_000,
    "age at which a flame graph is replaced on request",
    scope="cluster",
)
FLAME_GRAPH_CLEANUP: Final = Option(
    "rest.flamegraph.cleanup-interval",
    DurationType(1),
    600_000,
    "time without requests after which a flame graph is dropped",
    scope="cluster",
)
RECORD_SAMPLES: Final = Option(
    "penstock.rest.record-samples",
    ChoiceType("VALUES", "TYPES", "OFF"),
    "VALUES",
    "what the REST interface and the dashboard show of records on an edge: their values, only"
    " their types, or nothing",
    scope="cluster",
)
REFRESH_INTERVAL: Final = Option(
    "web.refresh-interval",
    DurationType(100),
    3_000,
    "interval at which the dashboard is updated, and at which tools should query the REST "
    "interface",
    alternate_keys=("jobmanager.web.refresh-interval",),
    scope="cluster",
)


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for workers, without secrets: user code can read them."""
    hidden = {
        TOKEN.key,
        high_availability.ZOOKEEPER_AUTHORIZATION.key,
        security.REST_KEY_PASSWORD.key,
    }
    return {key: value for key, value in options.items() if key not in hidden}


_SENSITIVE: Final = (
    "password", "secret", "token", "credential", "apikey", "api-key", "auth-params",
    "service-key", "account.key", "basic-auth", "jaas.config", "http-headers", "authorization",
)  # fmt: skip
"""Parts of keys whose values are secret, as in Flink."""


def is_sensitive(key: str) -> bool:
    """Return whether the value of a key is secret."""
    return any(part in key.lower() for part in _SENSITIVE)
