"""Documents of a collection in the order of their ids, from a given one on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.mongodb.collection import bson_library

if TYPE_CHECKING:
    from collections.abc import Iterator


def documents_after(collection: Any, last_id: bytes | None, **settings: Any) -> Iterator[Any]:
    """Yield the documents that follow a given one in the order of ``_id``.

    Args:
        collection: The collection.
        last_id: A document with the ``_id``, as BSON; None for all documents.
        settings: Further arguments of ``find``.
    """
    cursor = collection.find(**settings).hint([("_id", 1)]).sort("_id", 1)
    found: Any = None
    if last_id is not None:
        # A comparison by $gt would skip ids of other types.
        found = bson_library("MongoDB").decode(last_id, collection.codec_options)["_id"]
        cursor = cursor.min([("_id", found)])
    with cursor:
        for document in cursor:
            if last_id is None or document["_id"] != found:
                yield document
