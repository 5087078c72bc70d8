"""MongoSink: upserts and deletions of documents, in batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.connectors.batching import BatchLimits, Unsent
from penstock.connectors.change_rows import is_deletion
from penstock.connectors.changed_documents import ChangesWriter
from penstock.connectors.mongodb.collection import (
    CollectionAddress,
    bson_library,
    close_client,
    is_transient,
    mongo_library,
)
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.errors import FormatError, SinkError, WrongArgumentError
from penstock.formats.json_values import plain_fields_of
from penstock.formats.misfit import meant_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_DUPLICATE_KEY: Final = 11_000

#: Codes of write errors after which a retry may succeed.
_MAY_PASS: Final = frozenset({112, 24, 50, 262})


@checks_arguments
class MongoSink(PythonSink[Any]):
    """Writes documents, at least once; documents with a key are written once each.

    Before each checkpoint the servers have acknowledged all earlier writes.
    """

    def __init__(
        self,
        uri: str,
        database: str,
        collection: str,
        *,
        key: str | None = None,
        write: Callable[[Any], Any] | None = None,
        batch_size: int = 1000,
        batch_interval_ms: int = 1000,
        max_retries: int = 3,
        retry_delay_ms: int = 1000,
        timeout_ms: int = 30_000,
    ) -> None:
        """Create a sink.

        Args:
            uri: The servers, as ``mongodb://user:password@host:27017`` or ``mongodb+srv://…``.
            database: The database.
            collection: The collection.
            key: The field whose value becomes ``_id``; ``_id`` itself if None.  A record merges
                its fields into the document with its ``_id``, or creates it; without an ``_id`` it
                is a new document.  A row of the kind DELETE deletes the document, as does
                UPDATE_BEFORE unless a row with the same ``_id`` follows.
            write: Function that returns the operations of a record instead, one or several, in the
                form of pymongo's ``bulk_write``, such as ``UpdateOne(…)``; it may yield them.
            batch_size: The largest number of operations that are sent together.
            batch_interval_ms: How long an operation waits for others, in ms; 0 for no limit.
            max_retries: The number of retries if no server can be reached, or a write conflicts
                with another.
            retry_delay_ms: The time before the first retry, in ms; it doubles with each one.
            timeout_ms: How long to wait for a server and for a response, in ms.

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: pymongo is not installed.
        """
        super().__init__()
        self.address = CollectionAddress("MongoSink", uri, database, collection, timeout_ms)
        self.address.check()
        for name, number, least in (
            ("batch_size", batch_size, 1),
            ("batch_interval_ms", batch_interval_ms, 0),
            ("max_retries", max_retries, 0),
            ("retry_delay_ms", retry_delay_ms, 0),
        ):
            if number < least:
                raise WrongArgumentError(
                    f"MongoSink: {name} must be at least {least}, got {number}"
                )
        given: Any = write
        if write is not None and (key is not None or not callable(given)):
            raise WrongArgumentError(
                "MongoSink: write is a function of a record, and replaces key; got "
                f"{write!r} and key {key!r}"
            )
        if key == "":
            raise WrongArgumentError("MongoSink: key is the name of a field, got ''")
        documents = _Documents(key)
        self.operations = documents if write is None else _of_user(write)
        self.document_of = documents.document_of if write is None else None
        self.limits = BatchLimits(
            max_entries=batch_size,
            interval_ms=batch_interval_ms,
            max_retries=max_retries,
            delay_ms=retry_delay_ms,
        )

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Return the writer of a subtask, which connects on its first request."""
        del context
        return MongoWriter(self.address, self.limits, self.operations, self.document_of)


