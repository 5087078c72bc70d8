"""BulkAction and ElasticsearchEmitter: convert each record to lines of a bulk request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.row_kind import RowKind
from penstock.common.values.change_rows import kind_of_change
from penstock.common.values.records import record_field
from penstock.connectors.change_rows import is_deletion
from penstock.errors import FormatError, InvalidProgramError, WrongArgumentError
from penstock.formats.json_values import plain_fields_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: The operations, and whether each needs the id of a document.
_OPERATIONS: Final = {"index": False, "create": False, "update": True, "delete": True}

#: The keys of an action that are metadata of the operation.
_METADATA: Final = (
    *("if_primary_term", "if_seq_no", "pipeline", "require_alias", "retry_on_conflict"),
    *("routing", "version", "version_type"),
)

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True)
class BulkAction:
    """One operation of a bulk request.

    Attributes:
        operation: ``index``, ``create``, ``update`` or ``delete``.
        index: The index.
        document_id: The id of the document; None if Elasticsearch chooses one.
        body: The second line, a JSON object; None for ``delete``.
        metadata: Further members of the first line.
    """

    operation: str
    index: str
    document_id: str | None = None
    body: bytes | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def lines(self) -> bytes:
        """Return the lines of the request, each with its line feed."""
        target: dict[str, Any] = {"_index": self.index, **self.metadata}
        if self.document_id is not None:
            target["_id"] = self.document_id
        first = _ENCODER.encode({self.operation: target}) + b"\n"
        return first if self.body is None else first + self.body + b"\n"

    @property
    def document(self) -> tuple[str, str] | None:
        """The index and id of the document; None if Elasticsearch chooses the id."""
        return None if self.document_id is None else (self.index, self.document_id)


def upsert(
    index: str, document_id: str, document: bytes, metadata: Mapping[str, Any] | None = None
) -> BulkAction:
    """Return the action that creates a document, or merges its fields into the existing one."""
    body = b'{"doc":' + document + b',"doc_as_upsert":true}'
    return BulkAction("update", index, document_id, body, metadata or {})


def json_document(record: Any) -> bytes:
    """Return a record as a JSON object.

    Raises:
        FormatError: The record has no fields, or JSON cannot represent a value.
    """
    plain = plain_fields_of(record, "ElasticsearchSink")
    try:
        return _ENCODER.encode(plain)
    except (TypeError, ValueError) as error:
        raise FormatError(f"ElasticsearchSink: cannot encode {record!r:.200}: {error}") from None


class ElasticsearchEmitter(NoJavaMembers, ABC):
    """Converts records to actions; created by `static_index`, `dynamic_index` or `of`.

    A subclass has a method `actions` (beyond PyFlink).
    """

    def __init__(self, j_emitter: None = None) -> None:
        """Create an emitter; use the static methods, or write a subclass.

        Raises:
            JvmOnlyError: A Java emitter was passed.
        """
        if j_emitter is not None:
            requires_jvm("ElasticsearchEmitter(j_emitter)", "use static_index or of")

    @staticmethod
    def static_index(
        index: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Return an emitter that writes all records into one index.

        Args:
            index: The index.
            key_field: The field with the id of the document.  Later records with the same id update
                it, and a row of the kind DELETE deletes it, as does UPDATE_BEFORE unless a row with
                the same id follows.  Without a key each record is a new document.
            doc_type: The type of the documents, for Elasticsearch 6 and 7.
        """
        return FieldEmitter(_name("static_index", "index", index), None, key_field, doc_type)

    @staticmethod
    def dynamic_index(
        index_field: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Return an emitter that writes each record into the index that one of its fields names.

        Args:
            index_field: The field with the name of the index.
            key_field: The field with the id of the document, as in `static_index`.
            doc_type: The type of the documents, for Elasticsearch 6 and 7.
        """
        checked = _name("dynamic_index", "index_field", index_field)
        return FieldEmitter(None, checked, key_field, doc_type)

    @staticmethod
    def of(
        function: Callable[[Any], Mapping[str, Any] | Iterable[Mapping[str, Any]]],
    ) -> ElasticsearchEmitter:
        """Return an emitter that converts records by a function (beyond PyFlink).

        Args:
            function: Function that returns one or several actions for a record, as dictionaries
                such as
                ``{"_op_type": "delete", "_index": "users", "_id": "7"}``, with the keys of
                ``elasticsearch.helpers.bulk``: ``_op_type`` (``index`` unless given), ``_index``,
                ``_id``, ``_source`` or the fields themselves, and ``doc``, ``doc_as_upsert``,
                ``script`` of an update.
        """
        given: Any = function
        if not callable(given):
            raise WrongArgumentError(
                f"ElasticsearchEmitter.of takes a function of a record, got {function!r}"
            )
        return _FunctionEmitter(function)

    @abstractmethod
    def actions(self, record: Any) -> BulkAction | Mapping[str, Any] | Iterable[Any]:
        """Return one or several actions of a record, as dictionaries that `of` describes."""

    @property
    def doc_type(self) -> str | None:
        """The type of the documents; None without one."""
        return None

    @property
    def document_of(self) -> Callable[[Any], tuple[str, str]] | None:
        """Return the index and id of a changed row; None if changes are not replicated."""
        return None


class FieldEmitter(ElasticsearchEmitter):
    """Writes a record as a document with its fields."""

    def __init__(
        self,
        index: str | None,
        index_field: str | None,
        key_field: str | None,
        doc_type: str | None,
    ) -> None:
        super().__init__()
        self._index = index
        self._index_field = index_field
        self._key_field = key_field
        self._doc_type = doc_type
        self._metadata = {} if doc_type is None else {"_type": doc_type}

    @property
    def doc_type(self) -> str | None:
        """The type of the documents; None without one."""
        return self._doc_type

    @property
    def document_of(self) -> Callable[[Any], tuple[str, str]] | None:
        """Return the index and id of a changed row; None without a key field."""
        return None if self._key_field is None else self._document_of

    def _document_of(self, record: Any) -> tuple[str, str]:
        index = self._index or _text_of(record, self._index_field)
        return index, _text_of(record, self._key_field)

    def actions(self, record: Any) -> Iterable[BulkAction]:
        """Return an update or deletion of the document with the record's id, or a new document."""
        if self._key_field is None:
            index = self._index or _text_of(record, self._index_field)
            kind = kind_of_change(record)
            if kind is not RowKind.INSERT:
                raise FormatError(
                    f"ElasticsearchSink: {record!r:.200} is of the kind {kind}: changes need a "
                    "key_field, whose value is the id of the document"
                )
            return [BulkAction("index", index, None, json_document(record), self._metadata)]
        index, document_id = self._document_of(record)
        if is_deletion(record):
            return [BulkAction("delete", index, document_id, None, self._metadata)]
        return [upsert(index, document_id, json_document(record), self._metadata)]


class _FunctionEmitter(ElasticsearchEmitter):
    """Calls a function for each record."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function

    def actions(self, record: Any) -> Any:
        """Return the function's actions."""
        return self._function(record)


def bulk_actions(given: Any) -> list[BulkAction]:
    """Return the actions that an emitter returned for a record.

    Raises:
        InvalidProgramError: An action is malformed.
    """
    if isinstance(given, BulkAction | Mapping):
        return [_action_of(given)]
    if not isinstance(given, Iterable):
        raise _malformed(given, "it is not a dictionary")
    return [_action_of(each) for each in given]


def _action_of(given: Any) -> BulkAction:
    if isinstance(given, BulkAction):
        return given
    if not isinstance(given, Mapping):
        raise _malformed(given, "it is not a dictionary")
    operation, index = given.get("_op_type", "index"), given.get("_index")
    if operation not in _OPERATIONS:
        raise _malformed(given, f"'_op_type' must be one of {', '.join(_OPERATIONS)}")
    if not isinstance(index, str) or not index:
        raise _malformed(given, "'_index' must name an index")
    number = given.get("_id")
    if number is None and _OPERATIONS[operation]:
        raise _malformed(given, f"'{operation}' needs '_id'")
    metadata = {key: given[key] for key in _METADATA if key in given}
    body: bytes | None = None
    if operation != "delete":
        fields = {
            key: value
            for key, value in given.items()
            if not key.startswith("_") and key not in metadata
        }
        body = json_document(given.get("_source", fields) if operation != "update" else fields)
    return BulkAction(operation, index, None if number is None else str(number), body, metadata)


def _malformed(given: Any, reason: str) -> InvalidProgramError:
    return InvalidProgramError(
        f"ElasticsearchEmitter: the action of a record is {given!r:.200}: {reason}"
    )


def _text_of(record: Any, name: str | None) -> str:
    assert name is not None
    value = record_field(record, name)
    if value is None:
        raise FormatError(f"ElasticsearchSink: the field {name!r} of {record!r:.200} is None")
    return str(value)


def _name(method: str, parameter: str, given: Any) -> str:
    if not isinstance(given, str) or not given:
        raise WrongArgumentError(
            f"ElasticsearchEmitter.{method}: {parameter} must be a name, got {given!r}"
        )
    return given
