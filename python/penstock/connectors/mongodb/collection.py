"""CollectionAddress: a collection of MongoDB, and how to connect to it."""

from __future__ import annotations

import datetime
import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from penstock.common.packages.optional_library import optional_library
from penstock.common.time import Instant
from penstock.common.values.instants import datetime_of, instant_micros
from penstock.errors import InvalidProgramError

_SCHEMES: Final = ("mongodb", "mongodb+srv")

_CREDENTIALS: Final = re.compile(r"//[^/@]*@")


def mongo_library(used_by: str) -> Any:
    """Return the module ``pymongo``.

    Raises:
        DependencyError: The package is not installed.
    """
    return optional_library("pymongo", "pymongo", "mongodb", used_by)


def bson_library(used_by: str) -> Any:
    """Return the module ``bson`` of pymongo.

    Raises:
        DependencyError: The package is not installed.
    """
    mongo_library(used_by)  # another package has a module of the same name
    return optional_library("bson", "pymongo", "mongodb", used_by)


@dataclass(frozen=True)
class CollectionAddress:
    """A collection.

    Attributes:
        used_by: The connector, for errors.
        uri: The servers, as ``mongodb://user:password@host:27017``.
        database: The database.
        collection: The collection.
        timeout_ms: How long to wait for a server and for a response, in ms.
    """

    used_by: str
    uri: str
    database: str
    collection: str
    timeout_ms: int

    @property
    def shown(self) -> str:
        """The collection without credentials and options, for messages."""
        place = _CREDENTIALS.sub("//", self.uri).partition("?")[0].rstrip("/")
        return f"the collection {self.database}.{self.collection} of {place}"

    def check(self) -> None:
        """Check the address.

        Raises:
            InvalidProgramError: The URI or a name is malformed.
            DependencyError: pymongo is not installed.
        """
        mongo_library(self.used_by)
        scheme = self.uri.partition("://")[0]
        if scheme not in _SCHEMES:
            raise InvalidProgramError(
                f"{self.used_by} takes a URI as mongodb://user:password@host:27017 or "
                f"mongodb+srv://…, got one of the scheme {scheme!r:.20}"
            )
        if not self.database or not self.collection:
            raise InvalidProgramError(
                f"{self.used_by} needs the names of a database and a collection, got "
                f"{self.database!r} and {self.collection!r}"
            )
        if self.timeout_ms < 1:
            raise InvalidProgramError(
                f"{self.used_by}: timeout_ms must be at least 1, got {self.timeout_ms}"
            )
        if scheme == "mongodb":  # the other scheme would query a name server
            parser = optional_library("pymongo.uri_parser", "pymongo", "mongodb", self.used_by)
            try:
                parser.parse_uri(self.uri)
            except (ValueError, mongo_library(self.used_by).errors.PyMongoError) as error:
                raise InvalidProgramError(f"{self.used_by}: invalid URI: {error}") from None

    def client(self) -> Any:
        """Return a client, which connects when it is used."""
        return mongo_library(self.used_by).MongoClient(
            self.uri,
            appname="penstock",
            serverSelectionTimeoutMS=self.timeout_ms,
            connectTimeoutMS=self.timeout_ms,
            socketTimeoutMS=self.timeout_ms,
        )

    def collection_of(self, client: Any) -> Any:
        """Return the collection, which encodes dates, decimals and instants too."""
        options = optional_library("bson.codec_options", "pymongo", "mongodb", self.used_by)
        binary = optional_library("bson.binary", "pymongo", "mongodb", self.used_by)
        codec = options.CodecOptions(
            tz_aware=True,
            uuid_representation=binary.UuidRepresentation.STANDARD,
            type_registry=options.TypeRegistry(fallback_encoder=_encodable),
        )
        return client.get_database(self.database).get_collection(self.collection, codec)


def _encodable(value: Any) -> Any:
    """Return a value that BSON can encode for one that it cannot."""
    match value:
        case Decimal():
            return bson_library("MongoSink").decimal128.Decimal128(value)
        case datetime.date():
            return datetime.datetime(value.year, value.month, value.day)
        case datetime.time():
            return value.isoformat()
        case Instant():
            return datetime_of(instant_micros(value))
    return value


def close_client(client: Any) -> None:
    """Close a client, even if it is closed already or another thread has used its cursors."""
    with suppress(mongo_library("MongoDB").errors.InvalidOperation):
        client.close()


def is_transient(error: BaseException, used_by: str) -> bool:
    """Return whether a failed operation may succeed later."""
    errors = mongo_library(used_by).errors
    return isinstance(error, errors.ConnectionFailure) or (
        isinstance(error, errors.PyMongoError)
        and (
            error.has_error_label("RetryableWriteError")
            or error.has_error_label("ResumableChangeStreamError")
        )
    )
