"""The data plane of one TaskExecutor in plain Python."""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import TYPE_CHECKING, SupportsIndex

from penstock.errors import (
    ConfigurationError,
    IllegalStateError,
    NetworkError,
    PartitionConnectionError,
)
from penstock.network.pure.arguments import (
    boolean,
    exact_bytes,
    integer,
    integers,
    items_of,
    text,
)
from penstock.network.pure.framing.deserializer import SPILL_THRESHOLD_BYTES
from penstock.network.pure.gate.buffer_manager import BufferManager
from penstock.network.pure.gate.input_gate import InputGate
from penstock.network.pure.gate.local_channel import LocalInputChannel
from penstock.network.pure.gate.remote_channel import RemoteInputChannel
from penstock.network.pure.gate.single_input_gate import SingleInputGate
from penstock.network.pure.gate.union import UnionInputGate
from penstock.network.pure.home import OfOneProcess
from penstock.network.pure.memory.debloat import DebloatOptions, GateDebloating
from penstock.network.pure.memory.network_buffer_pool import UNBOUNDED, NetworkBufferPool
from penstock.network.pure.partition.blocking import (
    PartitionFile,
    StoredOutput,
    allocate_pages,
)
from penstock.network.pure.partition.flusher import OutputFlusher
from penstock.network.pure.partition.manager import ResultPartitionManager
from penstock.network.pure.partition.reader_pace import MAX_BUFFERS_PER_CHANNEL
from penstock.network.pure.partition.result_partition import ResultPartition
from penstock.network.pure.transport.client import ConnectionManager
from penstock.network.pure.transport.event_loop import EventLoop
from penstock.network.pure.transport.server import TransportServer
from penstock.network.pure.transport.tls import TlsContexts
from penstock.network.pure.wire.messages import PARTITION_ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from penstock.network.pure.gate.input_channel import InputChannel
    from penstock.network.pure.memory.local_buffer_pool import LocalBufferPool

logger = logging.getLogger(__name__)

MAX_OVERDRAFT_BUFFERS = 20
"""Buffers that a partition may use beyond its pool to complete a record."""

_MAX_NUMBER = 2**31 - 1
_TOO_MANY_SUBPARTITIONS = 2**32 - 1
_PARTITION_TYPES = ("PIPELINED", "PIPELINED_BOUNDED", "BLOCKING")
ChannelSpec = tuple[bytes, int, tuple[str, int] | None]