class MongoWriter(ChangesWriter[Any]):
    """Sends the operations of records in batches.

    Args:
        address: The collection.
        limits: The limits of a batch.
        operations: Function that returns the operations of a record, for ``bulk_write``.
        document_of: Function that returns the ``_id`` of a changed row; None if records are not
            changes.
    """

    def __init__(
        self,
        address: CollectionAddress,
        limits: BatchLimits,
        operations: Callable[[Any], Iterable[Any]],
        document_of: Callable[[Any], Any] | None = None,
    ) -> None:
        self._address = address
        self._operations = operations
        self._client = address.client()
        self._collection = address.collection_of(self._client)
        super().__init__("mongodb-sink", address.shown, limits, document_of)

    def keep_row(self, element: Any) -> None:
        """Buffer the operations of a record."""
        with meant_for(self._address.shown):
            operations = list(self._operations(element))
        for operation in operations:
            self.keep([operation])

    def send(self, entries: Sequence[Any]) -> Unsent[Any] | None:
        """Execute operations in order; return those that a retry may complete."""
        errors = mongo_library("MongoSink").errors
        bson = bson_library("MongoSink")
        try:
            self._collection.bulk_write(entries)
        except errors.BulkWriteError as error:
            return self._unsent(entries, error)
        except errors.PyMongoError as error:
            if not is_transient(error, "MongoSink"):
                raise SinkError(
                    f"{self._address.shown} rejects {len(entries)} operations: "
                    f"{type(error).__name__}: {error}"
                ) from error
            return Unsent(entries, f"{type(error).__name__}: {error}", error)
        except (bson.errors.BSONError, OverflowError, TypeError) as error:
            raise FormatError(f"MongoSink: {self._address.shown}: {error}") from error
        return None

    def cut_short(self) -> None:
        """Close the connections."""
        close_client(self._client)

    def release(self) -> None:
        """Close the connections."""
        close_client(self._client)

    def _unsent(self, entries: Sequence[Any], error: Any) -> Unsent[Any]:
        """Return the operations from the first failed one on, where the server stopped."""
        failures = error.details.get("writeErrors", ())
        if not failures:  # the write concern is not satisfied: some server may lack the writes
            return Unsent(entries, f"{error.details.get('writeConcernErrors')}", error)
        first = failures[0]
        code = first.get("code")
        # Two subtasks created the document at the same time: a retry updates it.
        is_race = code == _DUPLICATE_KEY and list(first.get("keyPattern", {})) == ["_id"]
        if not is_race and code not in _MAY_PASS:
            raise SinkError(
                f"{self._address.shown} rejects {entries[first['index']]!r:.500} with code {code}: "
                f"{first.get('errmsg')}"
            ) from error
        return Unsent(entries[first["index"] :], f"code {code}: {first.get('errmsg')}", error)


class _Documents:
    """Converts each record to an upsert or a deletion.

    Args:
        key: The field whose value becomes ``_id``; None for ``_id``.
    """

    def __init__(self, key: str | None) -> None:
        self._key = key or "_id"

    def __call__(self, record: Any) -> Iterable[Any]:
        """Return the operation."""
        is_deleted = is_deletion(record)
        document = plain_fields_of(record, "MongoSink")
        document_id = document.get(self._key)
        if document_id is None and (is_deleted or self._key != "_id"):
            raise FormatError(f"MongoSink: {record!r:.200} has no value of the key {self._key!r}")
        if is_deleted:
            return (deletion(document_id),)
        if document_id is None:
            document_id = bson_library("MongoSink").ObjectId()
        return (upsert(document_id, document),)

    def document_of(self, record: Any) -> Any:
        """Return the ``_id`` of a record; None without one."""
        return plain_fields_of(record, "MongoSink").get(self._key)


def upsert(document_id: Any, document: Mapping[str, Any]) -> Any:
    """Return the operation that merges fields into the document with an ``_id``, or creates it.

    A retry results in the same document.
    """
    fields = {name: value for name, value in document.items() if name != "_id"}
    # Servers before version 5 reject an empty $set.
    change = {"$set": fields} if fields else {"$setOnInsert": {"_id": document_id}}
    return mongo_library("MongoSink").UpdateOne({"_id": document_id}, change, upsert=True)


def deletion(document_id: Any) -> Any:
    """Return the operation that deletes the document with an ``_id``."""
    return mongo_library("MongoSink").DeleteOne({"_id": document_id})


def _of_user(function: Callable[[Any], Any]) -> Callable[[Any], Iterable[Any]]:
    def operations(record: Any) -> Iterable[Any]:
        made = function(record)
        return made if isinstance(made, Iterable) else (made,)

    return operations
