"""Mutual proof that both ends of a connection hold the job's token.

The server sends first; every field has a fixed size or a one-byte length, so nothing that the peer
chooses is parsed before it has authenticated.

=========  =========================================================================
direction  bytes
=========  =========================================================================
→ client   32 random bytes (server nonce)
→ server   1 length of the role, role (ASCII), 32 client nonce,
           32 HMAC-SHA256(token, server nonce ‖ role)
→ client   32 HMAC-SHA256(token, client nonce ‖ "driver" or "encrypting driver")
=========  =========================================================================

A client may claim neither role, so its own proof cannot be replayed to it.  An encrypting driver
uses only TLS from then on.  Its proof includes that it encrypts, so that a man in the middle cannot
downgrade the connection.
"""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING

from penstock.errors import AuthenticationError
from penstock.rpc.frames import read_exactly

if TYPE_CHECKING:
    import socket

NONCE_BYTES = 32
PROOF_BYTES = 32
TOKEN_BYTES = 32
MAX_ROLE_BYTES = 32
_PLAIN_SERVER = b"driver"
_ENCRYPTING_SERVER = b"encrypting driver"


def new_token() -> bytes:
    """Return a fresh random token for one job or cluster."""
    return os.urandom(TOKEN_BYTES)


class ServerHandshake:
    """The server's side of one connection: sans-I/O.

    Attributes:
        greeting: the first bytes that the server sends.
        role: the role that the peer claimed and proved; None before.
    """

    def __init__(self, token: bytes, *, encrypts: bool = False) -> None:
        self.greeting = os.urandom(NONCE_BYTES)
        self.role: str | None = None
        self._token = token
        self._own_role = _ENCRYPTING_SERVER if encrypts else _PLAIN_SERVER
        self._received = b""

    @property
    def missing_bytes(self) -> int:
        """Number of bytes the peer still has to send; 0 once it is authenticated."""
        if self.role is not None:
            return 0
        if not self._received:
            return 1
        return 1 + self._received[0] + NONCE_BYTES + PROOF_BYTES - len(self._received)

    def receive(self, data: bytes) -> bytes:
        """Process up to `missing_bytes` of the peer; return the answer, empty until the end.

        Raises:
            AuthenticationError: the peer does not hold the token, or sends something else.
        """
        self._received += data
        role_length = self._received[0]
        if not 1 <= role_length <= MAX_ROLE_BYTES:
            raise AuthenticationError(f"the peer announced a role of {role_length} bytes")
        if self.missing_bytes:
            return b""
        role, rest = self._received[1 : 1 + role_length], self._received[1 + role_length :]
        client_nonce, proof = rest[:NONCE_BYTES], rest[NONCE_BYTES:]
        if not hmac.compare_digest(proof, _prove(self._token, self.greeting, role)):
            raise AuthenticationError("the peer does not hold the token")
        if role in (_PLAIN_SERVER, _ENCRYPTING_SERVER) or not role.isascii():
            raise AuthenticationError(f"the peer claimed the role {role!r}")
        self.role = role.decode("ascii")
        return _prove(self._token, client_nonce, self._own_role)


def authenticate_to_server(sock: socket.socket, token: bytes, role: str) -> bool:
    """Prove the token to the server and check the server's proof.

    Returns:
        Whether the server uses TLS from now on.

    Raises:
        AuthenticationError: the server does not hold the token itself.
        CorruptStreamError, OSError: the server closed the connection, which is its rejection, or
            was too slow.
    """
    encoded = role.encode("ascii")
    if not 1 <= len(encoded) <= MAX_ROLE_BYTES:
        raise ValueError(f"a role has 1 to {MAX_ROLE_BYTES} ASCII characters, not {role!r}")
    nonce = read_exactly(sock, NONCE_BYTES)
    own_nonce = os.urandom(NONCE_BYTES)
    sock.sendall(bytes([len(encoded)]) + encoded + own_nonce + _prove(token, nonce, encoded))
    proof = read_exactly(sock, PROOF_BYTES)
    if hmac.compare_digest(proof, _prove(token, own_nonce, _ENCRYPTING_SERVER)):
        return True
    if not hmac.compare_digest(proof, _prove(token, own_nonce, _PLAIN_SERVER)):
        raise AuthenticationError("the server does not hold the token")
    return False


def _prove(token: bytes, nonce: bytes, role: bytes) -> bytes:
    return hmac.digest(token, nonce + role, "sha256")
