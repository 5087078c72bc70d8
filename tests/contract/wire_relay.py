"""A relay between a producing and a consuming environment, which passes frames on request.

It keeps the accounts of both ends: it detects the frame at which an end breaks the rules of
credits, sequence numbers or references.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from dataclasses import dataclass

from penstock.network.data_type import DataType
from penstock.network.pure.wire import messages as wire

from contract.plane import PATIENCE_MS
from contract.raw_peer import same_host_name

_PIECE_BYTES = 1 << 20


@dataclass
class Account:
    """The traffic of one channel."""

    initial_credit: int
    granted: int
    """Credit that the consumer has granted, without credit that a blocking event voided."""
    known: int
    """The part of it that the producer knows of."""
    sent: int = 0
    """Data buffers that the producer has sent."""
    delivered: int = 0
    """The number of them that the consumer has received."""
    sequence_number: int = 0
    is_blocked: bool = False


class Books:
    """The accounts of all channels of a connection, and its references."""

    def __init__(self) -> None:
        self.accounts: dict[bytes, Account] = {}
        self.references = 0
        self.returned = 0
        self.messages_on_memory = 0

    @property
    def granted(self) -> int:
        """Return the credit of all channels, including that for the sent data."""
        return sum(account.granted for account in self.accounts.values())

    @property
    def is_any_blocked(self) -> bool:
        """Return whether a channel waits to be resumed."""
        return any(account.is_blocked for account in self.accounts.values())

    def from_consumer(self, message: wire.Message) -> None:
        """Record a message sent by the consumer."""
        match message:
            case wire.PartitionRequest():
                account = Account(message.credit, message.credit, 0)
                self.accounts[message.receiver] = account
            case wire.AddCredit():
                assert message.credit > 0
                self.accounts[message.receiver].granted += message.credit
            case wire.ResumeConsumption():
                account = self.accounts[message.receiver]
                assert account.is_blocked
                if account.initial_credit == 0:
                    # It returned its floating buffers while it was blocked.
                    account.granted = account.known = account.sent
            case wire.UseSharedMemory():
                self.messages_on_memory += 1
            case wire.ReturnReferences():
                self.returned += message.count
                assert message.count > 0
                assert self.returned <= self.references

    def to_producer(self, message: wire.Message) -> None:
        """Record a message passed to the producer."""
        match message:
            case wire.PartitionRequest():
                self.accounts[message.receiver].known += message.credit
            case wire.AddCredit():
                self.accounts[message.receiver].known += message.credit
            case wire.ResumeConsumption():
                self.accounts[message.receiver].is_blocked = False

    def from_producer(self, header: wire.BufferHeader, *, is_reference: bool) -> None:
        """Record a buffer or an event sent by the producer."""
        account = self.accounts[header.receiver]
        assert not account.is_blocked, "C-6: nothing follows a blocking event"
        assert header.sequence_number == account.sequence_number, "C-3: no gaps"
        assert header.backlog >= 0, "C-2: a backlog counts buffers"
        account.sequence_number += 1
        data_type = DataType(header.data_type)
        account.is_blocked = data_type.is_blocking_upstream
        if data_type.is_buffer:
            account.sent += 1
            assert account.sent <= account.known, "C-7: data costs credit"
        self.references += is_reference

    def to_consumer(self, header: wire.BufferHeader) -> None:
        """Record a buffer or an event passed to the consumer."""
        if DataType(header.data_type).is_buffer:
            self.accounts[header.receiver].delivered += 1


class Frames:
    """The queued frames of one direction."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self._source, self._target = source, target
        self._bytes = bytearray()
        self.waiting: deque[bytes] = deque()

    def receive(self) -> list[bytes]:
        """Receive the arrived bytes; return the frames that are now complete."""
        with contextlib.suppress(BlockingIOError):
            while piece := self._source.recv(_PIECE_BYTES):
                self._bytes += piece
        whole = []
        while len(self._bytes) >= 9:
            length, magic, _ = wire.FRAME_HEADER.unpack_from(self._bytes)
            assert magic == wire.MAGIC
            if len(self._bytes) < length:
                break
            whole.append(bytes(self._bytes[:length]))
            del self._bytes[:length]
        self.waiting += whole
        return whole

    def hand_on(self, count: int) -> list[bytes]:
        """Pass on the first ``count`` frames; return them."""
        frames = [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]
        self._target.settimeout(PATIENCE_MS / 1000)
        self._target.sendall(b"".join(frames))
        self._target.setblocking(False)
        return frames


def _buffer_header(frame: bytes) -> wire.BufferHeader | None:
    if frame[8] in (wire.BUFFER_RESPONSE, wire.BUFFER_REFERENCE):
        return wire.decode_buffer_header(frame[9:43])
    return None


class Relay:
    """A relay that the consumer treats as its producer, and that connects to the real one."""

    def __init__(self, *, same_host: bool) -> None:
        self._port = socket.create_server(("127.0.0.1", 0))
        self.address = self._port.getsockname()
        self._listener = self._port
        if same_host:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listener.bind(same_host_name(self.address))
            self._listener.listen()
        self._listener.settimeout(PATIENCE_MS / 1000)
        self._sockets = [self._port, self._listener]
        self.books = Books()

    def join(self, producer_address) -> None:
        """Accept the consumer, connect to the producer, and relay their handshake."""
        consumer, _ = self._listener.accept()
        producer = socket.socket(consumer.family, socket.SOCK_STREAM)
        self._sockets += [consumer, producer]
        is_unix = consumer.family == socket.AF_UNIX
        for sock in (consumer, producer):
            sock.settimeout(PATIENCE_MS / 1000)
        producer.connect(same_host_name(producer_address) if is_unix else producer_address)
        consumer.sendall(producer.recv(32, socket.MSG_WAITALL))
        producer.sendall(consumer.recv(64, socket.MSG_WAITALL))
        if is_unix:
            proof, shown, _, _ = socket.recv_fds(producer, 32, 2)
            socket.send_fds(consumer, [proof], shown)
            for descriptor in shown:
                os.close(descriptor)
        else:
            consumer.sendall(producer.recv(32, socket.MSG_WAITALL))
        for sock in (consumer, producer):
            sock.setblocking(False)
        self._up, self._down = Frames(consumer, producer), Frames(producer, consumer)

    def look(self) -> None:
        """Receive the bytes that either end has sent, and record them."""
        for frame in self._up.receive():
            self.books.from_consumer(wire.decode(frame[8], frame[9:]))
        for frame in self._down.receive():
            if (header := _buffer_header(frame)) is not None:
                is_reference = frame[8] == wire.BUFFER_REFERENCE
                self.books.from_producer(header, is_reference=is_reference)

    def up(self, count: int) -> None:
        """Pass frames to the producer."""
        self.look()
        for frame in self._up.hand_on(count):
            self.books.to_producer(wire.decode(frame[8], frame[9:]))

    def down(self, count: int) -> None:
        """Pass frames to the consumer."""
        self.look()
        for frame in self._down.hand_on(count):
            if (header := _buffer_header(frame)) is not None:
                self.books.to_consumer(header)

    def close(self) -> None:
        """Close both ends."""
        for sock in self._sockets:
            sock.close()
