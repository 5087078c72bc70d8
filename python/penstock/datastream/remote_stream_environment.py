"""RemoteStreamEnvironment: a program whose jobs run in a session that its address names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.datastream.remote_configuration import remote_configuration
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration

__all__ = ["RemoteStreamEnvironment"]


class RemoteStreamEnvironment(StreamExecutionEnvironment):
    """Submits jobs to the session at an address (Flink's, for Java; beyond PyFlink)."""

    def __init__(
        self,
        host: str,
        port: int,
        configuration: Configuration | None = None,
        *,
        token: str | None = None,
    ) -> None:
        """Create an environment, which is not connected yet.

        Args:
            host: The host of the session's jobmanager.
            port: Its port.
            configuration: Settings of the job, which override those of the process.
            token: The session's token; by default PENSTOCK_SESSION_TOKEN, or the one known on this
                machine.

        Raises:
            ConfigurationError: The address or the token is invalid.
        """
        super().__init__(remote_configuration(host, port, configuration, token))
