"""RemoteStreamEnvironment: a program whose jobs go to a session that is named by its address."""

from __future__ import annotations

from penstock.common.configuration import Configuration
from penstock.common.options.cluster import SESSION, TARGET
from penstock.datastream.process_configuration import process_configuration
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["RemoteStreamEnvironment"]


class RemoteStreamEnvironment(StreamExecutionEnvironment):
    """Sends jobs to the session at an address (Flink's, for Java; beyond PyFlink)."""

    def __init__(
        self,
        host: str,
        port: int,
        configuration: Configuration | None = None,
        *,
        token: str | None = None,
    ) -> None:
        """Makes an environment; nothing is connected yet.

        Args:
            host: The session's jobmanager.
            port: The same.
            configuration: Settings of the job, over those of the process.
            token: The session's; else PENSTOCK_SESSION_TOKEN, or what is known on this machine.

        Raises:
            ConfigurationError: The address or the token is none.
        """
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
        super().__init__(settings)
