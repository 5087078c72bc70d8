"""Options of what protects connections."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import BooleanType, DurationType, TextType

TLS_ENABLED: Final = Option(
    "security.ssl.internal.enabled",
    BooleanType(),
    False,
    "encrypt what TaskExecutors send each other and what they and the driver do; see "
    "[Encryption](running.md#encryption)",
    default_text="false; true on a Spark that encrypts its network",
    scope="cluster",
)
HANDSHAKE_TIMEOUT: Final = Option(
    "security.ssl.internal.handshake-timeout",
    DurationType(1),
    10_000,
    "how long a TaskExecutor that connects to another may take to prove itself, encrypted or not",
    alternate_keys=("security.ssl.handshake-timeout",),
    scope="cluster",
)
REST_TLS_ENABLED: Final = Option(
    "security.ssl.rest.enabled",
    BooleanType(),
    False,
    "whether the REST interface and the dashboard are served with TLS",
    scope="cluster",
)
REST_KEY_STORE: Final[Option[str | None]] = Option(
    "security.ssl.rest.keystore",
    TextType(),
    None,
    "a PEM file with the private key of the REST interface and its certificates, its own first",
    scope="cluster",
)
REST_KEY_PASSWORD: Final[Option[str | None]] = Option(
    "security.ssl.rest.key-password",
    TextType(),
    None,
    "what the private key is encrypted with",
    default_text="it is not encrypted",
    scope="cluster",
)
REST_CLIENTS_AUTHENTICATED: Final = Option(
    "security.ssl.rest.authentication-enabled",
    BooleanType(),
    False,
    "whether clients of the REST interface must show a certificate",
    scope="cluster",
)
REST_TRUST_STORE: Final[Option[str | None]] = Option(
    "security.ssl.rest.truststore",
    TextType(),
    None,
    "a PEM file with the certificates that may have signed those of clients",
    scope="cluster",
)
