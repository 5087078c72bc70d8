"""Reads the table: the rows of its snapshot, then its changes as they arrive.

While rows or changes are available, the task reads them from the connection without blocking.  When
there are none, a thread of the reader waits for bytes, or reconnects; meanwhile the task does not
use the connection.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options.checkpointing import INTERVAL
from penstock.common.row_kind import RowKind
from penstock.connectors.messages import DeadLetters
from penstock.connectors.postgres_cdc import decoding
from penstock.connectors.postgres_cdc.server import Connection, UnreachableError, lsn_text
from penstock.connectors.postgres_cdc.snapshot import Snapshot, was_read
from penstock.connectors.postgres_cdc.table import check_slot
from penstock.connectors.postgres_cdc.values import reader_of
from penstock.connectors.single_split import SingleSplitReader
from penstock.connectors.split_source import InputStatus, ReaderOutput, SourceReaderContext
from penstock.errors import SourceError, UndecodableRecordError
from penstock.external.background import ServerThreads
from penstock.formats.json_values import named_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from penstock.connectors.postgres_cdc.description import TableDescription, TableSplit

logger = logging.getLogger(__name__)

#: The largest number of rows or messages per call, and the time after which a call emits no more:
#: the task handles nothing else meanwhile, and operators downstream may need seconds for each.
_STEP: Final = 100
_STEP_NS: Final = 1_000_000

#: The longest time until the waiting thread notices that the reader is closed.
_WAIT_S: Final = 0.02

#: The server drops a connection that is silent for wal_sender_timeout, a minute.
_CONFIRM_EVERY_S: Final = 5.0

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0


class TableReader(SingleSplitReader["TableSplit"]):
    """Reader of a subtask: one subtask reads the table, the others nothing."""

    def __init__(self, source: TableDescription, context: SourceReaderContext) -> None:
        """Create a reader without the table."""
        super().__init__(context)
        self._source = source
        self._connection: Connection | None = None
        #: A second connection, for comparisons of keys while the first one streams changes.
        self._asking: Connection | None = None
        self._snapshot: Snapshot | None = None
        self._waiting: Future[None] | None = None
        self._threads = ServerThreads("postgres-wait")
        self._rows = _Rows(source)
        #: The current transaction: the position of its commit, and its time.
        self._commit_lsn, self._time_ms = 0, 0
        self._seen = 0
        self._received_lsn = 0
        self._confirmed_lsn = 0
        self._next_confirm_s = 0.0
        self._by_checkpoint: dict[int, int] = {}
        self._takes_checkpoints = False
        context.metric_group().gauge("pendingBytes", self._pending_bytes)
        self._dead_letters = DeadLetters(
            source.undecodable,
            "skip_undecodable_records=True leaves such rows out, dead_letters=tag sends them to a "
            "side output",
            context,
        )

    def start(self) -> None:
        """Request the table."""
        configuration = self._context.get_configuration().to_dict()
        self._takes_checkpoints = INTERVAL.read(configuration) is not None
        super().start()

    def poll_split(self, split: TableSplit, output: ReaderOutput) -> InputStatus:
        """Emit some rows of the snapshot, or some changes."""
        if self._waiting is not None:
            if not self._waiting.done():
                return InputStatus.NOTHING_AVAILABLE
            self._waiting.result()
            self._waiting = None
        if split.lsn is None:
            return self._read_snapshot(split, output)
        if self._connection is None:
            return InputStatus.NOTHING_AVAILABLE
        try:
            count = self._take(split, output)
            if split.stop_lsn is not None and split.lsn >= split.stop_lsn:
                return InputStatus.END_OF_INPUT
            self._confirm(split, asks=split.stop_lsn is not None and not count)
        except UnreachableError as error:
            logger.warning("reading %s failed: %s; reconnecting", self._shown, error)
            self._disconnect()
            return InputStatus.NOTHING_AVAILABLE
        return InputStatus.MORE_AVAILABLE if count else InputStatus.NOTHING_AVAILABLE

    def is_available(self) -> Future[Any] | None:
        """Return a future that completes when the server has sent data or a confirmation is due."""
        if self._waiting is None and self._split is not None:
            self._waiting = self._threads.submit(self._wait)
        return self._waiting

    def snapshot_state(self, checkpoint_id: int) -> list[TableSplit]:
        """Return the read position of the table."""
        split = self._split
        if split is None:
            return []
        if split.lsn is not None:
            self._by_checkpoint[checkpoint_id] = split.lsn
        return [copy(split)]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Let the server drop the part of the log that the checkpoint covers."""
        lsn = self._by_checkpoint.pop(checkpoint_id, 0)
        for earlier in [number for number in self._by_checkpoint if number < checkpoint_id]:
            del self._by_checkpoint[earlier]
        if lsn > self._confirmed_lsn:
            self._confirmed_lsn = lsn
            self._next_confirm_s = 0.0

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forget the checkpoint's position: it is not confirmed."""
        self._by_checkpoint.pop(checkpoint_id, None)

    def close(self) -> None:
        """Close the connection; the slot remains."""
        self._threads.close(self._disconnect)

    def _read_snapshot(self, split: TableSplit, output: ReaderOutput) -> InputStatus:
        """Emit the rows that have arrived; all rows at once if the table has no key.

        Without a key, a checkpoint could not store the position among the rows.
        """
        snapshot, connection = self._snapshot, self._connection
        if snapshot is None or connection is None:
            return InputStatus.NOTHING_AVAILABLE
        split.time_ms = split.time_ms or snapshot.time_ms
        has_emitted = self._emit_rows(snapshot, split, output)
        while not snapshot.key and (snapshot.rows or not snapshot.is_copied):
            if not has_emitted:
                connection.wait(_WAIT_S)
            has_emitted = self._emit_rows(snapshot, split, output)
        if has_emitted:
            return InputStatus.MORE_AVAILABLE
        if snapshot.is_over:
            snapshot.note(split, None)
            self._disconnect()
            split.lsn, split.stop_lsn = split.parts[0].lsn, snapshot.stop_lsn
            if len(split.parts) == 1:
                split.parts = ()
        return InputStatus.NOTHING_AVAILABLE

    def _emit_rows(self, snapshot: Snapshot, split: TableSplit, output: ReaderOutput) -> bool:
        """Emit some rows, if any have arrived."""
        rows, make, columns = snapshot.rows, self._rows.of_texts, len(self._source.columns)
        if not rows and not snapshot.is_copied:
            with self._beginning():
                snapshot.take(_STEP)
        has_more = max(snapshot.key_places, default=0) >= columns
        to_split, time_ms = output.create_output_for_split(split.split_id()), split.time_ms
        ends_ns = time.monotonic_ns() + _STEP_NS
        texts: list[Any] = []
        while rows:
            texts = rows.popleft()
            try:
                row = make(texts[:columns] if has_more else texts, RowKind.INSERT, "the snapshot")
            except UndecodableRecordError as error:
                self._bury(output, error, texts)
            else:
                to_split.collect(row, time_ms)
            if time.monotonic_ns() >= ends_ns:
                break
        if texts and snapshot.key:
            snapshot.note(split, tuple(texts[place] for place in snapshot.key_places))
        return bool(texts)

    def _take(self, split: TableSplit, output: ReaderOutput) -> int:
        """Emit the changes that have arrived, and return the number of messages."""
        connection = self._connection
        assert connection is not None, "checked by the caller"
        ends_ns = time.monotonic_ns() + _STEP_NS
        for count in range(_STEP):
            if time.monotonic_ns() >= ends_ns and count:
                return count
            message = connection.receive()
            if message is None:
                return count
            self._received_lsn = max(self._received_lsn, message.wal_end)
            if message.data is not None:
                self._handle(decoding.decode(message.data), split, output)
            else:
                if not self._commit_lsn:
                    # Earlier commits contained nothing for this table.
                    split.advance(message.wal_end)
                if message.wants_reply:
                    self._next_confirm_s = 0.0
        return _STEP

    def _handle(self, message: Any, split: TableSplit, output: ReaderOutput) -> None:
        match message:
            case decoding.Change():
                if self._rows.is_of_table(message.relation_id):
                    self._seen += 1
                    if self._seen > split.emitted:
                        self._emit(message, split, output)
                        split.emitted = self._seen
            case decoding.Begin():
                self._commit_lsn, self._time_ms = message.commit_lsn, message.time_ms
                self._seen = 0
                if split.parts and message.commit_lsn >= split.parts[-1].lsn:
                    # Transactions arrive in the order of their commits: no snapshot part contains
                    # this one or later ones.
                    split.parts = ()
                    self._ask_no_more()
                if split.commit_lsn != message.commit_lsn:
                    split.commit_lsn, split.emitted = message.commit_lsn, 0
            case decoding.Commit():
                self._commit_lsn = 0
                split.advance(message.end_lsn)
            case decoding.Truncate():
                if any(map(self._rows.is_of_table, message.relation_ids)):
                    logger.warning(
                        "%s was truncated, and no row reports that: downstream keeps its rows",
                        self._shown,
                    )
            case (int() as number, decoding.Relation() as relation):
                self._rows.relate(number, relation)

    def _emit(self, change: decoding.Change, split: TableSplit, output: ReaderOutput) -> None:
        to_split = output.create_output_for_split("table")
        where = f"the transaction at {lsn_text(self._commit_lsn)}"
        rows = _kinds(change)
        if split.parts:
            rows = self._unread(change, rows, split)
        for kind, texts in rows:
            try:
                row = self._rows.of_change(change.relation_id, texts, change, kind, where)
            except UndecodableRecordError as error:
                self._bury(output, error, texts)
            else:
                to_split.collect(row, self._time_ms)

    def _bury(
        self, output: ReaderOutput, error: UndecodableRecordError, texts: Sequence[Any]
    ) -> None:
        table = self._source.table_name
        data = repr([text if isinstance(text, str) else None for text in texts]).encode()
        lsn = self._commit_lsn or None
        self._dead_letters.bury(output, error, f"a row of {table}", table, lsn, data)

    def _unread(
        self, change: decoding.Change, rows: list[tuple[RowKind, list[Any]]], split: TableSplit
    ) -> list[tuple[RowKind, list[Any]]]:
        """Return the rows of a change that the snapshot does not contain."""
        key_of, columns = self._rows.key_of_change, [column.name for column in split.key]
        kept = [
            (kind, texts)
            for kind, texts in rows
            if not was_read(
                split, self._commit_lsn, key_of(change, texts, columns), self._asking_one
            )
        ]
        if len(kept) == len(rows):
            return rows
        # The key of the update's other half is in another part.
        alone = {RowKind.UPDATE_BEFORE: RowKind.DELETE, RowKind.UPDATE_AFTER: RowKind.INSERT}
        return [(alone.get(kind, kind) if len(rows) > 1 else kind, texts) for kind, texts in kept]

    def _confirm(self, split: TableSplit, *, asks: bool) -> None:
        """Report the job's position to the server at intervals."""
        now_s = time.monotonic()
        if now_s < self._next_confirm_s and not asks:
            return
        self._next_confirm_s = now_s + _CONFIRM_EVERY_S
        if not self._takes_checkpoints and split.lsn is not None:
            self._confirmed_lsn = split.lsn
        assert self._connection is not None, "checked by the caller"
        self._connection.confirm(self._received_lsn, self._confirmed_lsn, wants_reply=asks)

    def _wait(self) -> None:
        """Wait for rows or bytes, or start the stream of changes; runs in the reader's thread."""
        split = self._split
        assert split is not None, "checked by the caller"
        if split.lsn is None:
            self._fetch(split)
            return
        if self._connection is None:
            self._stream(split.lsn)
            return
        while not self._threads.closed.is_set() and time.monotonic() < self._next_confirm_s:
            if self._connection.wait(_WAIT_S):
                return

    def _stream(self, lsn: int) -> None:
        """Start the stream of changes at a position.

        Raises:
            SourceError: The server refuses, or is unreachable for too long.
        """
        deadline_s = time.monotonic() + self._source.retry_timeout_ms / 1000
        pause_s = _FIRST_PAUSE_S
        while not self._threads.closed.is_set():
            connection = None
            try:
                connection = Connection(self._source.settings, self._threads.closed)
                check_slot(connection, self._source, lsn)
                connection.start(self._source.slot, self._source.publication, lsn)
            except UnreachableError as error:
                if connection is not None:
                    connection.close()
                if time.monotonic() + pause_s > deadline_s:
                    raise SourceError(
                        f"cannot read {self._shown}, tried for "
                        f"{self._source.retry_timeout_ms} ms: {error}"
                    ) from error
                logger.warning("%s; trying again in %.1f s", error, pause_s)
                self._threads.closed.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            except BaseException:
                if connection is not None:
                    connection.close()
                raise
            else:
                self._commit_lsn, self._received_lsn = 0, 0
                self._next_confirm_s = 0.0
                self._connection = connection
                return

    def _fetch(self, split: TableSplit) -> None:
        """Begin the snapshot, or wait for its rows or its end."""
        with self._beginning():
            if self._snapshot is None:
                self._connection = Connection(self._source.settings, self._threads.closed)
                self._snapshot = Snapshot(self._connection, self._source, split)
                if self._takes_checkpoints and self._source.snapshot and not self._snapshot.key:
                    logger.warning(
                        "%s has no key: checkpoints wait until all of its rows are read; a primary "
                        "key, REPLICA IDENTITY USING INDEX or snapshot=False avoids it",
                        self._shown,
                    )
            elif self._snapshot.is_copied:
                self._snapshot.finish()
            elif self._connection is not None:
                while not self._threads.closed.is_set() and not self._connection.wait(_WAIT_S):
                    pass

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        try:
            yield
        except UnreachableError as error:
            # The restart strategy can continue from the rows in a checkpoint.
            raise SourceError(f"cannot begin to read {self._shown}: {error}") from error

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._snapshot = None
        if connection is not None:
            connection.close()
        self._ask_no_more()

    def _asking_one(self) -> Connection:
        """Return the connection for comparisons of keys."""
        if self._asking is None:
            settings = {**self._source.settings}
            del settings["replication"]
            self._asking = Connection(settings, self._threads.closed)
        return self._asking

    def _ask_no_more(self) -> None:
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.close()

    def _pending_bytes(self) -> int:
        """Return the bytes of the server's log that this job has not confirmed."""
        split = self._split
        lsn = None if split is None else split.lsn
        return 0 if lsn is None else max(0, self._received_lsn - lsn)

    @property
    def _shown(self) -> str:
        return f"{self._source.table_name} of the slot {self._source.slot}"


