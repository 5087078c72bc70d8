"""MongoCdcSource: the documents of a collection, then their changes, by a change stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.composite_types import RowTypeInfo
from penstock.common.record_types import as_row_type
from penstock.common.types import Row
from penstock.connectors.mongodb.collection import CollectionAddress
from penstock.connectors.mongodb.description import CollectionDescription, CollectionSplit
from penstock.connectors.mongodb.reader import CollectionReader
from penstock.connectors.single_split import SingleSplitSource
from penstock.connectors.split_source import (
    Boundedness,
    SourceReader,
    SourceReaderContext,
)
from penstock.errors import WrongArgumentError

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation


@checks_arguments
class MongoCdcSource(SingleSplitSource[Row, CollectionSplit]):
    """Source of the documents of a collection, then of all their changes, by a change stream.

    The records are rows with kinds, upserts by ``_id``: INSERT for an existing or inserted
    document, UPDATE_AFTER with the whole document for an update or a replacement, and DELETE, whose
    columns besides ``_id`` are None.  Changes have the server's time as their timestamp.

    A change made while the existing documents are read follows them, even if the document already
    contained it.  With checkpoints no change is lost or emitted twice: a checkpoint stores the
    position among the documents, and the resume token of the change stream.  The servers must be a
    replica set or a sharded cluster.  One subtask reads; the others end at once.
    """

    def __init__(
        self,
        uri: str,
        database: str,
        collection: str,
        row_type: RowTypeInfo,
        *,
        snapshot: bool = True,
        retry_timeout_ms: int = 60_000,
        timeout_ms: int = 30_000,
    ) -> None:
        """Create a source.

        Args:
            uri: The servers, as ``mongodb://user:password@host:27017`` or ``mongodb+srv://…``.
            database: The database.
            collection: The collection.
            row_type: The fields to read, with ``_id``, and their types; an ``ObjectId`` is a text.
            snapshot: Whether a new job begins with the existing documents; otherwise with the
                changes from now on.
            retry_timeout_ms: How long to retry while no server can be reached, in ms.
            timeout_ms: How long to wait for a server and for a response, in ms.

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: pymongo is not installed.
        """
        super().__init__()
        address = CollectionAddress("MongoCdcSource", uri, database, collection, timeout_ms)
        address.check()
        given: Any = as_row_type(row_type)
        if not isinstance(given, RowTypeInfo) or "_id" not in given.get_field_names():
            raise WrongArgumentError(
                "MongoCdcSource takes a row type with the field '_id', such as "
                f"Types.ROW_NAMED(['_id', 'n'], [Types.STRING(), Types.LONG()]), got {row_type!r}"
            )
        if retry_timeout_ms < 0:
            raise WrongArgumentError(
                f"MongoCdcSource: retry_timeout_ms must be at least 0, got {retry_timeout_ms}"
            )
        self._described = CollectionDescription(address, given, snapshot, retry_timeout_ms)

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED: a stream of changes does not end."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation:
        """Return the declared row type."""
        return self._described.row_type

    def first_split(self) -> CollectionSplit:
        """Return the split of the collection at its beginning."""
        return CollectionSplit(reads_documents=self._described.snapshot)

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[CollectionSplit]:
        """Return the reader of a subtask."""
        return CollectionReader(self._described, reader_context)
