"""CollectionDescription and CollectionSplit: the collection to read, and the read position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.connectors.mongodb.values import DocumentReader
from penstock.connectors.split_source import SourceSplit

if TYPE_CHECKING:
    from penstock.common.composite_types import RowTypeInfo
    from penstock.connectors.mongodb.collection import CollectionAddress


@dataclass
class CollectionSplit(SourceSplit):
    """The collection, and the read position in it.

    Attributes:
        token: The resume token of the change stream, as BSON; None before it was opened.
        last_id: The ``_id`` of the last document that was emitted, as BSON; None before the first.
        reads_documents: Whether some documents that existed when the job began are unread.
    """

    token: bytes | None = None
    last_id: bytes | None = None
    reads_documents: bool = True

    def split_id(self) -> str:
        """Return a constant: there is only one split."""
        return "collection"


@dataclass(frozen=True)
class CollectionDescription:
    """The collection that a source reads, and how.

    Attributes:
        address: The collection.
        row_type: The fields to read, and their types.
        snapshot: Whether a new job begins with the existing documents.
        retry_timeout_ms: How long to retry while no server can be reached, in ms.
    """

    address: CollectionAddress
    row_type: RowTypeInfo
    snapshot: bool
    retry_timeout_ms: int

    @property
    def document_reader(self) -> DocumentReader:
        """The function that converts documents to values."""
        names, kinds = self.row_type.get_field_names(), self.row_type.get_field_types()
        return DocumentReader(self.address.shown, dict(zip(names, kinds, strict=True)))
