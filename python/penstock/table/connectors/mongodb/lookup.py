"""Lookup of documents by the values of fields, with an optional cache."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.connectors.mongodb.collection import close_client, is_transient, mongo_library
from penstock.errors import SourceError
from penstock.external.background import ServerThreads
from penstock.table.connectors.lookup_cache import CachedKeyLookup
from penstock.table.connectors.mongodb.documents import bson_id, document_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.connectors.mongodb.collection import CollectionAddress
    from penstock.table.connectors.lookup_cache import CacheOptions, Key, Rows
    from penstock.table.types import RowType


class MongoKeyLookup(CachedKeyLookup):
    """Queries a collection for the rows of keys.

    Args:
        address: The collection.
        row_type: The columns of the table.
        cache: The limits of the cache; None for no cache.
        max_retries: The number of retries of a query if no server can be reached.
        retry_delay_ms: The delay between two tries, in ms.
    """

    def __init__(
        self,
        address: CollectionAddress,
        row_type: RowType,
        cache: CacheOptions | None,
        max_retries: int,
        retry_delay_ms: int,
    ) -> None:
        super().__init__(cache)
        self._address = address
        self._names = row_type.field_names()
        self._max_retries = max_retries
        self._retry_delay_ms = retry_delay_ms
        self._values_of = document_reader(address.shown, row_type, range(len(row_type)))
        self._threads = ServerThreads("mongodb-lookup")
        self._client = address.client()
        self._collection = address.collection_of(self._client)

    def ask(self, names: Sequence[str], keys: Sequence[Key]) -> dict[Key, Rows]:
        """Query the collection for the rows of each key."""
        return self._threads.call(partial(self._of_keys, names, keys))

    def close(self) -> None:
        """Close the connections."""
        close = partial(close_client, self._client)
        self._threads.close(close, close)

    # In the thread --------------------------------------------------------------------------------

    def _of_keys(self, names: Sequence[str], keys: Sequence[Key]) -> dict[Key, Rows]:
        places = [self._names.index(name) for name in names]
        found: dict[Key, Rows] = {key: [] for key in keys}
        for row in self._found(names, keys):
            key = tuple(row[i] for i in places)
            if key in found:
                found[key].append(row)
        return found

    def _found(self, names: Sequence[str], keys: Sequence[Key]) -> Rows:
        criteria = [
            {
                name: bson_id(value) if name == "_id" else value
                for name, value in zip(names, key, strict=True)
            }
            for key in keys
        ]
        for tries_left in range(self._max_retries, -1, -1):
            self.queries += 1
            try:
                return [
                    tuple(self._values_of(each))
                    for each in self._collection.find({"$or": criteria})
                ]
            except mongo_library("connector 'mongodb'").errors.PyMongoError as error:
                is_last = tries_left == 0 or not is_transient(error, "connector 'mongodb'")
                if is_last or self._threads.closed.wait(self._retry_delay_ms / 1000):
                    raise SourceError(
                        f"cannot look up {len(keys)} keys in {self._address.shown}: "
                        f"{type(error).__name__}: {error}"
                    ) from error
        raise AssertionError("the last try has returned or raised")