def _kinds(change: decoding.Change) -> list[tuple[RowKind, list[Any]]]:
    """Return the rows of a change, with their kinds."""
    old, new = change.old, change.new
    if new is None:
        return [(RowKind.DELETE, old or [])]
    if old is None:
        kind = RowKind.INSERT if change.is_insert else RowKind.UPDATE_AFTER
        return [(kind, new)]
    if change.old_is_whole:
        return [(RowKind.UPDATE_BEFORE, old), (RowKind.UPDATE_AFTER, new)]
    return [(RowKind.DELETE, old), (RowKind.INSERT, new)]


class _Rows:
    """Converts texts to rows."""

    def __init__(self, source: TableDescription) -> None:
        self._source = source
        self._names = list(source.columns)
        types = source.row_type.get_field_types()
        self._readers = [
            reader_of(declared, name) for name, declared in zip(self._names, types, strict=True)
        ]
        #: By number of the table: its columns, and the positions of those that are read.
        self._columns: dict[int, list[str]] = {}
        self._places: dict[int, list[int]] = {}

    def relate(self, number: int, relation: decoding.Relation) -> None:
        """Store the columns that a table has from now on.

        Raises:
            SourceError: A column was removed.
        """
        source = self._source
        self._places.pop(number, None)
        if (relation.schema, relation.name) != (source.schema, source.table):
            return
        for name in self._names:
            if name not in relation.columns:
                raise SourceError(
                    f"{source.table_name} has no column {name!r} any more; it has "
                    f"{', '.join(relation.columns)}"
                )
        self._columns[number] = relation.columns
        self._places[number] = [relation.columns.index(name) for name in self._names]

    def is_of_table(self, number: int) -> bool:
        """Return whether a number identifies the table."""
        return number in self._places

    def of_change(
        self, number: int, texts: list[Any], change: decoding.Change, kind: RowKind, where: str
    ) -> Any:
        """Return the row of a change.

        Raises:
            SourceError: The server has omitted a value.
        """
        places = self._places[number]
        wanted = [texts[place] for place in places]
        if decoding.UNCHANGED in wanted:
            if change.old is None or not change.old_is_whole:
                column = self._names[wanted.index(decoding.UNCHANGED)]
                raise SourceError(
                    f"{self._source.table_name}: {where} has not changed the long value of "
                    f"{column!r}, which the server then omits; run ALTER TABLE "
                    f"{self._source.table_name} REPLICA IDENTITY FULL, or do not read the column"
                )
            wanted = [
                change.old[place] if text is decoding.UNCHANGED else text
                for place, text in zip(places, wanted, strict=True)
            ]
        return self.of_texts(wanted, kind, where)

    def key_of_change(
        self, change: decoding.Change, texts: list[Any], names: list[str]
    ) -> tuple[str, ...]:
        """Return the key of a changed row.

        Raises:
            SourceError: The change has no such key any more.
        """
        columns, table = self._columns[change.relation_id], self._source.table_name
        found = []
        for name in names:
            text = texts[columns.index(name)] if name in columns else None
            if text is decoding.UNCHANGED and change.old is not None:
                text = change.old[columns.index(name)]
            if not isinstance(text, str):
                raise SourceError(
                    f"{table}: its replica identity has changed since the job began to "
                    f"read its rows: a change has no {name!r}; start the job without its "
                    "checkpoints"
                )
            found.append(text)
        return tuple(found)

    def of_texts(self, texts: Sequence[Any], kind: RowKind, where: str) -> Any:
        """Return the row of texts in the order of the declared columns.

        Raises:
            UndecodableRecordError: A text is not of the declared type.
        """
        readers, values = self._readers, []
        try:
            for read, text in zip(readers, texts, strict=True):
                values.append(None if text is None else read(text))
        except (ValueError, ArithmeticError) as error:
            place = len(values)
            raise UndecodableRecordError(
                f"{self._source.table_name}, {where}: the column {self._names[place]!r} is "
                f"{texts[place]!r}: {error}"
            ) from error
        row = named_row(self._names, values)
        if kind is not RowKind.INSERT:
            row.set_row_kind(kind)
        return row
