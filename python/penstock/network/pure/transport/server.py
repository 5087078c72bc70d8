"""The producing side of the transport (internals M18).

Per connection there is a queue of readers that can send and a map of all readers.  All of it
lives on the event loop's thread; notifications from task threads are posted to it.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections import deque
from typing import TYPE_CHECKING

from penstock.errors import (
    CorruptStreamError,
    IllegalStateError,
    NetworkError,
    PartitionNotFoundError,
    PenstockError,
    ProducerFailedError,
)
from penstock.network.data_type import DataType
from penstock.network.error_codes import code_of
from penstock.network.pure.memory.buffer import FREEING_RECYCLER, Buffer, BufferSlice
from penstock.network.pure.memory.segment import MemorySegment
from penstock.network.pure.partition.task_events import check_task_event
from penstock.network.pure.transport import same_host
from penstock.network.pure.transport.connection import Connection
from penstock.network.pure.transport.handshake import ServerHandshake
from penstock.network.pure.transport.lending import Lender
from penstock.network.pure.transport.listener import Drops, Listener
from penstock.network.pure.wire import lz4
from penstock.network.pure.wire import messages as wire
from penstock.rpc.admission import Unproven

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.network.pure.memory.network_buffer_pool import NetworkBufferPool
    from penstock.network.pure.partition.manager import ResultPartitionManager
    from penstock.network.pure.partition.result_partition import (
        AnySubpartitionView,
        ResultPartition,
    )
    from penstock.network.pure.partition.view import BufferAndBacklog
    from penstock.network.pure.transport.event_loop import EventLoop, Timer
    from penstock.network.pure.transport.tls import TlsContexts

logger = logging.getLogger(__name__)

_LISTEN_BACKLOG = 1024
"""Connections that the kernel queues: all TaskExecutors of a job may connect at once."""
_MAX_CREDIT = 2**31 - 1


class SequenceViewReader:
    """One consumer channel: its view, and the credit it has granted."""

    def __init__(self, queue: PartitionRequestQueue, request: wire.PartitionRequest) -> None:
        self.receiver = request.receiver
        self.subpartition = request.first
        self.initial_credit = request.credit
        self.credits = request.credit
        self.is_queued = False
        self.view: AnySubpartitionView | None = None
        self.cancel_request: Callable[[], None] | None = None
        self._queue = queue

    def attach(self, partition: ResultPartition) -> None:
        """Open the view.

        Raises:
            PenstockError: the subpartition is released or has a reader.
        """
        self.cancel_request = None
        self.view = partition._create_subpartition_view(self.subpartition, self)

    def notify_data_available(self) -> None:
        """Enqueue the reader, since its view has data; any thread may call this."""
        self._queue.post(lambda: self._queue.enqueue(self))

    def notify_priority_event(self, sequence_number: int) -> None:
        """Enqueue the reader, since its view has a priority event; any thread may call this."""
        del sequence_number
        self.notify_data_available()

    def add_credit(self, count: int) -> None:
        """Add credit for ``count`` buffers."""
        if not 0 < count <= _MAX_CREDIT - self.credits:
            raise CorruptStreamError(f"credit of {count} on top of {self.credits}")
        self.credits += count

    def resume(self) -> None:
        """Continue after a blocking event."""
        if self.view is None:
            raise IllegalStateError("the channel has no partition yet")
        if self.initial_credit == 0:
            # The consumer returned its floating buffers while it was blocked.
            self.credits = 0
        self.view.resume_consumption()

    def availability(self) -> tuple[bool, int]:
        """Return whether a buffer can be sent now, and the backlog."""
        if self.view is None:
            return False, 0
        if self.view.is_released:
            return True, 0
        return self.view.availability_and_backlog(has_credit=self.credits > 0)

    @property
    def needs_backlog_announcement(self) -> bool:
        """Return whether only a backlog announcement tells the consumer about data."""
        return self.initial_credit == 0 and self.credits == 0

    def next_buffer(self) -> BufferAndBacklog | None:
        """Take the next buffer; data costs one credit.

        Raises:
            IllegalStateError: data was taken without credit.
        """
        if self.view is None or self.view.is_released:
            return None
        result = self.view.get_next_buffer()
        if result is not None and result.buffer.data_type.is_buffer:
            self.credits -= 1
            if self.credits < 0:
                result.buffer.recycle()
                raise IllegalStateError("no credit available")
        return result

    def has_more(self, result: BufferAndBacklog) -> bool:
        """Return whether the buffer after ``result`` can be sent."""
        following = result.next_data_type
        if following is DataType.NONE:
            return False
        return self.credits > 0 or following.is_event

    def release(self) -> None:
        """Release the view, since the consumer is gone."""
        if self.cancel_request is not None:
            self.cancel_request()
            self.cancel_request = None
        if self.view is not None:
            self.view.release_all_resources()


class PartitionRequestQueue:
    """Serves the consumers behind one connection."""

    def __init__(
        self,
        loop: EventLoop,
        partitions: ResultPartitionManager,
        pool: NetworkBufferPool,
        request_timeout_ms: int,
        *,
        compress: bool = False,
    ) -> None:
        self._loop = loop
        self._compress = compress
        self._pool = pool
        self._lender: Lender | None = None
        self._partitions = partitions
        self._request_timeout_ms = request_timeout_ms
        self._connection: Connection | None = None
        self._available: deque[SequenceViewReader] = deque()
        self._readers: dict[bytes, SequenceViewReader] = {}
        self.on_proven: Callable[[], None] | None = None
        self.on_gone: Callable[[], None] | None = None

    def bind(self, connection: Connection) -> None:
        """Set the connection to send on."""
        self._connection = connection

    def post(self, call: Callable[[], None]) -> None:
        """Run on the loop's thread, like everything else here."""
        self._loop.post(call)

    # -- messages -------------------------------------------------------------------------

    def descriptors_to_show(self) -> Sequence[int]:
        """Return the descriptors of the buffers' memory, if it is shared."""
        memory = self._pool._memory
        if memory is None:
            return ()
        try:
            self._lender = Lender(self._pool, memory)
        except OSError as error:
            logger.warning("buffers go by the socket, for memory cannot be shown: %s", error)
            return ()
        return self._lender.descriptors

    def on_open(self, shown: Sequence[int]) -> None:
        """Do nothing: the server only answers, and consumers share no memory."""
        del shown
        if self.on_proven is not None:
            self.on_proven()

    def on_buffer_header(self, header: wire.BufferHeader) -> memoryview | None:
        """Do nothing: clients send no buffers; the decoder rejects them."""
        raise CorruptStreamError(f"a client sent {header}")

    def on_buffer_complete(self, header: wire.BufferHeader) -> None:
        """Do nothing: clients send no buffers; the decoder rejects them."""
        raise CorruptStreamError(f"a client sent {header}")

    def on_message(self, message: wire.Message) -> None:
        """Handle one request."""
        match message:
            case wire.PartitionRequest():
                self._on_partition_request(message)
            case wire.AddCredit() | wire.ResumeConsumption():
                self._on_progress(message)
            case wire.CancelPartitionRequest():
                self._cancel(message.receiver)
            case wire.CloseRequest():
                self._close(None)
            case wire.NewBufferSize():
                known = self._readers.get(message.receiver)
                if known is not None and known.view is not None:
                    known.view.notify_new_buffer_size(message.size)
            case wire.AckAllRecordsProcessed():
                logger.debug("%s has processed all records", message.receiver.hex())
            case wire.TaskEventRequest():
                self._on_task_event(message)
            case wire.UseSharedMemory() | wire.ReturnReferences():
                self._on_lending(message)
            case wire.SegmentId():
                logger.warning("ignoring a SegmentId: nothing here keeps segments")
            case _:
                raise CorruptStreamError(f"{type(message).__name__} is not a client's message")

    def _on_progress(self, message: wire.AddCredit | wire.ResumeConsumption) -> None:
        reader = self._readers.get(message.receiver)
        if reader is None:
            # It crossed our ErrorResponse in flight; other channels still use this connection.
            logger.debug("no reader for receiver %s", message.receiver.hex())
            return
        if isinstance(message, wire.AddCredit):
            reader.add_credit(message.credit)
        else:
            reader.resume()
        self.enqueue(reader)

    def _on_lending(self, message: wire.UseSharedMemory | wire.ReturnReferences) -> None:
        if self._lender is None:
            raise CorruptStreamError(f"{message} where no memory was shown")
        if isinstance(message, wire.ReturnReferences):
            self._lender.take_back(message.count)
        else:
            self._lender.accept()

    def _on_task_event(self, message: wire.TaskEventRequest) -> None:
        check_task_event(message.event)
        try:
            self._partitions.publish_task_event(message.partition_id, message.event)
        except IllegalStateError as error:
            reader = self._readers.get(message.receiver)
            if reader is not None:
                self._fail_reader(reader, error)

    def _on_partition_request(self, request: wire.PartitionRequest) -> None:
        if request.receiver in self._readers:
            raise CorruptStreamError(f"receiver {request.receiver.hex()} requests twice")
        if request.first != request.last or request.credit < 0:
            raise CorruptStreamError(f"unacceptable {request}")
        reader = SequenceViewReader(self, request)
        self._readers[request.receiver] = reader

        def found(partition: ResultPartition) -> None:
            self.post(lambda: self._attach(reader, partition, timer))

        def expire() -> None:
            if self._partitions.remove_listener(request.partition_id, found):
                error = PartitionNotFoundError(
                    f"partition {request.partition_id.hex()} was not registered within "
                    f"{self._request_timeout_ms} ms"
                )
                self._fail_reader(reader, error)

        timer: Timer | None = None
        partition = self._partitions.find_or_listen(request.partition_id, found)
        if partition is not None:
            self._attach(reader, partition, None)
            return
        timer = self._loop.call_later(self._request_timeout_ms / 1000, expire)

        def forget() -> None:
            self._partitions.remove_listener(request.partition_id, found)
            timer.cancel()

        reader.cancel_request = forget

    def _attach(
        self, reader: SequenceViewReader, partition: ResultPartition, timer: Timer | None
    ) -> None:
        if timer is not None:
            timer.cancel()
        if self._readers.get(reader.receiver) is not reader:
            return
        try:
            reader.attach(partition)
        except PenstockError as error:
            self._fail_reader(reader, error)
        else:
            self.enqueue(reader)

    def _fail_reader(self, reader: SequenceViewReader, failure: PenstockError) -> None:
        if self._readers.pop(reader.receiver, None) is not reader:
            return
        reader.release()
        if self._connection is not None:
            error = wire.RemoteError(code_of(failure), str(failure))
            self._connection.send(wire.ErrorResponse(error, reader.receiver))

    def _cancel(self, receiver: bytes) -> None:
        reader = self._readers.pop(receiver, None)
        if reader is not None:
            if reader.is_queued:
                self._available.remove(reader)
                reader.is_queued = False
            reader.release()

    # -- sending --------------------------------------------------------------------------

    def enqueue(self, reader: SequenceViewReader) -> None:
        """Queue a reader for sending if it has data and its consumer has credit."""
        connection = self._connection
        if reader.is_queued or connection is None or reader.receiver not in self._readers:
            return
        available, backlog = reader.availability()
        if not available:
            if backlog > 0 and reader.needs_backlog_announcement:
                connection.send(wire.BacklogAnnouncement(backlog, reader.receiver))
            return
        reader.is_queued = True
        self._available.append(reader)
        if len(self._available) == 1 and connection.is_writable:
            self.on_writable()
            connection.flush()

    def on_writable(self) -> None:
        """Queue buffers, one of each reader in turn, until enough data is queued."""
        connection = self._connection
        while self._available and connection is not None and connection.is_writable:
            reader = self._available.popleft()
            reader.is_queued = False
            try:
                result = reader.next_buffer()
            except NetworkError as error:
                # A disk error of a partition fails its readers, but not the connection.
                self._fail_reader(reader, error)
                continue
            if result is None:
                self._end_if_released(reader)
                continue
            if reader.has_more(result):
                reader.is_queued = True
                self._available.append(reader)
            self._queue(connection, reader, result)

    def _queue(
        self, connection: Connection, reader: SequenceViewReader, result: BufferAndBacklog
    ) -> None:
        """Queue a buffer, or a reference to it."""
        buffer = self._compressed(result.buffer) if self._compress else result.buffer
        header = wire.BufferHeader(
            reader.receiver,
            reader.subpartition,
            result.sequence_number,
            result.backlog,
            buffer.data_type,
            buffer.is_compressed,
            buffer.readable_bytes,
        )
        lender = self._lender
        place = None if lender is None or buffer.is_compressed else lender.place_of(buffer)
        if lender is not None and place is not None:
            lender.lend(buffer)
            connection.queue(wire.BufferReference(header, place))
        else:
            connection.queue_buffer(header, buffer._readable(), buffer.recycle)

    def _compressed(self, buffer: BufferSlice) -> BufferSlice:
        """Return the buffer, or a compressed one in its place; the original is then recycled."""
        if not buffer.data_type.is_buffer:
            return buffer
        block = lz4.compress(bytes(buffer._readable()))
        if block is None:
            return buffer
        segment = MemorySegment(bytearray(block))
        whole = Buffer(segment, FREEING_RECYCLER, buffer.data_type, len(block))
        small = whole.slice(0, len(block))
        small.is_compressed = True
        buffer.recycle()
        return small

    def _end_if_released(self, reader: SequenceViewReader) -> None:
        view = reader.view
        if view is None or not view.is_released:
            return
        cause = view.failure_cause or "the partition was released before it was consumed"
        self._fail_reader(reader, ProducerFailedError(cause))

    # -- end ------------------------------------------------------------------------------

    def on_closed(self, error: Exception | None) -> None:
        """Release every reader."""
        if error is not None and self._readers:
            logger.warning("%d consumers left: %s", len(self._readers), error)
        self._connection = None
        self._available.clear()
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            reader.release()
        if self._lender is not None:
            self._lender.close()
        if self.on_gone is not None:
            self.on_gone()

    def _close(self, error: Exception | None) -> None:
        if self._connection is not None:
            self._connection.close(error)


