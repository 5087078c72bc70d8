"""Options of what protects the data plane's connections."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import BooleanType, DurationType

TLS_ENABLED: Final = Option(
    "security.ssl.internal.enabled",
    BooleanType(),
    False,
    "encrypt what TaskExecutors send each other; see [Encryption](running.md#encryption)",
)
HANDSHAKE_TIMEOUT: Final = Option(
    "security.ssl.internal.handshake-timeout",
    DurationType(1),
    10_000,
    "how long a TaskExecutor that connects to another may take to prove itself, encrypted or not",
    alternate_keys=("security.ssl.handshake-timeout",),
)
