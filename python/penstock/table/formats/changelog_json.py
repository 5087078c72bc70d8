"""Formats of captured changes: debezium-json, canal-json, maxwell-json and ogg-json."""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.common.values.instants import datetime_of
from penstock.errors import FormatError
from penstock.table.formats.json import JSON_OPTIONS, JsonNumber, JsonReader, JsonWriter, parse_json
from penstock.table.formats.row_format import ALL_KINDS, KindedRow, RowFormat
from penstock.table.options.connector_options import OptionSpec, boolean, text
from penstock.table.plan.nodes import ADDED, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.table.types import DataTypes

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.table import types

_TEXT: Final = DataTypes.STRING()
_MOMENT: Final = DataTypes.TIMESTAMP_LTZ(3)

_INHERITED = {
    key: spec
    for key, spec in JSON_OPTIONS.items()
    if key not in ("fail-on-missing-field", "decode.json-parser.enabled")
}


class _ChangesFormat(RowFormat):
    """Changes of a database, each as a JSON object."""

    options: ClassVar[Mapping[str, OptionSpec]] = _INHERITED
    kinds_read = ALL_KINDS
    kinds_written = ALL_KINDS

    def __init__(self, row_type: types.RowType, options: Mapping[str, Any]) -> None:
        super().__init__(row_type, options)
        settings = {"fail-on-missing-field": False, **options}
        self._skips: bool = options["ignore-parse-errors"]
        self._read = JsonReader(settings).reader(row_type)
        self._write = JsonWriter(settings).writer(row_type)

    def decode(self, message: bytes) -> Iterable[KindedRow]:
        """Return the rows of a change; none for an empty message, the tombstone after a delete."""
        if not message:
            return ()
        try:
            document = parse_json(message)
            if not isinstance(document, dict):
                raise ValueError("an object was expected")
            changes = self._changes(document)
            if not self.metadata_keys:
                return list(changes)
            told = self._told(document)
            extra = [told[key] for key in self.metadata_keys]
            return [(kind, [*row, *extra]) for kind, row in changes]
        except (ValueError, KeyError, TypeError) as error:
            if self._skips:
                return ()
            raise FormatError(
                f"Invalid {self.identifier} message {message!r:.300}: {error}"
            ) from None

    @abstractmethod
    def _changes(self, document: dict[str, Any]) -> Iterable[KindedRow]:
        """Return the rows of a change."""

    def _told(self, document: dict[str, Any]) -> Mapping[str, Any]:
        """Return the metadata of a change, by key."""
        raise AssertionError(f"{self.identifier} has no metadata: {list(document)}")

    def _old_row(self, old: Any, new: Any) -> Any:
        """Return the row before a change, which contains only the changed fields."""
        return self._read({**new, **(old or {})})


class DebeziumJsonFormat(_ChangesFormat):
    """Changes in Debezium's form: the row before and after."""

    identifier = "debezium-json"
    metadata: ClassVar[Mapping[str, types.DataType]] = {
        "schema": _TEXT,
        "ingestion-timestamp": _MOMENT,
        "source.timestamp": _MOMENT,
        "source.database": _TEXT,
        "source.schema": _TEXT,
        "source.table": _TEXT,
        "source.properties": DataTypes.MAP(_TEXT, _TEXT),
    }
    options: ClassVar[Mapping[str, OptionSpec]] = {
        **_INHERITED,
        "schema-include": OptionSpec(boolean, False),
    }

    def _told(self, document: dict[str, Any]) -> Mapping[str, Any]:
        """Return the metadata of a change, by key."""
        payload = document["payload"] if self.values["schema-include"] else document
        source, schema = payload.get("source") or {}, document.get("schema")
        return {
            "schema": None if schema is None else _json_text(schema),
            "ingestion-timestamp": _moment(payload.get("ts_ms")),
            "source.timestamp": _moment(source.get("ts_ms")),
            "source.database": source.get("db"),
            "source.schema": source.get("schema"),
            "source.table": source.get("table"),
            "source.properties": {
                name: None if value is None else _plain_text(value)
                for name, value in source.items()
            },
        }

    def _changes(self, document: dict[str, Any]) -> Iterable[KindedRow]:
        payload = document["payload"] if self.values["schema-include"] else document
        operation, before, after = payload["op"], payload.get("before"), payload.get("after")
        if operation in ("c", "r"):
            return [(INSERT, self._read(after))]
        if operation == "u":
            if before is None:
                raise ValueError("an update has no 'before': set REPLICA IDENTITY FULL")
            return [(UPDATE_BEFORE, self._read(before)), (UPDATE_AFTER, self._read(after))]
        if operation == "d":
            if before is None:
                raise ValueError("a delete has no 'before': set REPLICA IDENTITY FULL")
            return [(DELETE, self._read(before))]
        raise ValueError(f"the operation {operation!r} is unknown")

    def encode(self, kind: int, row: Sequence[Any]) -> bytes:
        """Return the change of a row: an update is encoded as a delete and a creation."""
        written = self._write(row)
        if kind in ADDED:
            return f'{{"before":null,"after":{written},"op":"c"}}'.encode()
        return f'{{"before":{written},"after":null,"op":"d"}}'.encode()


