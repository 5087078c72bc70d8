"""Encrypts the stored jobs of a session, under the session's token.

A job's options and code hold secrets, such as those of S3.  Only the jobmanagers of a session know
the token.  AES-GCM encrypts a value together with its name, so that one value cannot replace
another.
"""

from __future__ import annotations

import hmac
import os
from typing import Any, Final

from penstock.errors import CheckpointStorageError

_PURPOSE: Final = b"penstock stored jobs\x01"
_MAGIC: Final = b"PSSJ\x01"
_NONCE_BYTES: Final = 12


class Seal:
    """Encrypts and decrypts under one token.

    Attributes:
        can_encrypt: Whether the required package is installed.
    """

    def __init__(self, token: str) -> None:
        """Derive the key: the first block of HKDF-Expand of the token with HMAC-SHA256."""
        self._cipher: Any = None
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            pass
        else:
            self._cipher = AESGCM(hmac.digest(token.encode(), _PURPOSE, "sha256"))
        self.can_encrypt = self._cipher is not None

    def seal(self, name: str, data: bytes) -> bytes:
        """Return the stored form of a named value: unchanged if the package is missing."""
        if self._cipher is None:
            return data
        nonce = os.urandom(_NONCE_BYTES)
        sealed: bytes = self._cipher.encrypt(nonce, data, name.encode())
        return _MAGIC + nonce + sealed

    def open(self, name: str, data: bytes) -> bytes:
        """Return the value that was passed to `seal`.

        Raises:
            CheckpointStorageError: It was stored under another token, or is damaged.
        """
        if not data.startswith(_MAGIC):
            return data
        if self._cipher is None:
            raise CheckpointStorageError(
                f"{name} is encrypted: install cryptography here as at the former jobmanager, "
                "pip install 'penstock-engine[tls]'"
            )
        from cryptography.exceptions import InvalidTag

        nonce = data[len(_MAGIC) : len(_MAGIC) + _NONCE_BYTES]
        try:
            opened: bytes = self._cipher.decrypt(
                nonce, data[len(_MAGIC) + _NONCE_BYTES :], name.encode()
            )
        except (InvalidTag, ValueError):
            raise CheckpointStorageError(
                f"{name} cannot be decrypted: it was stored under another token, or is damaged"
            ) from None
        return opened
