"""A file for the records on their way back that memory does not hold."""

from __future__ import annotations

import io
import os
import struct
import tempfile
from typing import Final, NamedTuple

from penstock.errors import TemporaryFileError

_FRAME: Final = struct.Struct(">qI")


class FedBack(NamedTuple):
    """A record on its way back, encoded.

    Attributes:
        timestamp: In ms.
        data: The encoded record.
    """

    timestamp: int
    data: bytes


class SpillFile:
    """Takes records at its end and gives them from its beginning.

    It has no name, so nothing stays on disk however the process ends.
    """

    def __init__(self, directory: str) -> None:
        """Makes a file in a folder.

        Raises:
            TemporaryFileError: There cannot be one.
        """
        self._directory = directory
        self._read_at = self._write_at = 0
        try:
            # Unbuffered: a full disk fails the writer itself, and nobody else later.
            self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise self._failure(error) from error

    def append(self, element: FedBack) -> None:
        """Puts a record at the end; all of it, or nothing that is ever read.

        Raises:
            TemporaryFileError: There is no room for it.
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
        """The first records, of which so many must be there; they stay."""
        return self._read(count)[0]

    def take(self, count: int) -> list[FedBack]:
        """Takes the first records, of which so many must be there."""
        elements, self._read_at = self._read(count)
        if self._read_at == self._write_at:
            self._file.truncate(0)
            self._read_at = self._write_at = 0
        return elements

    def close(self) -> None:
        """Gives the space back."""
        self._file.close()

    def _read(self, count: int) -> tuple[list[FedBack], int]:
        """So many records, and where those behind them begin."""
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
            "what an iteration feeds back exceeds what is kept in memory, and the rest cannot be "
            f"written to a file in {self._directory}, which has {self._write_at} bytes: "
            f"{error.strerror}; make room there or name other folders in io.tmp.dirs"
        )
