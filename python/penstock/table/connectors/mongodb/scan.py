"""Scan of a collection as record batches, in the order of ids."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.connectors.mongodb.collection import bson_library, close_client, mongo_library
from penstock.connectors.mongodb.order import documents_after
from penstock.connectors.single_split import SingleSplitReader, SingleSplitSource
from penstock.connectors.split_source import Boundedness, InputStatus, SourceSplit
from penstock.errors import SourceError
from penstock.external.background import ServerThreads
from penstock.table.connectors.batches import record_batch
from penstock.table.connectors.mongodb.documents import document_reader
from penstock.table.plan.nodes import INSERT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from penstock.connectors.mongodb.collection import CollectionAddress
    from penstock.connectors.split_source import ReaderOutput, SourceReader, SourceReaderContext
    from penstock.table.types import RowType


@dataclass
class ScanSplit(SourceSplit):
    """The collection, and the read position in it.

    Attributes:
        last_id: The ``_id`` of the last document that was emitted, as BSON; None before the first.
    """

    last_id: bytes | None = None

    def split_id(self) -> str:
        """Return a constant: there is only one split."""
        return "collection"


class MongoRows(SingleSplitSource[Any, ScanSplit]):
    """Reads a collection as record batches.

    Args:
        address: The collection.
        row_type: The columns of the table.
        read: The positions of the columns to read.
        fetch_size: The number of documents that are fetched at once.
    """

    def __init__(
        self, address: CollectionAddress, row_type: RowType, read: Sequence[int], fetch_size: int
    ) -> None:
        super().__init__()
        self.address = address
        self.row_type = row_type
        self.read = list(read)
        self.fetch_size = fetch_size

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED: a scan ends."""
        return Boundedness.BOUNDED

    def first_split(self) -> ScanSplit:
        """Return the split of the collection at its beginning."""
        return ScanSplit()

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[ScanSplit]:
        """Return the reader of a subtask."""
        return _ScanReader(self, reader_context)


class _ScanReader(SingleSplitReader[ScanSplit]):
    """Emits batches; a thread waits for the servers."""

    def __init__(self, source: MongoRows, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._source = source
        self._values_of = document_reader(source.address.shown, source.row_type, source.read)
        self._threads = ServerThreads("mongodb-scan")
        self._fetching: Future[list[Any]] | None = None
        self._client: Any = None
        self._documents: Any = None

    def poll_split(self, split: ScanSplit, output: ReaderOutput) -> InputStatus:
        """Emit the fetched documents as one batch."""
        if self._fetching is None:
            self._fetching = self._threads.submit(lambda: self._fetch(split.last_id))
        if not self._fetching.done():
            return InputStatus.NOTHING_AVAILABLE
        documents, self._fetching = self._fetching.result(), None
        if not documents:
            self._split, self._no_more_splits = None, True
            return InputStatus.END_OF_INPUT
        output.collect(self._batch(documents))
        bson = bson_library("connector 'mongodb'")
        split.last_id = bson.encode({"_id": documents[-1]["_id"]})
        return InputStatus.MORE_AVAILABLE

    def is_available(self) -> Future[Any] | None:
        """Return the future of the documents being fetched."""
        return self._fetching

    def close(self) -> None:
        """Close the connections."""
        self._threads.close(self._disconnect, self._disconnect)

    def _fetch(self, last_id: bytes | None) -> list[Any]:
        """Return the next documents, none at the end; runs in the thread."""
        source = self._source
        try:
            if self._documents is None:
                self._client = source.address.client()
                collection = source.address.collection_of(self._client)
                names = source.row_type.field_names()
                fields = {"_id": 1, **{names[i]: 1 for i in source.read}}
                self._documents = documents_after(
                    collection, last_id, projection=fields, batch_size=source.fetch_size
                )
            return list(islice(self._documents, source.fetch_size))
        except mongo_library("connector 'mongodb'").errors.PyMongoError as error:
            raise SourceError(
                f"cannot read {source.address.shown}: {type(error).__name__}: {error}"
            ) from error

    def _disconnect(self) -> None:
        if self._client is not None:
            close_client(self._client)

    def _batch(self, documents: Sequence[Any]) -> Any:
        """Return documents as a batch; columns that are not read are NULL."""
        rows = []
        for document in documents:
            values: list[Any] = [None] * len(self._source.row_type)
            for place, value in zip(self._source.read, self._values_of(document), strict=True):
                values[place] = value
            rows.append((INSERT, values))
        return record_batch(rows, self._source.row_type)
