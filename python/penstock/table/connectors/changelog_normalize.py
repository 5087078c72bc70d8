"""Upserts as a whole changelog: the last row of each key is kept in state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.row_kind import RowKind
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.datastream.data_stream import DataStream


class ChangelogNormalize(KeyedProcessFunction):
    """Puts the old row in front of each update, and drops deletions of keys that are not there."""

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        descriptor = ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY())
        self._last = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        """Yield the changes that a row means."""
        del ctx
        old = self._last.value()
        if value.get_row_kind() is RowKind.DELETE:
            if old is not None:
                self._last.clear()
                yield Row.of_kind(RowKind.DELETE, *old)
            return
        new = tuple(value)
        if old is None:
            yield Row.of_kind(RowKind.INSERT, *new)
        elif old != new:
            yield Row.of_kind(RowKind.UPDATE_BEFORE, *old)
            yield Row.of_kind(RowKind.UPDATE_AFTER, *new)
        else:
            return
        self._last.update(new)


def normalized(stream: DataStream[Any], key: Sequence[int]) -> DataStream[Any]:
    """Return a stream of upserts as one whose updates have their old rows.

    Args:
        stream: Rows.
        key: The positions of the primary key.
    """
    positions = list(key)

    def key_of(row: Any) -> Any:
        return tuple(row[i] for i in positions)

    return stream.key_by(key_of).process(ChangelogNormalize()).name("ChangelogNormalize")
