"""Settings of a program whose jobs run in a session that its address names."""

from __future__ import annotations

from penstock.common.configuration import Configuration
from penstock.common.options.cluster import SESSION, TARGET
from penstock.datastream.process_configuration import process_configuration


def remote_configuration(
    host: str, port: int, configuration: Configuration | None, token: str | None
) -> Configuration:
    """Return the settings; arguments and errors are those of `RemoteStreamEnvironment`."""
    from penstock.session.files import parse_address, remember_token

    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    parse_address(address)
    if token is not None:
        remember_token(address, token)
    settings = process_configuration()
    if configuration is not None:
        settings.add_all(configuration)
    given = Configuration()
    TARGET.write(given, "session")
    SESSION.write(given, address)
    settings.add_all(given)
    return settings
