"""The network stacks of a worker, one for each job that has a slot or has left data there.

Jobs could read anything they share: so each has its own port, buffers, buffer memory, token and
certificate.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.common.options import network, security
from penstock.errors import AuthenticationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.network import NetworkEnvironment, ResultPartition
    from penstock.rpc.job_credentials import JobCredentials
    from penstock.rpc.network_buffer_needs import NetworkBufferNeeds
    from penstock.taskexecutor.worker.launch import LaunchSpec

logger = logging.getLogger(__name__)


class JobNetworks:
    """Networks of one worker's jobs; guarded by the lock of its TaskExecutor."""

    def __init__(self, launch: LaunchSpec) -> None:
        """Create an empty set of networks."""
        self._launch = launch
        self._networks: dict[bytes, NetworkEnvironment] = {}
        self._computed: dict[bytes, int] = {}
        self._finished: dict[bytes, dict[bytes, ResultPartition]] = {}

    def open(self, job_id: bytes, slot_needs: NetworkBufferNeeds) -> NetworkEnvironment:
        """Return the job's network; create it for the first slot of the job.

        Args:
            job_id: The job.
            slot_needs: The most network buffers that the tasks of a slot can use.

        Raises:
            AuthenticationError: The worker was started without this job's credentials.
            ConfigurationError, NetworkError, OSError: The network cannot be created.
        """
        found = self._networks.get(job_id)
        if found is None:
            credentials = self._launch.jobs.get(job_id.hex())
            if credentials is None:
                raise AuthenticationError(
                    f"this worker was started before job {job_id.hex()} and lacks its credentials"
                )
            config, slots = self._launch.config, self._launch.slots
            computed = max(network.LEAST_COMPUTED_SEGMENTS, slots * slot_needs.total)
            fixed = network.SEGMENTS.read(config)
            found = create_network_environment(self._launch, credentials, fixed or computed)
            logger.info(
                "pool of %d network buffers (%s): the tasks of each of %d slots can use %s",
                found.total_segments,
                "computed" if fixed is None else f"{network.SEGMENTS.key}; computed: {computed}",
                slots,
                slot_needs,
            )
            self._networks[job_id] = found
            self._computed[job_id] = computed
        return found

    def computed_segments(self, job_id: bytes) -> int:
        """Return the number of segments that suffice for a job that has a slot."""
        return self._computed[job_id]

    def of(self, job_id: bytes) -> NetworkEnvironment:
        """Return the network of a job that has a slot."""
        return self._networks[job_id]

    def keep(self, job_id: bytes, partition_id: bytes, data: ResultPartition) -> None:
        """Keep a blocking partition after its task has ended, and the network with it."""
        self._finished.setdefault(job_id, {})[partition_id] = data

    def take_partitions(
        self, job_id: bytes, partition_ids: Iterable[bytes]
    ) -> list[ResultPartition]:
        """Remove and return finished partitions to be released; unknown ones are ignored."""
        kept = self._finished.get(job_id, {})
        taken = [kept.pop(id_) for id_ in partition_ids if id_ in kept]
        if not kept:
            self._finished.pop(job_id, None)
        return taken

    def take(self, job_id: bytes) -> NetworkEnvironment | None:
        """Remove and return the network of a job without a slot; None while it has data here."""
        if job_id in self._finished:
            return None
        self._computed.pop(job_id, None)
        return self._networks.pop(job_id, None)

    def take_all(self) -> list[NetworkEnvironment]:
        """Remove and return all networks; forget the kept partitions."""
        self._finished.clear()
        self._computed.clear()
        taken, self._networks = list(self._networks.values()), {}
        return taken

    @property
    def total_segments(self) -> int:
        """Number of segments of all jobs; any thread."""
        return sum(network.total_segments for network in list(self._networks.values()))

    @property
    def available_segments(self) -> int:
        """Number of free segments; any thread."""
        return sum(network.available_segments for network in list(self._networks.values()))


def create_network_environment(
    launch: LaunchSpec, credentials: JobCredentials, num_segments: int
) -> NetworkEnvironment:
    """Create the network stack of a job from the launch specification.

    Args:
        launch: The launch specification.
        credentials: The credentials of the job.
        num_segments: Number of segments of its pool.
    """
    from penstock.network import NetworkEnvironment

    config = launch.config
    return NetworkEnvironment(
        executor_id=launch.executor_id,
        token=credentials.token,
        bind_host=launch.bind_host,
        num_segments=num_segments,
        segment_size=network.SEGMENT_SIZE.read(config),
        exclusive_buffers_per_channel=network.BUFFERS_PER_CHANNEL.read(config),
        floating_buffers_per_gate=network.FLOATING_BUFFERS_PER_GATE.read(config),
        request_timeout_ms=network.BUFFERS_REQUEST_TIMEOUT.read(config),
        partition_request_timeout_ms=network.PARTITION_REQUEST_TIMEOUT.read(config),
        handshake_timeout_ms=security.HANDSHAKE_TIMEOUT.read(config),
        same_host_path=network.SAME_HOST.read(config),
        tls_identity=credentials.tls_identity,
        debloat_target_ms=(
            network.DEBLOAT_TARGET.read(config) if network.DEBLOAT_ENABLED.read(config) else None
        ),
        debloat_threshold_percent=network.DEBLOAT_THRESHOLD.read(config),
        debloat_samples=network.DEBLOAT_SAMPLES.read(config),
        min_segment_size=network.MIN_SEGMENT_SIZE.read(config),
        starting_segment_size=network.STARTING_SEGMENT_SIZE.read(config),
        compression_codec=network.COMPRESSION_CODEC.read(config),
        temp_directories=launch.temp_dirs,
        spill_threshold_bytes=network.SPILL_THRESHOLD.read(config),
    )