class CanalJsonFormat(_ChangesFormat):
    """Changes in Canal's form: several rows a message, and the former values of updates."""

    identifier = "canal-json"
    metadata: ClassVar[Mapping[str, types.DataType]] = {
        "database": _TEXT,
        "table": _TEXT,
        "sql-type": DataTypes.MAP(_TEXT, DataTypes.INT()),
        "pk-names": DataTypes.ARRAY(_TEXT),
        "ingestion-timestamp": _MOMENT,
        "event-timestamp": _MOMENT,
    }
    options: ClassVar[Mapping[str, OptionSpec]] = {
        **_INHERITED,
        "database.include": OptionSpec(text, None),
        "table.include": OptionSpec(text, None),
    }

    def _told(self, document: dict[str, Any]) -> Mapping[str, Any]:
        """Return the metadata of a change, by key."""
        return {
            "database": document.get("database"),
            "table": document.get("table"),
            "sql-type": _numbers(document.get("sqlType")),
            "pk-names": document.get("pkNames"),
            "ingestion-timestamp": _moment(document.get("ts")),
            "event-timestamp": _moment(document.get("es")),
        }

    def _changes(self, document: dict[str, Any]) -> Iterable[KindedRow]:
        for name in ("database", "table"):
            wanted = self.values[f"{name}.include"]
            if wanted is not None and not _matches(wanted, document.get(name)):
                return
        operation = document["type"]
        if operation == "CREATE":
            return
        data = document["data"]
        if operation == "INSERT":
            yield from ((INSERT, self._read(new)) for new in data)
        elif operation == "DELETE":
            yield from ((DELETE, self._read(new)) for new in data)
        elif operation == "UPDATE":
            for new, old in zip(data, document["old"], strict=True):
                yield UPDATE_BEFORE, self._old_row(old, new)
                yield UPDATE_AFTER, self._read(new)
        else:
            raise ValueError(f"the type {operation!r} is unknown")

    def encode(self, kind: int, row: Sequence[Any]) -> bytes:
        """Return the change of a row: an update is encoded as a delete and an insertion."""
        operation = "INSERT" if kind in ADDED else "DELETE"
        return f'{{"data":[{self._write(row)}],"type":"{operation}"}}'.encode()


class MaxwellJsonFormat(_ChangesFormat):
    """Changes in Maxwell's form."""

    identifier = "maxwell-json"
    metadata: ClassVar[Mapping[str, types.DataType]] = {
        "database": _TEXT,
        "table": _TEXT,
        "primary-key-columns": DataTypes.ARRAY(_TEXT),
        "ingestion-timestamp": _MOMENT,
    }

    def _told(self, document: dict[str, Any]) -> Mapping[str, Any]:
        """Return the metadata of a change, by key; its time is in seconds."""
        seconds = document.get("ts")
        return {
            "database": document.get("database"),
            "table": document.get("table"),
            "primary-key-columns": document.get("primary_key_columns"),
            "ingestion-timestamp": None if seconds is None else _moment(int(seconds) * 1000),
        }

    def _changes(self, document: dict[str, Any]) -> Iterable[KindedRow]:
        operation, data = document["type"].lower(), document["data"]
        if operation == "insert":
            return [(INSERT, self._read(data))]
        if operation == "delete":
            return [(DELETE, self._read(data))]
        if operation == "update":
            before = self._old_row(document["old"], data)
            return [(UPDATE_BEFORE, before), (UPDATE_AFTER, self._read(data))]
        raise ValueError(f"the type {operation!r} is unknown")

    def encode(self, kind: int, row: Sequence[Any]) -> bytes:
        """Return the change of a row: an update is encoded as a delete and an insertion."""
        operation = "insert" if kind in ADDED else "delete"
        return f'{{"data":{self._write(row)},"type":"{operation}"}}'.encode()


class OggJsonFormat(_ChangesFormat):
    """Changes in Oracle GoldenGate's form."""

    identifier = "ogg-json"

    def _changes(self, document: dict[str, Any]) -> Iterable[KindedRow]:
        operation, before, after = (
            document["op_type"],
            document.get("before"),
            document.get("after"),
        )
        if operation == "I":
            return [(INSERT, self._read(after))]
        if operation == "D":
            return [(DELETE, self._read(before))]
        if operation == "U":
            if before is None:
                raise ValueError("an update has no 'before'")
            return [(UPDATE_BEFORE, self._read(before)), (UPDATE_AFTER, self._read(after))]
        raise ValueError(f"the operation {operation!r} is unknown")

    def encode(self, kind: int, row: Sequence[Any]) -> bytes:
        """Return the change of a row: an update is encoded as a delete and an insertion."""
        written = self._write(row)
        if kind in ADDED:
            return f'{{"before":null,"after":{written},"op_type":"I"}}'.encode()
        return f'{{"before":{written},"after":null,"op_type":"D"}}'.encode()


def _moment(milliseconds: Any) -> datetime.datetime | None:
    return None if milliseconds is None else datetime_of(int(milliseconds) * 1000)


def _numbers(values: Mapping[str, Any] | None) -> dict[str, int] | None:
    return None if values is None else {name: int(value) for name, value in values.items()}


def _plain_text(value: Any) -> str:
    """Return a text or a number unchanged, and other values as JSON."""
    return str(value) if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
    """Return a part of a document as JSON; numbers keep their notation."""
    match value:
        case JsonNumber():
            return str(value)
        case dict():
            parts = (f"{json.dumps(name)}:{_json_text(part)}" for name, part in value.items())
            return f"{{{','.join(parts)}}}"
        case list():
            return f"[{','.join(map(_json_text, value))}]"
    return json.dumps(value)


def _matches(pattern: str, name: Any) -> bool:
    import re

    return isinstance(name, str) and re.fullmatch(pattern, name) is not None
