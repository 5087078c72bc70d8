"""A file for the fed-back records that exceed memory."""

from __future__ import annotations

import io
import os
import struct
import tempfile
from typing import Final, NamedTuple

from penstock.errors import TemporaryFileError

_FRAME: Final = struct.Struct(">qI")


class FedBack(NamedTuple):
    """An encoded record in the feedback.

    Attributes:
        timestamp: In ms.
        data: The encoded record.
    """

    timestamp: int
    data: bytes


class SpillFile:
    """Appends records at its end and reads them from its beginning.

    The file has no name, so nothing stays on disk however the process ends.
    """

    def __init__(self, directory: str) -> None:
        """Create a file in a folder.

        Raises:
            TemporaryFileError: The file cannot be created.
        """
        self._directory = directory
        self._read_at = self._write_at = 0
        try:
            # Unbuffered: a full disk fails the write itself, not a later one.
            self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._failure(error) from error

    def append(self, element: FedBack) -> None:
        """Append a record; a record is written whole, or never read.

        Raises:
            TemporaryFileError: The disk is full.
        """
        rest = memoryview(_FRAME.pack(element.timestamp, len(element.data)) + element.data)
        position = self._write_at
        while rest:
            try:
                count = os.pwrite(self._file.fileno(), rest, position)
            except OSError as error:
                raise self._failure(error) from error
            rest, position = rest[count:], position + count
        self._write_at = position

    def first(self, count: int) -> list[FedBack]:
        """Return the first ``count`` records, which must exist, without removing them."""
        return self._read(count)[0]

    def take(self, count: int) -> list[FedBack]:
        """Remove and return the first ``count`` records, which must exist."""
        elements, self._read_at = self._read(count)
        if self._read_at == self._write_at:
            self._file.truncate(0)
            self._read_at = self._write_at = 0
        return elements

    def close(self) -> None:
        """Release the disk space."""
        self._file.close()

    def _read(self, count: int) -> tuple[list[FedBack], int]:
        """Return ``count`` records, and the position behind them."""
        reader = io.BufferedReader(self._file)
        try:
            reader.seek(self._read_at)
            elements = []
            for _ in range(count):
                timestamp, length = _FRAME.unpack(reader.read(_FRAME.size))
                elements.append(FedBack(timestamp, reader.read(length)))
            return elements, reader.tell()
        finally:
            reader.detach()

    def _failure(self, error: OSError) -> TemporaryFileError:
        return TemporaryFileError(
            "the feedback of an iteration exceeds memory, and the rest cannot be written to a file "
            f"in {self._directory}, which has {self._write_at} bytes: "
            f"{error.strerror}; make room there or name other folders in io.tmp.dirs"
        )
