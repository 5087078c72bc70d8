"""Hand-made peers that speak the wire protocol byte by byte over blocking sockets."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct

from penstock.network.pure.wire import messages as wire

from contract.plane import PATIENCE_MS, TOKEN

RECEIVER = b"receiver-0123456"


def _prove(token: bytes, nonce: bytes, role: bytes) -> bytes:
    return hmac.new(token, nonce + role, hashlib.sha256).digest()


class RawPeer:
    """Sends and receives frames on one socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        sock.settimeout(PATIENCE_MS / 1000)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise EOFError(f"{len(data)} of {count} bytes")
            data += piece
        return data

    def send(self, *messages: wire.Message) -> None:
        self.socket.sendall(b"".join(wire.encode(message) for message in messages))

    def send_buffer(self, receiver, sequence, payload, *, backlog=0, data_type=1, size=None):
        """Send a BufferResponse; ``size`` overrides the payload size in the header."""
        announced = len(payload) if size is None else size
        header = wire.BufferHeader(receiver, 0, sequence, backlog, data_type, False, announced)
        self.socket.sendall(wire.encode_buffer_header(header) + payload)

    def receive(self):
        """Return the next message, or (header, payload) of a BufferResponse."""
        length, magic, message_id = struct.unpack(">iIB", self.exactly(9))
        assert magic == 0xBADC0FFE
        body = self.exactly(length - 9)
        if message_id == 0:
            header = wire.decode_buffer_header(body[:34])
            assert header.size == len(body) - 34
            return header, body[34:]
        return wire.decode(message_id, body)

    def is_closed_by_peer(self) -> bool:
        """Read until the peer closes; return False if it stays silent instead."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True
        return True

    def reset(self) -> None:
        """Close without a proper end, as a killed process may."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class RawConsumer(RawPeer):
    """Connects to an environment and reads partitions by hand."""

    def __init__(self, address, token: bytes = TOKEN, *, wrap=lambda sock: sock) -> None:
        super().__init__(wrap(socket.create_connection(address)))
        try:
            self._prove_token(token)
        except BaseException:
            self.socket.close()
            raise

    def _prove_token(self, token: bytes) -> None:
        nonce = self.exactly(32)
        own = os.urandom(32)
        self.socket.sendall(own + _prove(token, nonce, b"client"))
        proof = self.exactly(32)
        assert hmac.compare_digest(proof, _prove(token, own, b"server"))

    def request(self, partition_id, *, subpartition=0, receiver=RECEIVER, credit=2) -> None:
        self.send(wire.PartitionRequest(partition_id, subpartition, subpartition, receiver, credit))


class RawProducer:
    """Listens like an environment and serves channels by hand."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(PATIENCE_MS / 1000)
        self.address = self._socket.getsockname()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def accept(self, token: bytes = TOKEN) -> RawPeer:
        peer = RawPeer(self._socket.accept()[0])
        nonce = os.urandom(32)
        peer.socket.sendall(nonce)
        answer = peer.exactly(64)
        assert hmac.compare_digest(answer[32:], _prove(TOKEN, nonce, b"client"))
        peer.socket.sendall(_prove(token, answer[:32], b"server"))
        return peer

    def accept_silently(self) -> RawPeer:
        """Accept without sending anything."""
        return RawPeer(self._socket.accept()[0])


def same_host_name(address) -> str:
    return f"\0penstock-data/{address[0]}/{address[1]}"


class SameHostConsumer(RawConsumer):
    """Connects to the Unix socket of a data port and stores the received descriptors."""

    def __init__(self, address, token: bytes = TOKEN) -> None:
        self.descriptors: list[int] = []
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(same_host_name(address))
            RawPeer.__init__(self, sock)
            self._prove_token(token)
        except BaseException:
            sock.close()
            raise

    def exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece, descriptors, _, _ = socket.recv_fds(self.socket, count - len(data), 8)
            self.descriptors += descriptors
            if not piece:
                raise EOFError(f"{len(data)} of {count} bytes")
            data += piece
        return data

    def __exit__(self, *_):
        super().__exit__()
        for descriptor in self.descriptors:
            os.close(descriptor)


class SameHostProducer(RawProducer):
    """Listens on the Unix socket of a data port and passes descriptors."""

    def __init__(self) -> None:
        super().__init__()
        self._beside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._beside.settimeout(PATIENCE_MS / 1000)
        self._beside.bind(same_host_name(self.address))
        self._beside.listen()

    def __exit__(self, *_):
        super().__exit__()
        self._beside.close()

    def accept(self, descriptors=(), token: bytes = TOKEN) -> RawPeer:
        peer = RawPeer(self._beside.accept()[0])
        nonce = os.urandom(32)
        peer.socket.sendall(nonce)
        proof = _prove(token, peer.exactly(64)[:32], b"server")
        if descriptors:
            assert socket.send_fds(peer.socket, [proof], list(descriptors)) == len(proof)
        else:
            peer.socket.sendall(proof)
        return peer