class TransportServer:
    """Accepts connections of consumers, on the data port and on the same-host socket."""

    def __init__(
        self,
        loop: EventLoop,
        bind_host: str,
        token: bytes,
        partitions: ResultPartitionManager,
        pool: NetworkBufferPool,
        partition_request_timeout_ms: int,
        *,
        handshake_timeout_ms: int,
        same_host_path: bool,
        tls: TlsContexts | None,
        compress: bool = False,
    ) -> None:
        self._loop = loop
        self._compress = compress
        self._token = token
        self._handshake_timeout_ms = handshake_timeout_ms
        self._tls = tls
        self._partitions = partitions
        self._pool = pool
        self._partition_request_timeout_ms = partition_request_timeout_ms
        self._connections: set[Connection] = set()
        port, beside = _bound(bind_host, same_host_path=same_host_path)
        name = port.getsockname()
        self.address: tuple[str, int] = (name[0], name[1])
        self._unproven: Unproven[Connection] = Unproven()
        self._drops = Drops(loop)
        self._listeners = [
            Listener(loop, sock, self._drops, self._on_accepted, self._on_scarcity)
            for sock in (port, beside)
            if sock is not None
        ]
        loop.post(self._listen)

    def _listen(self) -> None:
        for listener in self._listeners:
            listener.open()

    def _on_scarcity(self) -> bool:
        """Drop an unauthenticated connection, if there is one."""
        superfluous = self._unproven.dispensable()
        if superfluous is not None:
            superfluous.drop("its place is needed for another connection")
        return superfluous is not None

    def _on_accepted(self, sock: socket.socket, peer: str, origin: str) -> None:
        queue = PartitionRequestQueue(
            self._loop,
            self._partitions,
            self._pool,
            self._partition_request_timeout_ms,
            compress=self._compress,
        )
        tls = self._tls if sock.family != socket.AF_UNIX else None
        connection = Connection(
            self._loop,
            sock,
            peer,
            ServerHandshake(self._token),
            queue,
            accepts_buffers=False,
            handshake_timeout_ms=self._handshake_timeout_ms,
            tls=tls.accept() if tls is not None else None,
            drops=self._drops,
        )
        if connection.is_closed:
            return
        queue.bind(connection)
        self._connections.add(connection)
        superfluous = self._unproven.enter(connection, origin)
        queue.on_proven = lambda: self._unproven.leave(connection)

        def forget() -> None:
            self._connections.discard(connection)
            self._unproven.leave(connection)

        queue.on_gone = forget
        if superfluous is not None:
            superfluous.drop("too many unauthenticated connections, most of them of its address")

    def close(self) -> None:
        """Close the port and every connection; for the loop's thread."""
        for listener in self._listeners:
            listener.close()
        for connection in list(self._connections):
            connection.close(None)


def _bound(host: str, *, same_host_path: bool) -> tuple[socket.socket, socket.socket | None]:
    """Return the data port, and the socket beside it.

    If another process holds the name beside a port, the server chooses another port, since local
    consumers would connect to that process.  If no port is free, the server uses TCP only.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as given_up:
        for attempt in range(same_host.BIND_ATTEMPTS):
            port = socket.create_server((host, 0), family=family, backlog=_LISTEN_BACKLOG)
            port.setblocking(False)
            name = port.getsockname()
            beside = same_host.listen((name[0], name[1])) if same_host_path else None
            if beside is not None or not same_host_path:
                break
            if attempt + 1 < same_host.BIND_ATTEMPTS:
                # Keep the port until another is bound, or the kernel might choose it again.
                given_up.callback(port.close)
        return port, beside
