"""Options of secure connections."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import BooleanType, DurationType, TextType

TLS_ENABLED: Final = Option(
    "security.ssl.internal.enabled",
    BooleanType(),
    False,
    "encrypt the connections between TaskExecutors, and between them and the driver; see "
    "[Encryption](encryption.md)",
    default_text="false; true on a Spark that encrypts its network",
    scope="cluster",
)
HANDSHAKE_TIMEOUT: Final = Option(
    "security.ssl.internal.handshake-timeout",
    DurationType(1),
    10_000,
    "time in which a TaskExecutor that connects to another must authenticate, encrypted or not",
    alternate_keys=("security.ssl.handshake-timeout",),
    scope="cluster",
)
REST_TLS_ENABLED: Final = Option(
    "security.ssl.rest.enabled",
    BooleanType(),
    False,
    "serve the REST interface and the dashboard with TLS",
    scope="cluster",
)
REST_KEY_STORE: Final[Option[str | None]] = Option(
    "security.ssl.rest.keystore",
    TextType(),
    None,
    "PEM file with the private key of the REST interface and its certificates, its own first",
    scope="cluster",
)
REST_KEY_PASSWORD: Final[Option[str | None]] = Option(
    "security.ssl.rest.key-password",
    TextType(),
    None,
    "password of the encrypted private key",
    default_text="it is not encrypted",
    scope="cluster",
)
REST_CLIENTS_AUTHENTICATED: Final = Option(
    "security.ssl.rest.authentication-enabled",
    BooleanType(),
    False,
    "require a certificate of clients of the REST interface",
    scope="cluster",
)
REST_TRUST_STORE: Final[Option[str | None]] = Option(
    "security.ssl.rest.truststore",
    TextType(),
    None,
    "PEM file with the certificates that may have signed those of clients",
    scope="cluster",
)
