"""Mutual proof that both ends of a connection hold the job's token.

The server speaks first; every field has a fixed size or a one-byte length, so nothing of the
peer's choosing is parsed before it has proved itself.

=========  =========================================================================
direction  bytes
=========  =========================================================================
→ client   32 random bytes (server nonce)
→ server   1 length of the role, role (ASCII), 32 client nonce,
           32 HMAC-SHA256(token, server nonce ‖ role)
→ client   32 HMAC-SHA256(token, client nonce ‖ "driver")
=========  =========================================================================

"driver" is no role that a client may claim, so a client's own proof cannot be played back to it.
"""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING

from penstock.errors import AuthenticationError, CorruptStreamError
from penstock.rpc.frames import read_exactly

if TYPE_CHECKING:
    import socket

NONCE_BYTES = 32
PROOF_BYTES = 32
TOKEN_BYTES = 32
MAX_ROLE_BYTES = 32
_SERVER_ROLE = "driver"


def new_token() -> bytes:
    """Returns a fresh random token for one job or cluster."""
    return os.urandom(TOKEN_BYTES)


def authenticate_client(sock: socket.socket, token: bytes) -> str:
    """Server side: returns the role that the peer claimed and proved.

    The caller sets the socket's timeout: it bounds every step.

    Raises:
        AuthenticationError: the peer does not hold the token, or sends something else.
        OSError: the connection broke or the peer was too slow.
    """
    nonce = os.urandom(NONCE_BYTES)
    sock.sendall(nonce)
    try:
        role_length = read_exactly(sock, 1)[0]
        if not 1 <= role_length <= MAX_ROLE_BYTES:
            raise AuthenticationError(f"the peer announced a role of {role_length} bytes")
        answer = read_exactly(sock, role_length + NONCE_BYTES + PROOF_BYTES)
    except CorruptStreamError as error:
        raise AuthenticationError(f"the peer broke off while authenticating: {error}") from None
    role = answer[:role_length]
    client_nonce = answer[role_length : role_length + NONCE_BYTES]
    proof = answer[role_length + NONCE_BYTES :]
    if not hmac.compare_digest(proof, _prove(token, nonce, role)):
        raise AuthenticationError("the peer does not hold the token")
    if role == _SERVER_ROLE.encode() or not role.isascii():
        raise AuthenticationError(f"the peer claimed the role {role!r}")
    sock.sendall(_prove(token, client_nonce, _SERVER_ROLE.encode()))
    return role.decode("ascii")


def authenticate_to_server(sock: socket.socket, token: bytes, role: str) -> None:
    """Client side: proves the token to the server and checks the server's proof.

    Raises:
        AuthenticationError: the server refused, or does not hold the token itself.
        OSError: the connection broke or the server was too slow.
    """
    encoded = role.encode("ascii")
    if not 1 <= len(encoded) <= MAX_ROLE_BYTES:
        raise ValueError(f"a role has 1 to {MAX_ROLE_BYTES} ASCII characters, not {role!r}")
    try:
        nonce = read_exactly(sock, NONCE_BYTES)
        own_nonce = os.urandom(NONCE_BYTES)
        sock.sendall(bytes([len(encoded)]) + encoded + own_nonce + _prove(token, nonce, encoded))
        proof = read_exactly(sock, PROOF_BYTES)
    except (CorruptStreamError, ConnectionError) as error:
        raise AuthenticationError(f"the driver closed the connection: {error}") from None
    if not hmac.compare_digest(proof, _prove(token, own_nonce, _SERVER_ROLE.encode())):
        raise AuthenticationError("the server does not hold the token")


def _prove(token: bytes, nonce: bytes, role: bytes) -> bytes:
    return hmac.digest(token, nonce + role, "sha256")
