"""ChangesWriter: a batching writer of change rows, each of which replaces or deletes a document."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.connectors.batching import BatchingWriter, BatchLimits, EntryT
from penstock.connectors.change_rows import OldRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.writer_sink import SinkWriter


class ChangesWriter(BatchingWriter[EntryT]):
    """Deletes the document of an old row unless the next row replaces it.

    Args:
        name: The name of the thread.
        place: The service, for messages.
        limits: The limits of a batch.
        document_of: Function that returns the identity of a row's document; None to write each
            record as it is.
    """

    def __init__(
        self,
        name: str,
        place: str,
        limits: BatchLimits,
        document_of: Callable[[Any], Any] | None,
    ) -> None:
        self._document_of = document_of
        self._old = OldRows()
        super().__init__(name, place, limits)

    @abstractmethod
    def keep_row(self, element: Any) -> None:
        """Buffer the entries of a record."""

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer the entries of a record, and those of the old rows before it."""
        del context
        if self._document_of is None:
            self.keep_row(element)
            return
        for row in self._old.changed(element, self._document_of):
            self.keep_row(row)

    def flush(self, end_of_input: bool) -> None:
        """Send the buffered entries, and wait until the service has accepted them."""
        for row in self._old.taken():
            self.keep_row(row)
        super().flush(end_of_input)
