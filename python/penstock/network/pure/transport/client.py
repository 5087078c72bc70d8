"""The consuming side of the transport: one connection per producing executor (internals M20)."""

from __future__ import annotations

import errno
import logging
import socket
import time
from typing import TYPE_CHECKING

from penstock.errors import (
    AuthenticationError,
    CorruptStreamError,
    NetworkError,
    PartitionConnectionError,
    PartitionNotFoundError,
)
from penstock.network.data_type import DataType
from penstock.network.error_codes import class_at_consumer
from penstock.network.pure.transport import same_host
from penstock.network.pure.transport.connecting import Connecting
from penstock.network.pure.transport.connection import Connection
from penstock.network.pure.transport.handshake import ClientHandshake
from penstock.network.pure.transport.lending import Borrower
from penstock.network.pure.wire import lz4
from penstock.network.pure.wire import messages as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.network.pure.gate.remote_channel import RemoteInputChannel
    from penstock.network.pure.memory.buffer import Buffer
    from penstock.network.pure.transport.event_loop import EventLoop, Timer
    from penstock.network.pure.transport.tls import TlsContexts

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.01
"""First delay after a connection was dropped before it opened; doubled each time."""

_DOUBLINGS = 5


class PartitionRequestClient:
    """Communicates with one producing executor for all channels that read from it.

    The public methods may be called from any thread; they run on the loop's thread.  A
    connection without channels stays open for later ones, until either environment closes.

    A port under load drops unauthenticated connections, possibly including this one.  The client
    then reconnects, within the single deadline of its handshake.  If the executor is gone, it
    refuses the connection, which is a definite answer.
    """

    def __init__(
        self,
        loop: EventLoop,
        address: tuple[str, int],
        token: bytes,
        *,
        connect_timeout_ms: int,
        handshake_timeout_ms: int,
        max_backoff_ms: int,
        partition_request_timeout_ms: int,
        same_host_path: bool,
        tls: TlsContexts | None,
    ) -> None:
        self._loop = loop
        self._same_host_path = same_host_path
        self._tls = tls
        self._address = address
        self._token = token
        self._connect_timeout_ms = connect_timeout_ms
        self._handshake_timeout_ms = handshake_timeout_ms
        self._max_backoff_ms = max_backoff_ms
        self._partition_request_timeout_ms = partition_request_timeout_ms
        self._peer = f"{address[0]}:{address[1]}"
        self._channels: dict[bytes, RemoteInputChannel] = {}
        self._waited_ms: dict[bytes, int] = {}
        self._connecting: Connecting | None = None
        self._connection: Connection | None = None
        self._pause: Timer | None = None
        """Runs until the next connection attempt."""
        self._drops = 0
        """Number of consecutive connections that the other end dropped before they were open."""
        self._handshake_deadline_s: float | None = None
        """Deadline of the handshake, over all attempts."""
        self._borrower: Borrower | None = None
        self._incoming: Buffer | None = None
        self._unsent: list[tuple[RemoteInputChannel, wire.Message]] = []

    # -- any thread -----------------------------------------------------------------------

    def request(self, channel: RemoteInputChannel) -> None:
        """Request a channel's subpartition; connect first if necessary."""
        self._post(lambda: self._request(channel))

    def notify_credit(self, channel: RemoteInputChannel) -> None:
        """Announce a channel's credit."""
        self._post(lambda: self._send_credit(channel))

    def resume(self, channel: RemoteInputChannel) -> None:
        """Continue a channel after a blocking event."""
        self._post(lambda: self._send(channel, wire.ResumeConsumption(channel.receiver)))

    def send_task_event(self, channel: RemoteInputChannel, event: bytes) -> None:
        """Send an event of a channel's task to the producing task."""
        message = wire.TaskEventRequest(event, channel.partition_id, channel.receiver)
        self._post(lambda: self._send_in_order(channel, message))

    def announce_buffer_size(self, channel: RemoteInputChannel, size: int) -> None:
        """Announce that a channel's next buffers should have ``size`` bytes."""
        message = wire.NewBufferSize(size, channel.receiver)
        self._post(lambda: self._send_in_order(channel, message))

    def cancel(self, channel: RemoteInputChannel) -> None:
        """Cancel the request of a released channel."""
        self._post(lambda: self._cancel(channel))

    def _post(self, call: Callable[[], None]) -> None:
        # After the loop has ended, there is no connection to close.
        self._loop.post(call)

    # -- requests, on the loop ------------------------------------------------------------

    def _request(self, channel: RemoteInputChannel) -> None:
        if channel.is_released:
            return
        self._channels[channel.receiver] = channel
        self._waited_ms[channel.receiver] = 0
        if self._connection is not None and self._connection.is_open:
            self._send_request(channel)
        elif self._connection is None and self._connecting is None and self._pause is None:
            self._drops = 0
            self._handshake_deadline_s = None
            self._dial()

    def _dial(self) -> None:
        self._pause = None
        if self._same_host_path and (sock := same_host.connect(self._address)) is not None:
            self._on_connected(sock, 0, "")
            return
        timeout_ms = self._connect_timeout_ms
        if self._handshake_deadline_s is not None:
            timeout_ms = min(timeout_ms, self._left_ms(self._handshake_deadline_s))
        self._connecting = Connecting(self._loop, self._address, timeout_ms, self._on_connected)

    @staticmethod
    def _left_ms(deadline_s: float) -> int:
        return max(1, round((deadline_s - time.monotonic()) * 1000))

    def _come_again(self) -> None:
        """Reconnect after a pause, unless no channel needs it or the deadline has passed."""
        if not self._channels:
            self._unsent.clear()
            return
        if self._handshake_deadline_s is None:
            self._handshake_deadline_s = time.monotonic() + self._handshake_timeout_ms / 1000
        pause_s = _FIRST_PAUSE_S * 2 ** min(self._drops, _DOUBLINGS)
        self._drops += 1
        if time.monotonic() + pause_s < self._handshake_deadline_s:
            self._pause = self._loop.call_later(pause_s, self._dial)
        else:
            self._fail_all(
                PartitionConnectionError(
                    f"Remote task manager '{self._peer}' dropped the connection during the "
                    f"handshake, {self._drops} times, until the timeout: too many unauthenticated "
                    "clients connect to its data port, or it does not accept this token"
                )
            )

    def _on_connected(self, sock: socket.socket | None, code: int, failure: str) -> None:
        self._connecting = None
        if sock is None and code == errno.ECONNRESET:
            # A refused connection means that the server is gone; a reset means that it was
            # reachable.
            self._come_again()
            return
        if sock is None:
            self._fail_all(
                PartitionConnectionError(
                    f"Connecting to remote task manager '{self._peer}' has failed: {failure}; "
                    "the remote task manager may have been lost"
                )
            )
            return
        # Data between two processes of one host never leaves the host.
        tls = self._tls if sock.family != socket.AF_UNIX else None
        if self._handshake_deadline_s is None:
            self._handshake_deadline_s = time.monotonic() + self._handshake_timeout_ms / 1000
        connection = Connection(
            self._loop,
            sock,
            self._peer,
            ClientHandshake(self._token),
            self,
            accepts_buffers=True,
            handshake_timeout_ms=self._left_ms(self._handshake_deadline_s),
            tls=tls.connect() if tls is not None else None,
        )
        if not connection.is_closed:
            self._connection = connection

    def descriptors_to_show(self) -> Sequence[int]:
        """Return nothing: consumers share no memory."""
        return ()

    def on_open(self, shown: Sequence[int]) -> None:
        """Map the authenticated peer's memory, and send the requests that were queued meanwhile."""
        if shown and self._connection is not None:
            try:
                self._borrower = Borrower(shown)
            except OSError as error:
                logger.warning("buffers of %s come by the socket: %s", self._peer, error)
            else:
                self._connection.send(wire.UseSharedMemory())
        for channel in list(self._channels.values()):
            self._send_request(channel)
        unsent, self._unsent = self._unsent, []
        for channel, message in unsent:
            self._send(channel, message)

    def _send_request(self, channel: RemoteInputChannel) -> None:
        if self._connection is not None:
            self._connection.send(
                wire.PartitionRequest(
                    channel.partition_id,
                    channel.subpartition,
                    channel.subpartition,
                    channel.receiver,
                    channel.initial_credit,
                )
            )

    def _send(self, channel: RemoteInputChannel, message: wire.Message) -> None:
        if channel.receiver in self._channels and self._connection is not None:
            self._connection.send(message)

    def _send_in_order(self, channel: RemoteInputChannel, message: wire.Message) -> None:
        """Send after the channel's request, which may still wait for the connection."""
        if self._connection is not None and self._connection.is_open:
            self._send(channel, message)
        else:
            self._unsent.append((channel, message))

    def _send_credit(self, channel: RemoteInputChannel) -> None:
        credit = channel.take_unannounced_credit()
        if credit:
            self._send(channel, wire.AddCredit(credit, channel.receiver))

    def _cancel(self, channel: RemoteInputChannel) -> None:
        if self._channels.pop(channel.receiver, None) is None:
            return
        self._waited_ms.pop(channel.receiver, None)
        if self._connection is not None and self._connection.is_open:
            self._connection.send(wire.CancelPartitionRequest(channel.receiver))

    # -- arrivals, on the loop ------------------------------------------------------------

    def on_buffer_header(self, header: wire.BufferHeader) -> memoryview | None:
        """Return the buffer for a payload; None, to skip it, if its channel is gone."""
        data_type = _data_type(header)
        if header.is_compressed and data_type.is_event:
            raise CorruptStreamError("a compressed event")
        channel = self._channels.get(header.receiver)
        if channel is None or (header.size == 0 and data_type.is_buffer):
            return None
        try:
            self._incoming = channel.buffer_for(header)
        except CorruptStreamError as error:
            channel.fail(error)
            return None
        return None if self._incoming is None else self._incoming._segment._view[: header.size]

    def on_buffer_complete(self, header: wire.BufferHeader) -> None:
        """Pass a payload to its channel."""
        buffer, self._incoming = self._incoming, None
        channel = self._channels.get(header.receiver)
        if buffer is not None:
            if header.is_compressed:
                _decompress(buffer)
            if channel is None:
                buffer.recycle()
            else:
                channel.on_buffer(buffer, header.sequence_number, header.backlog)
        elif channel is not None and header.size == 0 and DataType(header.data_type).is_buffer:
            channel.on_empty_buffer(header.sequence_number, header.backlog)

    def on_message(self, message: wire.Message) -> None:
        """Handle a message of the producer."""
        match message:
            case wire.BacklogAnnouncement():
                channel = self._channels.get(message.receiver)
                if channel is not None:
                    channel.on_backlog(message.backlog)
            case wire.ErrorResponse():
                self._on_error(message)
            case wire.BufferReference():
                self._on_reference(message)
            case _:
                raise CorruptStreamError(f"{type(message).__name__} is no server's message")

    def _on_reference(self, reference: wire.BufferReference) -> None:
        """Copy a referenced buffer into a buffer of its channel."""
        header, borrower = reference.header, self._borrower
        if borrower is None:
            raise CorruptStreamError("a reference to memory not shown")
        if borrower.borrow():
            self._loop.post(self._return_references)
        if not _data_type(header).is_buffer:
            raise CorruptStreamError(f"a reference to {header}")
        channel = self._channels.get(header.receiver)
        buffer = channel.buffer_for(header) if channel is not None else None
        if channel is None or buffer is None:
            return
        try:
            borrower.copy(reference.offset, buffer._segment._view[: header.size])
        except NetworkError:
            buffer.recycle()
            raise
        channel.on_buffer(buffer, header.sequence_number, header.backlog)

    def _return_references(self) -> None:
        """Return references to the producer, once per turn of the loop."""
        if self._borrower is not None and self._connection is not None:
            count = self._borrower.take_owed()
            if count:
                self._connection.send(wire.ReturnReferences(count))

    def _on_error(self, message: wire.ErrorResponse) -> None:
        error = message.error
        kind = class_at_consumer(error.code)
        text = f"{error.message} (at remote task manager '{self._peer}')"
        if message.receiver is None:
            self._fail_all(PartitionConnectionError(text))
            if self._connection is not None:
                self._connection.close(None)
            return
        channel = self._channels.get(message.receiver)
        if channel is None:
            return
        if kind is PartitionNotFoundError and self._may_retry(channel):
            self._send_request(channel)
            return
        self._forget(channel)
        channel.fail(kind(text))

    def _may_retry(self, channel: RemoteInputChannel) -> bool:
        """Return whether to retry at once: the producer has already waited for the partition."""
        waited = self._waited_ms[channel.receiver] + self._partition_request_timeout_ms
        self._waited_ms[channel.receiver] = waited
        return waited < 2 * self._max_backoff_ms

    def _forget(self, channel: RemoteInputChannel) -> None:
        self._channels.pop(channel.receiver, None)
        self._waited_ms.pop(channel.receiver, None)

    def on_writable(self) -> None:
        """Do nothing: requests are small and never wait for space."""

    # -- end ------------------------------------------------------------------------------

    def on_closed(self, error: Exception | None) -> None:
        """Fail every channel, unless the connection was dropped before it was open.

        An incomplete payload is dropped.
        """
        was_open = self._connection is not None and self._connection.was_open
        self._connection = None
        if self._borrower is not None:
            self._borrower.close()
            self._borrower = None
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.recycle()
        if isinstance(error, (NetworkError, AuthenticationError)):
            self._fail_all(error)
        elif isinstance(error, ConnectionError) and not was_open:
            self._come_again()
        elif error is not None:
            self._fail_all(PartitionConnectionError(str(error)))

    def _fail_all(self, error: NetworkError | AuthenticationError) -> None:
        channels, self._channels = self._channels, {}
        self._unsent.clear()
        self._waited_ms.clear()
        if channels:
            logger.warning("%d channels have failed: %s", len(channels), error)
        for channel in channels.values():
            channel.fail(error)

    def close(self) -> None:
        """Close the connection; for the loop's thread."""
        if self._connecting is not None:
            self._connecting.abort()
            self._connecting = None
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._connection is not None:
            self._connection.close(None)
        self._fail_all(PartitionConnectionError("the network environment was closed"))


