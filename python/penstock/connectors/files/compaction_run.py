"""Concatenation of several files into one, by bytes or by records."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import urlsplit

from penstock.connectors.files.compaction import FileCompactor
from penstock.connectors.files.part_stream import PartStream
from penstock.connectors.files.splits import FileSplit, SplitElements
from penstock.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from threading import Event

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.connectors.files.part_file import PartFile, PendingFile
    from penstock.graph import operators

logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 1 << 20


class Compaction:
    """Writes the contents of several files into one."""

    def __init__(
        self,
        sink: operators.FileSink,
        compactor: FileCompactor,
        files: FileSystems,
        stop: Event,
    ) -> None:
        """Create a compaction.

        Args:
            sink: The sink.
            compactor: The compactor, which selects bytes or records.
            files: The file systems, for files in stores.
            stop: Set to cancel the compaction, which then raises an error.
        """
        self._sink = sink
        self._compactor = compactor
        self._files = files
        self._stop = stop

    def finds(self, file: PendingFile) -> bool:
        """Return whether a file exists.

        Raises:
            SinkError: The length of the file has changed.
        """
        size_bytes: int | None
        if urlsplit(file.path).scheme:
            size_bytes = self._files.store(file.path).size(file.path)
        else:
            path = Path(file.path)
            size_bytes = path.stat().st_size if path.exists() else None
        if size_bytes is None:
            logger.warning("%s no longer exists: it was committed before", file.path)
        elif size_bytes != file.size_bytes:
            raise SinkError(
                f"the file sink cannot compact {file.path}: it has {size_bytes} "
                f"bytes, but had {file.size_bytes} when it was closed"
            )
        return size_bytes is not None

    def write(self, pending: Sequence[PendingFile], part: PartFile) -> None:
        """Write the contents of the files into the open part.

        Raises:
            SinkError: The compaction was cancelled, because the task ends.
            OSError: A file cannot be read.
            FormatError: A file does not have the compactor's format.
        """
        if self._compactor.kind == FileCompactor.RECORD_WISE:
            self._write_elements(pending, part)
        else:
            self._write_bytes(pending, part)

    def _write_bytes(self, pending: Sequence[PendingFile], part: PartFile) -> None:
        for number, file in enumerate(pending):
            if number:
                part.write(self._compactor.file_delimiter, part.written_ms)
            with self._opened(file.path) as opened:
                while chunk := opened.read(_CHUNK_BYTES):
                    part.write(chunk, part.written_ms)
                    self._go_on()

    def _write_elements(self, pending: Sequence[PendingFile], part: PartFile) -> None:
        factory, encoder = self._sink.bulk_writer_factory, self._sink.encoder
        if factory is None:
            assert encoder is not None, "of a row format"
            encode: Callable[[Any], bytes] = encoder.encode
            for element in self._elements(pending):
                part.write(encode(element), part.written_ms)
            return
        stream = PartStream(part, part.written_ms)
        writer = factory.create(stream)
        try:
            for element in self._elements(pending):
                writer.add_element(element)
            writer.finish()
        except BaseException:
            stream.is_given_up = True
            writer.abandon()
            raise

    def _elements(self, pending: Sequence[PendingFile]) -> Iterator[Any]:
        file_format = self._compactor.read_format
        assert file_format is not None, "of this kind of compactor"
        for file in pending:
            elements = SplitElements(
                FileSplit(file.path, 0, file.size_bytes), file_format, self._files
            )
            try:
                for element in elements:
                    self._go_on()
                    yield element
            finally:
                elements.close()

    def _opened(self, path: str) -> BinaryIO:
        if urlsplit(path).scheme:
            opened: BinaryIO = self._files.store(path).open_input(path)
            return opened
        return Path(path).open("rb")

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise SinkError("the task ended before its files were compacted")
