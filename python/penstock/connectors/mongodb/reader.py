"""CollectionReader: emits the documents and changes that a thread reads from a collection."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.common.row_kind import RowKind
from penstock.common.values.instants import micros_of
from penstock.connectors.messages import Inbox
from penstock.connectors.mongodb.collection import (
    bson_library,
    close_client,
    is_transient,
    mongo_library,
)
from penstock.connectors.mongodb.order import documents_after
from penstock.connectors.single_split import SingleSplitReader
from penstock.connectors.split_source import InputStatus, ReaderOutput, SourceReaderContext
from penstock.errors import SourceError
from penstock.external.background import ServerThreads
from penstock.formats.json_values import named_row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from penstock.connectors.mongodb.description import CollectionDescription, CollectionSplit

logger = logging.getLogger(__name__)

#: Changes that one call emits; the task does nothing else meanwhile.
_STEP: Final = 100

#: Changes that may wait for the task; if there are more, the thread waits.
_MOST_WAITING: Final = 1000

_WAIT_S: Final = 0.1

#: How long a server waits for the next change before it returns an empty batch, in ms.
_AWAIT_MS: Final = 500

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0

#: Codes of a change stream that cannot resume from its token.
_LOST: Final = frozenset({260, 280, 286})

_KINDS: Final = {
    "insert": RowKind.INSERT,
    "update": RowKind.UPDATE_AFTER,
    "replace": RowKind.UPDATE_AFTER,
    "delete": RowKind.DELETE,
}


@dataclass(frozen=True)
class _Change:
    """A change, and the position after it.

    Attributes:
        split: The position.
        kind: The kind of the row; None if only the position has changed.
        document: The document; for a deletion, its ``_id``.
        timestamp_ms: The time of the change, in ms; None for an existing document.
    """

    split: CollectionSplit
    kind: RowKind | None = None
    document: Mapping[str, Any] | None = None
    timestamp_ms: int | None = None


class CollectionReader(SingleSplitReader["CollectionSplit"]):
    """Emits rows, and stores the position of each."""

    def __init__(self, source: CollectionDescription, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._source = source
        self._names = source.row_type.get_field_names()
        self._values_of = source.document_reader
        self._tail: CollectionTail | None = None

    def add_splits(self, splits: list[CollectionSplit]) -> None:
        """Start the thread that reads."""
        super().add_splits(splits)
        if self._split is not None and self._tail is None:
            self._tail = CollectionTail(self._source, self._split)

    def poll_split(self, split: CollectionSplit, output: ReaderOutput) -> InputStatus:
        """Emit some rows."""
        del split
        assert self._tail is not None, "created with the split"
        changes = self._tail.taken()
        for change in changes:
            if change.kind is not None and change.document is not None:
                row = named_row(self._names, self._values_of(change.document))
                row.set_row_kind(change.kind)
                output.collect(row, change.timestamp_ms)
            self._split = change.split
        return InputStatus.MORE_AVAILABLE if changes else InputStatus.NOTHING_AVAILABLE

    def is_available(self) -> Future[Any] | None:
        """Return the future of the next change."""
        return None if self._tail is None else self._tail.inbox.arrival()

    def close(self) -> None:
        """Close the connection."""
        if self._tail is not None:
            self._tail.close()


class CollectionTail:
    """Reads a collection and its change stream in a thread.

    Args:
        source: The collection.
        split: The position to start from.

    Attributes:
        inbox: The changes that wait for the task.
    """

    def __init__(self, source: CollectionDescription, split: CollectionSplit) -> None:
        self._source = source
        self._split = split
        self._bson = bson_library("MongoCdcSource")
        self._condition = threading.Condition()
        self.inbox: Inbox[_Change] = Inbox(self._condition)
        self._failure: BaseException | None = None
        self._last_success_s = time.monotonic()
        self._client = source.address.client()
        self._collection = source.address.collection_of(self._client)
        self._threads = ServerThreads("mongodb-cdc")
        self._threads.submit(self._run)

    def taken(self) -> list[_Change]:
        """Return some changes.

        Raises:
            SourceError: The collection cannot be read.
        """
        changes = self.inbox.taken(_STEP)
        if not changes and self._failure is not None:
            raise self._failure
        return changes

    def close(self) -> None:
        """Stop the thread and close the connections."""
        close = partial(close_client, self._client)
        self._threads.close(close, close)

    # In the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._read_with_retries()
        except BaseException as error:
            self._failure = error
            self.inbox.end()

    def _read_with_retries(self) -> None:
        pause_s = _FIRST_PAUSE_S
        closed, place = self._threads.closed, self._source.address.shown
        self._last_success_s = time.monotonic()
        while not closed.is_set():
            before = self._last_success_s
            try:
                self._read()
            except mongo_library("MongoCdcSource").errors.PyMongoError as error:
                if closed.is_set():
                    return
                self._check(error)
                logger.warning(
                    "MongoCdcSource: cannot read %s: %s; retrying in %.1f s", place, error, pause_s
                )
                if self._last_success_s != before:
                    pause_s = _FIRST_PAUSE_S
                closed.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _check(self, error: Any) -> None:
        """Raise an error that a retry cannot change, or that has lasted too long."""
        place = self._source.address.shown
        if getattr(error, "code", None) in _LOST:
            raise SourceError(
                f"MongoCdcSource: the servers no longer hold the changes of {place} after "
                f"the checkpoint: {error}; start the job without its state, and set "
                "oplogMinRetentionHours to more than its longest downtime"
            ) from error
        waited_s = time.monotonic() - self._last_success_s
        if not is_transient(error, "MongoCdcSource") or (
            waited_s * 1000 >= self._source.retry_timeout_ms
        ):
            raise SourceError(
                f"MongoCdcSource: cannot read {place}: {type(error).__name__}: {error}"
            ) from error

    def _read(self) -> None:
        """Read from the position on, until the source is closed."""
        if self._split.token is None:
            # Opened before the documents are read, so that no later change is lost.
            with self._collection.watch(max_await_time_ms=1) as stream:
                stream.try_next()
                self._put(replace(self._split, token=self._encode(stream.resume_token)))
        if self._split.reads_documents:
            self._read_documents()
        assert self._split.token is not None
        token = self._decode(self._split.token)
        with self._collection.watch(
            resume_after=token, full_document="updateLookup", max_await_time_ms=_AWAIT_MS
        ) as stream:
            self._last_success_s = time.monotonic()
            while not self._threads.closed.is_set():
                self._put_change(stream.try_next(), stream.resume_token)

    def _read_documents(self) -> None:
        """Read the documents that follow the last one in the order of ``_id``."""
        for document in documents_after(self._collection, self._split.last_id):
            if self._threads.closed.is_set():
                return
            self._last_success_s = time.monotonic()
            found = self._encode({"_id": document["_id"]})
            self._put(replace(self._split, last_id=found), RowKind.INSERT, document)
        self._put(replace(self._split, last_id=None, reads_documents=False))

    def _encode(self, document: Mapping[str, Any]) -> bytes:
        encoded: bytes = self._bson.encode(document, codec_options=self._collection.codec_options)
        return encoded

    def _decode(self, encoded: bytes) -> Any:
        return self._bson.decode(encoded, self._collection.codec_options)

    def _put_change(self, change: Mapping[str, Any] | None, token: Any) -> None:
        self._last_success_s = time.monotonic()
        split = replace(self._split, token=self._encode(token))
        if change is None:
            if split.token != self._split.token:
                self._put(split)
            return
        kind = _KINDS.get(change["operationType"])
        if kind is None:
            raise SourceError(
                f"MongoCdcSource: {self._source.address.shown} has ended with "
                f"'{change['operationType']}': it was dropped or renamed"
            )
        document = change["documentKey"] if kind is RowKind.DELETE else change.get("fullDocument")
        moment = change.get("wallTime") or change["clusterTime"].as_datetime()
        # If the document is missing, it was deleted since; its deletion follows.
        self._put(split, kind, document, micros_of(moment) // 1000)

    def _put(
        self,
        split: CollectionSplit,
        kind: RowKind | None = None,
        document: Mapping[str, Any] | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Add a change; wait while too many precede it."""
        with self._condition:
            while len(self.inbox.messages) >= _MOST_WAITING and not self._threads.closed.is_set():
                self._condition.wait(_WAIT_S)
        self._split = split
        self.inbox.put([_Change(split, kind, document, timestamp_ms)])
