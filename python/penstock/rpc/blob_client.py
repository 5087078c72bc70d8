"""A worker's end of a blob connection: fetches files from the driver, named by their content."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Self

from penstock.errors import DependencyError
from penstock.rpc.blob_messages import BlobRefused, GetBlob, blob_client_decoder
from penstock.rpc.client import dial
from penstock.rpc.frames import read_frame, write_frame
from penstock.rpc.message import encode_message
from penstock.rpc.messages import ROLE_BLOB

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.dependencies.manifest import BlobKey
    from penstock.rpc.control_credentials import ControlCredentials

SILENCE_TIMEOUT_S = 60.0
"""Time that the driver may stay silent during a blob's transfer."""


class BlobClient:
    """One connection to the driver's `BlobServer`; used in a ``with`` statement.

    Raises:
        AuthenticationError: The driver refused the token.
        OSError: The driver does not answer.
    """

    def __init__(self, address: tuple[str, int], credentials: ControlCredentials) -> None:
        self._socket = dial(address, credentials, ROLE_BLOB)
        self._socket.settimeout(SILENCE_TIMEOUT_S)
        self._decoder = blob_client_decoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def fetch(self, key: BlobKey, path: Path) -> None:
        """Write the bytes of a blob to a new file.

        Raises:
            DependencyError: The driver no longer has it, or sent other bytes.
            CorruptStreamError: The received bytes are not a message.
            OSError: The connection or the disk failed.
        """
        write_frame(self._socket, encode_message(GetBlob(key.digest)))
        digest, size = hashlib.sha256(), 0
        with path.open("xb") as file:
            while True:
                body = read_frame(self._socket)
                if body is None:
                    raise DependencyError(f"the driver closed the connection within {path.name}")
                message = self._decoder.decode(body)
                if isinstance(message, BlobRefused):
                    raise DependencyError(f"the driver does not send {path.name}: {message.reason}")
                size += len(message.data)
                if size > key.size:
                    raise DependencyError(
                        f"{path.name} has {key.size} bytes, and the driver sent more"
                    )
                digest.update(message.data)
                file.write(message.data)
                if message.last:
                    break
        if size != key.size or digest.hexdigest() != key.digest:
            raise DependencyError(
                f"{path.name} was damaged in transit: {size} of {key.size} bytes arrived, with the "
                f"SHA-256 {digest.hexdigest()}"
            )
