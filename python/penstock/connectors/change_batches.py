"""Changes of rows for a lake's table: the last change of each key, as Arrow.

A writer keeps the last change of each key between two checkpoints.  The checkpoint stores these
changes, and the committer merges them into the table once the checkpoint is complete.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

from penstock.common.typeinfo import Types
from penstock.connectors.change_rows import is_deletion
from penstock.connectors.writer_sink import CommittingSinkWriter, SinkWriter
from penstock.errors import FormatError
from penstock.formats.arrow_types import columns_of
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit, meant_for, note_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.common.composite_types import RowTypeInfo
    from penstock.connectors.change_rows import ChangeKey

#: Keys whose changes are kept as rows; if there are more, they become a piece.
_PIECE_KEYS: Final = 65_536

DELETED: Final = "_penstock_deleted"
"""The column that marks deletions."""

_ORDER: Final = "_penstock_order"

#: The committable of a writer: its id, the number of the piece, and the changes as an Arrow
#: stream.
ChangePiece = tuple[str, int, bytes]


class ChangeBatchWriter(CommittingSinkWriter[Any, ChangePiece]):
    """Keeps the last change of each key until a checkpoint.

    Args:
        user: The sink, for errors.
        table: The table, for errors.
        row_type: The type of the rows.
        schema: The columns of the table.
        key: Reader of the rows' key.
    """

    def __init__(
        self, user: str, table: str, row_type: RowTypeInfo, schema: Any, key: ChangeKey
    ) -> None:
        self._user = user
        self._shown = f"the table {table}"
        self._row_type = row_type
        self._names = row_type.get_field_names()
        self._schema = schema
        self._key = key
        types = dict(zip(self._names, row_type.get_field_types(), strict=True))
        self._key_type = Types.ROW_NAMED(key.names, [types[name] for name in key.names])
        # A new id per attempt of each writer: numbers need not continue those of an earlier
        # attempt.
        self._writer_id = f"penstock-{uuid.uuid4()}"
        self._number = 0
        self._last: dict[Any, list[Any] | None] = {}
        self._pieces: list[ChangePiece] = []

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer a change."""
        del context
        key = self._key(element)
        try:
            values = None if is_deletion(element) else field_values(element, self._names)
        except Misfit as misfit:
            raise note_place(FormatError(f"{self._user}: {misfit}"), self._shown) from None
        self._last[key] = values
        if len(self._last) >= _PIECE_KEYS:
            self._end_piece()

    def flush(self, end_of_input: bool) -> None:
        """Do nothing: `prepare_commit` follows, and ends the piece."""

    def prepare_commit(self) -> Iterable[ChangePiece]:
        """Return the pieces since the last checkpoint, in order."""
        self._end_piece()
        pieces, self._pieces = self._pieces, []
        return pieces

    def close(self) -> None:
        """Drop the changes that no checkpoint stores."""
        self._last = {}

    def _end_piece(self) -> None:
        import pyarrow as pa

        last, self._last = self._last, {}
        if not last:
            return
        rows = [values for values in last.values() if values is not None]
        keys = [list(key) for key, values in last.items() if values is None]
        key_schema = pa.schema([self._schema.field(name) for name in self._key.names])
        with meant_for(self._shown):
            parts = [
                _table_of(rows, self._row_type, self._schema),
                _table_of(keys, self._key_type, key_schema),
            ]
        changes = pa.concat_tables(
            [
                _nullable(part).append_column(DELETED, pa.repeat(deleted, part.num_rows))
                for part, deleted in zip(parts, (False, True), strict=True)
            ],
            promote_options="default",
        )
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, changes.schema, options=options) as writer:
            writer.write_table(changes)
        self._number += 1
        self._pieces.append((self._writer_id, self._number, sink.getvalue().to_pybytes()))


def _table_of(rows: list[list[Any]], row_type: RowTypeInfo, schema: Any) -> Any:
    import pyarrow as pa

    if not rows:
        return schema.empty_table()
    return pa.Table.from_batches([columns_of(rows, row_type, schema)])


def _nullable(table: Any) -> Any:
    """Return a table with nullable columns, as deletions have only key values."""
    import pyarrow as pa

    return table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))


def last_changes(pieces: Sequence[bytes], key: Sequence[str]) -> Any:
    """Return the last change of each key, as a table with the column `DELETED`.

    Args:
        pieces: The changes, in order.
        key: The key columns.
    """
    import pyarrow as pa

    changes = pa.concat_tables([pa.ipc.open_stream(piece).read_all() for piece in pieces])
    if len(pieces) == 1:
        return changes
    numbered = changes.select(list(key)).append_column(
        _ORDER, pa.array(range(changes.num_rows), pa.int64())
    )
    last = numbered.group_by(list(key)).aggregate([(_ORDER, "max")])
    return changes.take(last.column(f"{_ORDER}_max"))