class NetworkEnvironment(OfOneProcess):
    """Pool, partitions, gates, port and connections; one per TaskExecutor.

    It belongs to the process that creates it; in a forked child, ``close`` does nothing.

    Args:
        executor_id: Name of the executor in messages of its peers.
        token: Secret that all executors of a job share; not empty.
        bind_host: Address of the network interface on which to listen; the kernel chooses the port.
        num_segments: Segments of the pool, for all partitions and gates.
        segment_size: Bytes of each segment.
        exclusive_buffers_per_channel: Segments that each channel of a gate owns.
        floating_buffers_per_gate: Segments that the channels of a gate share.
        request_timeout_ms: Longest wait for segments that are promised but in use.
        partition_request_timeout_ms: Longest wait of a consumer for a partition that the producer
            has not created yet.
        connect_timeout_ms: Longest wait for a connection.
        handshake_timeout_ms: Longest wait for a peer to prove that it has the token.
        same_host_path: Whether executors of this host read buffers in shared memory.
        tls_identity: Certificate and private key, in DER, with which both ends encrypt; None for
            plain TCP.
        debloat_target_ms: Time within which the buffers of a gate should be consumed: their sizes
            follow the throughput; None for buffers of full size.
        debloat_threshold_percent: Change of size below which a size stays as it is.
        debloat_samples: Number of measurements to average.
        min_segment_size: Bytes of a debloated buffer at least.
        starting_segment_size: Bytes of a debloated buffer before the first measurement.
        compression_codec: "none" or "LZ4", by which buffers are compressed for other hosts.
        temp_directories: Directories of blocking partitions and of long records.
        spill_threshold_bytes: Length beyond which a received record is assembled in a file.

    Raises:
        ConfigurationError: a number is out of range, the token is empty, the codec is unknown, or
            the TLS identity is invalid.
        NetworkError: the port cannot be opened.
    """

    def __init__(
        self,
        *,
        executor_id: str,
        token: bytes,
        bind_host: str = "127.0.0.1",
        num_segments: int = 2048,
        segment_size: int = 32768,
        exclusive_buffers_per_channel: int = 2,
        floating_buffers_per_gate: int = 8,
        request_timeout_ms: int = 30_000,
        partition_request_timeout_ms: int = 10_000,
        connect_timeout_ms: int = 120_000,
        handshake_timeout_ms: int = 10_000,
        same_host_path: bool = True,
        tls_identity: tuple[bytes, bytes] | None = None,
        debloat_target_ms: int | None = None,
        debloat_threshold_percent: int = 25,
        debloat_samples: int = 20,
        min_segment_size: int = 256,
        starting_segment_size: int = 1024,
        compression_codec: str = "none",
        temp_directories: Sequence[str | PathLike[str]] = (),
        spill_threshold_bytes: int = SPILL_THRESHOLD_BYTES,
    ) -> None:
        super().__init__()
        text(executor_id)
        exact_bytes(token)
        text(bind_host)
        same_host_path = boolean(same_host_path)
        text(compression_codec)
        items_of(temp_directories)
        directories = tuple(os.fspath(directory) for directory in temp_directories)
        integer(spill_threshold_bytes)
        if debloat_target_ms is not None:
            integer(debloat_target_ms)
        if tls_identity is not None and not isinstance(tls_identity, tuple):
            raise TypeError(f"{type(tls_identity).__name__!r} object is not a tuple")
        if not token:
            raise ConfigurationError(
                "token is empty; executors of a job prove by it that they belong to it"
            )
        segment_size = _checked("segment_size", segment_size, 1)
        min_segment_size = _checked("min_segment_size", min_segment_size, 1)
        compress = _is_compressing(compression_codec)
        if debloat_target_ms is not None and min_segment_size > segment_size:
            raise ConfigurationError(
                f"debloated buffers of at least {min_segment_size} bytes in segments of "
                f"{segment_size}"
            )
        starting_segment_size = _checked("starting_segment_size", starting_segment_size, 0)
        threshold = _checked("debloat_threshold_percent", debloat_threshold_percent, 0)
        debloat_samples = _checked("debloat_samples", debloat_samples, 1)
        self._debloat: DebloatOptions | None = None
        if debloat_target_ms is not None:
            self._debloat = DebloatOptions(
                _checked("debloat_target_ms", debloat_target_ms, 0),
                min_segment_size,
                segment_size,
                starting_segment_size,
                threshold,
                debloat_samples,
            )
        num_segments = _checked("num_segments", num_segments, 1)
        exclusive = _checked("exclusive_buffers_per_channel", exclusive_buffers_per_channel, 0)
        floating = _checked("floating_buffers_per_gate", floating_buffers_per_gate, 1)
        request_timeout_ms = _checked("request_timeout_ms", request_timeout_ms, 1)
        partition_request_timeout_ms = _checked(
            "partition_request_timeout_ms", partition_request_timeout_ms, 0
        )
        connect_timeout_ms = _checked("connect_timeout_ms", connect_timeout_ms, 0)
        handshake_timeout_ms = _checked("handshake_timeout_ms", handshake_timeout_ms, 0)
        spill_threshold_bytes = _checked("spill_threshold_bytes", spill_threshold_bytes, 0)
        tls = None
        if tls_identity is not None:
            certificate, private_key = tls_identity
            tls = TlsContexts(exact_bytes(certificate), exact_bytes(private_key))
        self.executor_id = executor_id
        self._exclusive = exclusive
        self._floating = floating
        self._partition_request_timeout_ms = partition_request_timeout_ms
        self._temp_directories = directories
        self._spill_threshold_bytes = spill_threshold_bytes
        self._pool = self._make_pool(
            num_segments, segment_size, request_timeout_ms, same_host_path=same_host_path
        )
        self._partitions = ResultPartitionManager()
        self._gates: set[SingleInputGate] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._loop = EventLoop(f"penstock-network-{executor_id}")
        try:
            self._server = TransportServer(
                self._loop,
                bind_host,
                token,
                self._partitions,
                self._pool,
                partition_request_timeout_ms,
                handshake_timeout_ms=handshake_timeout_ms,
                same_host_path=same_host_path,
                tls=tls,
                compress=compress,
            )
        except OSError as error:
            self._loop.close(lambda: None)
            self._pool.destroy()
            raise NetworkError(f"opening the data port on {bind_host}: {error.strerror}") from error
        self._connections = ConnectionManager(
            self._loop,
            token,
            connect_timeout_ms=connect_timeout_ms,
            handshake_timeout_ms=handshake_timeout_ms,
            partition_request_timeout_ms=partition_request_timeout_ms,
            same_host_path=same_host_path,
            tls=tls,
        )
        self._flusher = OutputFlusher(f"penstock-flusher-{executor_id}")

    def _make_pool(
        self, num_segments: int, segment_size: int, timeout_ms: int, *, same_host_path: bool
    ) -> NetworkBufferPool:
        """Create the buffers, in shared memory if consumers on this host may connect."""
        if same_host_path:
            try:
                return NetworkBufferPool(num_segments, segment_size, timeout_ms, is_shared=True)
            except OSError as error:
                logger.warning(
                    "buffers of %s go to executors of this host by sockets: %s",
                    self.executor_id,
                    error,
                )
        return NetworkBufferPool(num_segments, segment_size, timeout_ms)

    @property
    def address(self) -> tuple[str, int]:
        """Address at which other executors reach this one."""
        return self._server.address

    @property
    def total_segments(self) -> int:
        """Size of the network buffer pool."""
        return self._pool.total_segments

    @property
    def available_segments(self) -> int:
        """Segments that no pool and no channel holds."""
        return self._pool.available_segments

    # -- partitions -----------------------------------------------------------------------

    def create_result_partition(
        self,
        partition_id: bytes,
        num_subpartitions: int,
        partition_type: str = "PIPELINED_BOUNDED",
        flush_timeout_ms: int = 100,
        managed_bytes: int = 1048576,
    ) -> ResultPartition:
        """Create and register a partition, and notify consumers that requested it early.

        A blocking one sorts its output in so much managed memory, which the caller reserves.

        Raises:
            InsufficientBuffersError: its pool's minimum cannot be guaranteed, or a blocking one has
                too little managed memory.
            ConfigurationError: the type is unknown, or the id does not have 60 bytes.
            IllegalStateError: the id is taken, there are no subpartitions, or the environment is
                closed.
            NetworkError: no file can be created for a blocking partition.
        """
        exact_bytes(partition_id)
        num_subpartitions = integer(num_subpartitions)
        text(partition_type)
        flush_timeout_ms, managed_bytes = integers(flush_timeout_ms, managed_bytes)
        if flush_timeout_ms < -1:
            raise ConfigurationError(f"flush timeout of {flush_timeout_ms} ms; -1 means never")
        _check_partition_id(partition_id)
        managed_bytes = _checked("managed_bytes", managed_bytes, 0)
        if partition_type not in _PARTITION_TYPES:
            raise ConfigurationError(
                f"result partition type {partition_type!r}; known are {', '.join(_PARTITION_TYPES)}"
            )
        self._check_open()
        if num_subpartitions < 1:
            raise IllegalStateError("a partition without subpartitions")
        if num_subpartitions >= _TOO_MANY_SUBPARTITIONS:
            raise IllegalStateError(f"{num_subpartitions} subpartitions are too many")
        stored = None
        if partition_type == "BLOCKING":
            segment_bytes = self._pool._segment_size
            pages = allocate_pages(num_subpartitions, managed_bytes, segment_bytes)
            stored = StoredOutput(PartitionFile(self._temp_directories), pages, segment_bytes)
            pool = pages.create_buffer_pool(
                pages.total_segments, pages.total_segments, num_subpartitions
            )
        else:
            size = num_subpartitions * self._exclusive + self._floating
            minimum = num_subpartitions + 1
            pool = self._pool.create_buffer_pool(
                minimum,
                UNBOUNDED if partition_type == "PIPELINED" else max(minimum, size),
                num_subpartitions,
                MAX_BUFFERS_PER_CHANNEL,
                MAX_OVERDRAFT_BUFFERS,
            )
        self._warn_of_usage()
        partition = ResultPartition(
            partition_id,
            num_subpartitions,
            pool,
            flush_timeout_ms=flush_timeout_ms,
            exclusive_buffers_per_channel=self._exclusive,
            flusher=self._flusher,
            stored=stored,
            on_release=self._partitions.unregister,
        )
        try:
            self._partitions.register(partition)
        except IllegalStateError:
            pool.lazy_destroy()
            raise
        return partition

    # -- gates ----------------------------------------------------------------------------

    def create_input_gate(self, channels: Sequence[ChannelSpec]) -> InputGate:
        """Create a gate; it reserves its buffers now and requests its partitions later.

        Raises:
            ConfigurationError: an id does not have 60 bytes, or a subpartition is negative.
            InsufficientBuffersError: the buffers of its channels cannot be guaranteed.
            IllegalStateError: there are no channels, or the environment is closed.
        """
        items_of(channels)
        specs = [_channel_spec(spec) for spec in channels]
        for partition_id, subpartition, _ in specs:
            _check_partition_id(partition_id)
            _checked("subpartition", subpartition, 0)
        specs = [
            (partition_id, subpartition, None if address is None else _resolve(address))
            for partition_id, subpartition, address in specs
        ]
        self._check_open()
        if not specs:
            raise IllegalStateError("a gate without channels")
        pool = self._pool.create_buffer_pool(1, max(1, self._floating))
        self._warn_of_usage()
        gate = SingleInputGate(
            len(specs),
            pool,
            debloating=GateDebloating(self._debloat) if self._debloat is not None else None,
            temp_directories=self._temp_directories,
            spill_threshold_bytes=self._spill_threshold_bytes,
            on_close=self._gates.discard,
        )
        try:
            # A channel without exclusive buffers could never receive data otherwise.
            pool.reserve_segments(1)
            for index, (partition_id, subpartition, address) in enumerate(specs):
                gate.channels.append(
                    self._create_channel(gate, pool, index, partition_id, subpartition, address)
                )
        except BaseException:
            gate.close()
            raise
        with self._lock:
            self._gates.add(gate)
        return gate

    def _create_channel(
        self,
        gate: SingleInputGate,
        pool: LocalBufferPool,
        index: int,
        partition_id: bytes,
        subpartition: int,
        address: tuple[str, int] | None,
    ) -> InputChannel:
        if address is None:
            return LocalInputChannel(
                gate, index, partition_id, subpartition, self._partitions, self._call_later
            )
        channel = RemoteInputChannel(
            gate,
            index,
            partition_id,
            subpartition,
            address,
            self._connections.client_for(address),
            self._exclusive,
        )
        buffers = BufferManager(self._pool, pool, channel.notify_credit)
        buffers.request_exclusive(self._exclusive)
        channel.buffers = buffers
        return channel

    def _call_later(self, call: Callable[[], None]) -> None:
        delay = self._partition_request_timeout_ms / 1000
        self._loop.post(lambda: self._start_timer(delay, call))

    def _start_timer(self, delay: float, call: Callable[[], None]) -> None:
        self._loop.call_later(delay, call)

    def create_union_gate(self, gates: Sequence[InputGate]) -> InputGate:
        """Read several gates of this environment as one.

        Raises:
            TypeError: a gate belongs to the other runtime.
            IllegalStateError: there are no gates, a union is among them, a gate is in a union
                already, or the environment is closed.
        """
        items_of(gates)
        for gate in gates:
            if not isinstance(gate, InputGate):
                raise TypeError("a union is made of gates of one runtime")
        self._check_open()
        return UnionInputGate(gates, self._temp_directories, self._spill_threshold_bytes)

    # -- end ------------------------------------------------------------------------------

    def close(self) -> None:
        """Close gates, partitions, connections and threads; a second call does nothing.

        In a forked child, nothing happens.
        """
        if self._is_left:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            gates = list(self._gates)
        for gate in gates:
            gate.close()
        for partition in self._partitions.partitions():
            partition.fail(f"task executor {self.executor_id} is closing")
        self._flusher.close()
        self._loop.close(self._close_sockets)
        try:
            self._pool.destroy_all_buffer_pools()
        except IllegalStateError as error:
            # A reader in another thread may be about to return its buffer; the return then frees
            # it.
            logger.warning("closing while buffers are in use: %s", error)
        self._pool.destroy()

    def _close_sockets(self) -> None:
        self._server.close()
        self._connections.close()

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("the network environment is closed")

    def _warn_of_usage(self) -> None:
        """Log when the demand for segments exceeds the pool, and when it no longer does."""
        if (text := self._pool.usage_message()) is not None:
            logger.warning(text)


