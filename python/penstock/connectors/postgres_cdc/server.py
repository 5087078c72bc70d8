"""Connections to a server: queries, slots, the snapshot, and the stream of changes.

All of them use libpq's replication mode, which supports simple queries with results as texts.
"""

from __future__ import annotations

import math
import re
import select
import struct
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.common.packages.optional_library import optional_library
from penstock.connectors.jdbc.errors import refused_by_server
from penstock.connectors.postgres_url import postgres_settings
from penstock.errors import InvalidProgramError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event

#: COPY's escapes of a backslash and control characters.
_ESCAPED: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

#: Fixed formats, so that values are sent as they are parsed, and no timeout ends the snapshot.
_SETTINGS: Final = (
    "-c TimeZone=UTC -c DateStyle=ISO -c bytea_output=hex -c extra_float_digits=3 "
    "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)

#: Transient conditions: no connection, a server that starts or stops, a slot that another
#: connection still uses, too many connections.
_PASSING: Final = ("08", "57P", "55006", "53300")

#: Length of the steps of a wait, in seconds.
_STEP_S: Final = 0.1

_CHANGES: Final = "allow the user to read changes: ALTER ROLE ... REPLICATION"
_PUBLICATION: Final = (
    "let the table's owner create the publication, CREATE PUBLICATION ... FOR TABLE ..., and pass "
    "its name as publication"
)

#: The remedy for each error of the server, by a part of its message.
_REMEDIES: Final = {
    "replication role": _CHANGES,
    "to use replication slots": _CHANGES,
    "permission denied to start WAL sender": _CHANGES,
    "no pg_hba.conf entry": "allow the user in pg_hba.conf",
    "password authentication failed": "check the user and the password in the URL",
    "permission denied for database": _PUBLICATION,
    "must be owner of": _PUBLICATION,
    "permission denied for table": "allow the user to read it: GRANT SELECT ON ... TO ...",
    "permission denied for schema": "allow the user to use it: GRANT USAGE ON SCHEMA ... TO ...",
}

_YEAR_2000_S: Final = 946_684_800

_STATUS: Final = struct.Struct(">cQQQqB")
_DATA: Final = struct.Struct(">cQQq")
_ALIVE: Final = struct.Struct(">cQqB")


class UnreachableError(Exception):
    """The server is unavailable, or temporarily cannot serve the request."""


def postgres_library() -> Any:
    """Import the module ``psycopg``.

    Raises:
        DependencyError: psycopg is not installed.
    """
    return optional_library("psycopg", "psycopg", "postgres", "PostgresCdcSource")


def connection_settings(url: str) -> dict[str, Any]:
    """Parse a URL or a string of libpq's settings.

    Raises:
        InvalidProgramError: The argument is neither.
    """
    library = postgres_library()
    if not url:
        raise InvalidProgramError("PostgresCdcSource takes the URL of a database, got ''")
    parse = library.conninfo.conninfo_to_dict
    found = postgres_settings(url, parse, library.ProgrammingError, "PostgresCdcSource")
    timeout = found.setdefault("connect_timeout", "10")
    if not re.fullmatch(r"\s*[+-]?\d+\s*", str(timeout)):
        raise InvalidProgramError(
            f"PostgresCdcSource: connect_timeout must be a whole number of seconds, got {timeout!r}"
        )
    found.setdefault("application_name", "penstock")
    found["options"] = f"{_SETTINGS} {found.get('options', '')}".strip()
    return {**found, "replication": "database", "client_encoding": "UTF8"}


def lsn_of(text: str) -> int:
    """Parse a log position as the server writes it, ``0/16B3748``."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    """Format a log position as the server writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


class Slot(NamedTuple):
    """A replication slot: its confirmed position, its plug-in and its database."""

    confirmed_lsn: int
    plugin: str
    database: str


class Message(NamedTuple):
    """Message of the replication stream.

    Attributes:
        data: A message of pgoutput; None if the server only reports its position.
        wal_end: Everything before this position was sent.
        wants_reply: Whether the server waits for our position.
    """

    data: bytes | None
    wal_end: int
    wants_reply: bool


class Connection:
    """A connection in replication mode."""

    def __init__(self, settings: dict[str, Any], closed: Event) -> None:
        """Connect; block for at most ``connect_timeout`` seconds, without a limit if it is 0.

        Waits are split into steps, so that the task can be cancelled.

        Args:
            settings: Libpq's settings.
            closed: Ends waits in threads other than the task's.

        Raises:
            UnreachableError: The server is unavailable.
            SourceError: The server rejects the login.
        """
        self._library = postgres_library()
        self._pq = self._library.pq
        self._closed = closed
        self.shown = f"{settings.get('host', 'localhost')}/{settings.get('dbname', '')}"
        text = self._library.conninfo.make_conninfo("", **settings).encode()
        self._connection = self._pq.PGconn.connect_start(text)
        self._finish_connecting(float(settings["connect_timeout"]))
        if self._connection.status != self._pq.ConnStatus.OK:
            reason = self._reason()
            self.close()
            if refused_by_server(reason):
                raise _refusal(f"cannot connect to {self.shown}: {reason}")
            raise UnreachableError(f"cannot connect to {self.shown}: {reason}")

    def close(self) -> None:
        """Close the connection."""
        self._connection.finish()

    def rows(self, question: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query: texts, None for null.

        Raises:
            UnreachableError: The connection is lost, or the condition is transient.
            SourceError: The server refuses.
        """
        return self._rows(self._ask(question))

    def literal(self, text: str) -> str:
        """Quote a text."""
        found: bytes = self._pq.Escaping(self._connection).escape_literal(text.encode())
        return found.decode()

    def name(self, text: str) -> str:
        """Quote a name."""
        found: bytes = self._pq.Escaping(self._connection).escape_identifier(text.encode())
        return found.decode()

    def slot(self, name: str) -> Slot | None:
        """Return a slot, or None if it does not exist."""
        found = self.rows(
            "SELECT confirmed_flush_lsn, plugin, database FROM pg_replication_slots "
            f"WHERE slot_name = {self.literal(name)}"
        )
        if not found:
            return None
        lsn, plugin, database = found[0]
        return Slot(0 if lsn is None else lsn_of(lsn), plugin or "", database or "")

    def create_slot(self, name: str) -> int:
        """Create a slot that outlives the connection; return the position of its first changes."""
        created = self.rows(
            f"CREATE_REPLICATION_SLOT {self.name(name)} LOGICAL pgoutput NOEXPORT_SNAPSHOT"
        )
        return lsn_of(created[0][1])

    def begin_snapshot(self) -> int:
        """Begin a transaction that sees the commits before a position; return the position.

        The changes from that position on contain all later commits.
        """
        self._ask("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        name = self.name(f"penstock_{uuid.uuid4().hex}")
        created = self.rows(
            f"CREATE_REPLICATION_SLOT {name} TEMPORARY LOGICAL pgoutput USE_SNAPSHOT"
        )
        return lsn_of(created[0][1])

    def copy(self, query: str) -> None:
        """Request the rows of a query, within the transaction of `begin_snapshot`."""
        self._ask(f"COPY ({query}) TO STDOUT")

    def copied_rows(self, limit: int) -> tuple[list[list[Any]], bool]:
        """Return the rows of `copy` that have arrived, without waiting.

        Returns:
            The texts of each, None for null; and whether they are the last ones, after which
            `end_copy` must be called.

        Raises:
            UnreachableError: The connection is lost.
        """
        found: list[list[Any]] = []
        size = 0
        while len(found) < limit:
            size, data = self._copied()
            if size <= 0:
                break
            line = str(data, "utf-8")
            texts: list[Any] = line[:-1].split("\t")
            found.append([_unescaped(text) for text in texts] if "\\" in line else texts)
        return found, size < 0

    def end_copy(self) -> None:
        """Wait for the end of `copy`.

        Raises:
            UnreachableError: The connection is lost.
            SourceError: The server aborted it; the error has the reason.
        """
        self._answer("the rows of the table")

    def start(self, slot: str, publication: str, lsn: int) -> None:
        """Start the stream of changes that were committed at a position or later."""
        publications = self.literal(self.name(publication))
        self._ask(
            f"START_REPLICATION SLOT {self.name(slot)} LOGICAL {lsn_text(lsn)} "
            f"(proto_version '1', publication_names {publications})"
        )

    def receive(self) -> Message | None:
        """Return the next message of the stream without waiting; None if there is none yet.

        Raises:
            UnreachableError: The connection is lost.
            SourceError: The server ended the stream; the error has the reason.
        """
        size, data = self._copied()
        if size == 0:
            return None
        if size < 0:
            self._result(self._connection.get_result(), "the stream of changes")
            raise UnreachableError("the server ended the stream of changes")
        given = bytes(data)
        if given[:1] == b"w":
            _, _, wal_end, _ = _DATA.unpack_from(given)
            return Message(given[_DATA.size :], wal_end, False)
        _, wal_end, _, wants_reply = _ALIVE.unpack_from(given)
        return Message(None, wal_end, bool(wants_reply))

    def confirm(self, received: int, lsn: int, *, wants_reply: bool = False) -> None:
        """Report our position; changes committed before ``lsn`` are never requested again.

        Raises:
            UnreachableError: The connection is lost.
        """
        now_us = int((time.time() - _YEAR_2000_S) * 1_000_000)
        status = _STATUS.pack(b"r", max(received, lsn), lsn, lsn, now_us, wants_reply)
        try:
            self._connection.put_copy_data(status)
            self._connection.flush()
        except self._library.OperationalError as error:
            raise UnreachableError(str(error).strip()) from error

    def wait(self, timeout_s: float) -> bool:
        """Wait for bytes of the server; from any thread while no other uses the connection."""
        readable, _, _ = select.select([self._connection.socket], [], [], timeout_s)
        return bool(readable)

    def _finish_connecting(self, timeout_s: float) -> None:
        states, connection = self._pq.PollingStatus, self._connection
        # As for libpq: without a positive timeout, there is no limit.
        deadline_s = time.monotonic() + timeout_s if timeout_s > 0 else math.inf
        while (state := connection.connect_poll()) in (states.READING, states.WRITING):
            waits = [connection.socket]
            reads, writes = (waits, []) if state == states.READING else ([], waits)
            while not any(select.select(reads, writes, [], _STEP_S)):
                if self._closed.is_set() or time.monotonic() >= deadline_s:
                    self.close()
                    raise UnreachableError(
                        f"cannot connect to {self.shown}: no answer within {timeout_s:g} s"
                    )

    def _ask(self, question: str) -> Any:
        with self._reaching(question):
            self._connection.send_query(question.encode())
        return self._answer(question)

    def _answer(self, question: str) -> Any:
        """Return the server's result: the final one, or the one that starts rows or changes."""
        connection, last = self._connection, None
        status = self._pq.ExecStatus
        with self._reaching(question):
            while last is None or last.status not in (status.COPY_BOTH, status.COPY_OUT):
                while connection.is_busy():
                    if self._closed.is_set():
                        raise UnreachableError(f"{self.shown}: closed before the answer")
                    self.wait(_STEP_S)
                    connection.consume_input()
                result = connection.get_result()
                if result is None:
                    break
                last = result
        return self._result(last, question)

    @contextmanager
    def _reaching(self, question: str) -> Iterator[None]:
        try:
            yield
        except self._library.OperationalError as error:
            raise UnreachableError(
                f"{self.shown}: {str(error).strip()} (query: {question})"
            ) from error

    def _copied(self) -> tuple[int, Any]:
        """Return the data received, with its size: 0 if none has arrived, negative at the end."""
        connection = self._connection
        try:
            found: tuple[int, Any] = connection.get_copy_data(1)
            if found[0] == 0:
                connection.consume_input()
                found = connection.get_copy_data(1)
        except self._library.OperationalError as error:
            raise UnreachableError(str(error).strip()) from error
        return found

    def _result(self, result: Any, question: str) -> Any:
        status = self._pq.ExecStatus
        if result is None or result.status in (
            status.COMMAND_OK,
            status.TUPLES_OK,
            status.COPY_BOTH,
            status.COPY_OUT,
        ):
            return result
        code = (result.error_field(self._pq.DiagnosticField.SQLSTATE) or b"").decode()
        reason = result.error_message.decode(errors="replace").strip() or self._reason()
        message = f"{self.shown}: {reason} (query: {question})"
        if not code or code.startswith(_PASSING):
            raise UnreachableError(message)
        raise _refusal(message)

    def _rows(self, result: Any) -> list[tuple[Any, ...]]:
        columns = range(result.nfields)
        return [
            tuple(
                None if (value := result.get_value(row, column)) is None else value.decode()
                for column in columns
            )
            for row in range(result.ntuples)
        ]

    def _reason(self) -> str:
        found: bytes = self._connection.error_message
        return found.decode(errors="replace").strip()


def _unescaped(text: str) -> str | None:
    """Undo COPY's escapes; return None for null."""
    if text == "\\N":
        return None
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), text)


def _refusal(what: str) -> SourceError:
    """Return the error for a refusal of the server, with the remedy if it is known."""
    for words, remedy in _REMEDIES.items():
        if words in what:
            return SourceError(f"PostgresCdcSource: {what}; {remedy}")
    return SourceError(f"PostgresCdcSource: {what}")
