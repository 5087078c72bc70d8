"""The handshake, in which both ends prove that they hold the token before other data is parsed.

::

    server -> client   32 random bytes
    client -> server   32 random bytes of its own | HMAC-SHA256(token, server bytes + "client")
    server -> client   HMAC-SHA256(token, client bytes + "server")

An end that receives a wrong proof drops the connection; comparisons take constant time.
"""

from __future__ import annotations

import hmac
import secrets

from penstock.errors import AuthenticationError, PartitionConnectionError, PenstockError

NONCE_BYTES = 32
PROOF_BYTES = 32
CLIENT_REPLY_BYTES = NONCE_BYTES + PROOF_BYTES


def _proof(token: bytes, nonce: bytes, role: bytes) -> bytes:
    return hmac.digest(token, nonce + role, "sha256")


class ServerHandshake:
    """The accepting end."""

    def __init__(self, token: bytes) -> None:
        self._token = token
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self.expects_bytes = CLIENT_REPLY_BYTES

    def greeting(self) -> bytes:
        """Return the first bytes to send."""
        return self._nonce

    def answer(self, received: bytes) -> tuple[bytes, bool]:
        """Check the client's proof; return the server's, and whether the handshake is complete.

        Raises:
            AuthenticationError: the client does not hold the token.
        """
        client_nonce, proof = received[:NONCE_BYTES], received[NONCE_BYTES:]
        if not hmac.compare_digest(proof, _proof(self._token, self._nonce, b"client")):
            raise AuthenticationError("the client's proof is wrong")
        return _proof(self._token, client_nonce, b"server"), True

    def too_late(self, peer: str) -> PenstockError:
        """Return the error for a client that did not complete the handshake in time."""
        return AuthenticationError(f"'{peer}' did not authenticate in time")


class ClientHandshake:
    """The connecting end."""

    def __init__(self, token: bytes) -> None:
        self._token = token
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._answered = False
        self.expects_bytes = NONCE_BYTES

    def greeting(self) -> bytes:
        """Return no bytes, since the server starts."""
        return b""

    def answer(self, received: bytes) -> tuple[bytes, bool]:
        """Answer the server's nonce, then check its proof; return bytes to send and whether done.

        Raises:
            AuthenticationError: the server does not hold the token.
        """
        if not self._answered:
            self._answered = True
            self.expects_bytes = PROOF_BYTES
            return self._nonce + _proof(self._token, received, b"client"), False
        if not hmac.compare_digest(received, _proof(self._token, self._nonce, b"server")):
            raise AuthenticationError("the server's proof is wrong")
        return b"", True

    def too_late(self, peer: str) -> PenstockError:
        """Return the error for a server that did not complete it: slow, but not lost."""
        return PartitionConnectionError(
            f"Remote task manager '{peer}' accepted the connection, but did not complete the "
            "handshake in time: it is slow or stopped; run fewer workers on its machine, or raise "
            "security.ssl.internal.handshake-timeout"
        )


Handshake = ServerHandshake | ClientHandshake