def _checked(name: str, value: SupportsIndex, least: int) -> int:
    """Return a number, or reject it if it is out of its range."""
    number = integer(value)
    if not least <= number <= _MAX_NUMBER:
        raise ConfigurationError(f"{name} is {number}; it can be {least} to {_MAX_NUMBER}")
    return number


def _channel_spec(spec: ChannelSpec) -> ChannelSpec:
    """Return the parts of a channel's description, if they are of the right types."""
    if not isinstance(spec, tuple):
        raise TypeError(f"{type(spec).__name__!r} object is not an instance of 'tuple'")
    partition_id, subpartition, address = spec
    if address is not None:
        if not isinstance(address, tuple):
            raise TypeError(f"{type(address).__name__!r} object is not an instance of 'tuple'")
        host, port = address
        address = text(host), integer(port)
        if not 0 <= address[1] < 1 << 16:
            raise OverflowError(f"port {port} has more than 16 bits")
    return exact_bytes(partition_id), integer(subpartition), address


def _is_compressing(codec: str) -> bool:
    """Return whether a codec compresses."""
    match codec.lower():
        case "none":
            return False
        case "lz4":
            return True
        case _:
            raise ConfigurationError(f"no compression codec {codec!r}; known are none and lz4")


def _check_partition_id(partition_id: bytes) -> None:
    if len(partition_id) != PARTITION_ID_BYTES:
        raise ConfigurationError(
            f"a partition id has {PARTITION_ID_BYTES} bytes, not {len(partition_id)}"
        )


def _resolve(address: tuple[str, int]) -> tuple[str, int]:
    """Resolve a host name in the caller's thread, since the loop must not block.

    Raises:
        PartitionConnectionError: the name is unknown.
    """
    try:
        info = socket.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM)
    except OSError as error:
        raise PartitionConnectionError(
            f"the address of {address[0]}:{address[1]} is unknown: {error.strerror}"
        ) from error
    name = info[0][4]
    return str(name[0]), int(name[1])
