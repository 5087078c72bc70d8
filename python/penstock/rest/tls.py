"""The TLS of the REST interface: its key and certificates, and the accepted clients."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.options import security
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


def tls_context(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the server's TLS context, None if TLS is off.

    Raises:
        ConfigurationError: A file is not named or invalid; names the key.
    """
    if not security.REST_TLS_ENABLED.read(options):
        return None
    key_store = _file(security.REST_KEY_STORE.key, security.REST_KEY_STORE.read(options))
    password = security.REST_KEY_PASSWORD.read(options)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(key_store, password=password or "")
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{security.REST_KEY_STORE.key}: {key_store} is not a PEM file with a private key and "
            f"its certificate: {error}"
        ) from None
    if security.REST_CLIENTS_AUTHENTICATED.read(options):
        trust_store = _file(security.REST_TRUST_STORE.key, security.REST_TRUST_STORE.read(options))
        try:
            context.load_verify_locations(trust_store)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"{security.REST_TRUST_STORE.key}: {trust_store}: {error}"
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def own_certificates(options: Mapping[str, str]) -> str | None:
    """Return the certificates that clients on this machine may trust; without the key."""
    if not security.REST_TLS_ENABLED.read(options):
        return None
    text = Path(
        _file(security.REST_KEY_STORE.key, security.REST_KEY_STORE.read(options))
    ).read_text("ascii", "ignore")
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    parts = [part.partition(end)[0] for part in text.split(begin)[1:]]
    return "".join(f"{begin}{part}{end}\n" for part in parts)


def _file(key: str, path: str | None) -> str:
    if path is None:
        raise ConfigurationError(f"{key} is not set: name a PEM file")
    if not Path(path).is_file():
        raise ConfigurationError(f"{key}: there is no file {path!r}")
    return path
