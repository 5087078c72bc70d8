"""The options of the control plane, read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.common.options import cluster, network, security
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ClusterSettings:
    """Options of one cluster; all durations in milliseconds.

    Attributes:
        slots_per_executor: ``taskmanager.numberOfTaskSlots``; None if not set: see
            ``worker_sizes`` in `penstock.jobmaster.workers.resource_manager`.
        buffers_per_channel: ``taskmanager.network.memory.buffers-per-channel``.
        floating_buffers_per_gate: ``taskmanager.network.memory.floating-buffers-per-gate``.
        has_fixed_network: Whether ``taskmanager.memory.network.segments`` is set.
        slot_request_timeout_ms: ``slot.request.timeout``.
        heartbeat_interval_ms: ``heartbeat.interval``.
        heartbeat_timeout_ms: ``heartbeat.timeout``.
        shutdown_grace_ms: ``cluster.shutdown.grace``: the time in which workers may exit by
            themselves, and a cancelled job end, before workers are killed.
        bind_host: ``jobmanager.bind-host``.
        rpc_address: ``jobmanager.rpc.address``.
        tls_enabled: ``security.ssl.internal.enabled``: whether the connections of the data plane
            between hosts and those of the control plane are encrypted.
        runtime: ``penstock.runtime``, "native" or "pure"; the driver's if not set.
        temp_dirs: ``io.tmp.dirs``: folders for data that exceeds memory; the system's, or
            Spark's, if empty.
    """

    slots_per_executor: int | None
    buffers_per_channel: int
    floating_buffers_per_gate: int
    has_fixed_network: bool
    slot_request_timeout_ms: int
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    shutdown_grace_ms: int
    bind_host: str
    rpc_address: str | None
    tls_enabled: bool
    runtime: str
    temp_dirs: tuple[str, ...]

    @property
    def near_host(self) -> str:
        """Return the address at which this machine reaches the control port."""
        return cluster.EVERY_ADDRESS.get(self.bind_host, self.bind_host)

    @property
    def dialled_host(self) -> str:
        """Return the address at which workers reach the control port."""
        return self.rpc_address or self.near_host

    @staticmethod
    def from_configuration(configuration: Mapping[str, str]) -> ClusterSettings:
        """Read the options.

        Raises:
            ConfigurationError: a value is malformed, or an address unreachable; names key and
                value.
        """
        from penstock.runtime import runtime

        rpc_address = cluster.RPC_ADDRESS.read(configuration)
        if rpc_address in cluster.EVERY_ADDRESS:
            raise ConfigurationError(
                f"{cluster.RPC_ADDRESS.key}: {rpc_address} is each machine's own: name the address "
                f"by which others reach this one ({cluster.BIND_HOST.key} says where it listens)"
            )
        return ClusterSettings(
            slots_per_executor=cluster.SLOTS_PER_EXECUTOR.read(configuration),
            buffers_per_channel=network.BUFFERS_PER_CHANNEL.read(configuration),
            floating_buffers_per_gate=network.FLOATING_BUFFERS_PER_GATE.read(configuration),
            has_fixed_network=network.SEGMENTS.is_set(configuration),
            slot_request_timeout_ms=cluster.SLOT_REQUEST_TIMEOUT.read(configuration),
            heartbeat_interval_ms=cluster.HEARTBEAT_INTERVAL.read(configuration),
            heartbeat_timeout_ms=cluster.HEARTBEAT_TIMEOUT.read(configuration),
            shutdown_grace_ms=cluster.SHUTDOWN_GRACE.read(configuration),
            bind_host=cluster.BIND_HOST.read(configuration),
            rpc_address=rpc_address,
            tls_enabled=security.TLS_ENABLED.read(configuration),
            runtime=cluster.RUNTIME.read(configuration) or runtime(),
            temp_dirs=cluster.TEMPORARY_FOLDERS.read(configuration),
        )
