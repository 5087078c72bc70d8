"""RemoteStreamEnvironment: a program whose jobs go to a session that is named by its address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.datastream.remote_configuration import remote_configuration
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration

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
        """Create an environment; nothing is connected yet.

        Args:
            host: The session's jobmanager.
            port: The same.
            configuration: Settings of the job, over those of the process.
            token: The session's; else PENSTOCK_SESSION_TOKEN, or what is known on this machine.

        Raises:
            ConfigurationError: The address or the token is none.
        """
        super().__init__(remote_configuration(host, port, configuration, token))