def _decompress(buffer: Buffer) -> None:
    """Replace a compressed buffer by its content.

    Raises:
        CorruptStreamError: it cannot be decompressed; the buffer is recycled.
    """
    try:
        content = lz4.decompress(bytes(buffer._readable()), buffer.capacity)
    except CorruptStreamError:
        buffer.recycle()
        raise
    buffer.size = len(content)
    buffer._segment._view[: len(content)] = content


def _data_type(header: wire.BufferHeader) -> DataType:
    try:
        data_type = DataType(header.data_type)
    except ValueError as error:
        raise CorruptStreamError(f"no buffer has the data type {header.data_type}") from error
    if data_type is DataType.NONE:
        raise CorruptStreamError(f"unacceptable {header}")
    return data_type


class ConnectionManager:
    """The clients of one environment, one per address."""

    def __init__(
        self,
        loop: EventLoop,
        token: bytes,
        *,
        connect_timeout_ms: int,
        handshake_timeout_ms: int,
        partition_request_timeout_ms: int,
        same_host_path: bool,
        tls: TlsContexts | None,
    ) -> None:
        self._loop = loop
        self._token = token
        self._same_host_path = same_host_path
        self._tls = tls
        self._connect_timeout_ms = connect_timeout_ms
        self._handshake_timeout_ms = handshake_timeout_ms
        self._partition_request_timeout_ms = partition_request_timeout_ms
        self._clients: dict[tuple[str, int], PartitionRequestClient] = {}

    def client_for(self, address: tuple[str, int]) -> PartitionRequestClient:
        """Return the client of an address; it connects with its first request."""
        address = (address[0], address[1])
        client = PartitionRequestClient(
            self._loop,
            address,
            self._token,
            connect_timeout_ms=self._connect_timeout_ms,
            handshake_timeout_ms=self._handshake_timeout_ms,
            max_backoff_ms=self._partition_request_timeout_ms,
            partition_request_timeout_ms=self._partition_request_timeout_ms,
            same_host_path=self._same_host_path,
            tls=self._tls,
        )
        # setdefault is atomic, so concurrent callers share one client.
        return self._clients.setdefault(address, client)

    def close(self) -> None:
        """Close every connection; for the loop's thread."""
        for client in self._clients.values():
            client.close()
