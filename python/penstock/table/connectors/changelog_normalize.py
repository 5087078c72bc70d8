"""Upserts as a complete changelog: state stores the last row of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.row_kind import RowKind
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.state_ttl_config import StateTtlConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.datastream.data_stream import DataStream


class ChangelogNormalize(KeyedProcessFunction):
    """Emits the old row before each update, and drops deletions of unknown keys."""

    def __init__(self, state_ttl_ms: int) -> None:
        """Create a function; keys that were not written for the time expire, unless it is 0."""
        self._ttl_ms = state_ttl_ms

    def open(self, runtime_context: Any) -> None:
        """Register the state."""
        descriptor = ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY())
        if self._ttl_ms > 0:
            lifetime = StateTtlConfig.new_builder(Time.milliseconds(self._ttl_ms)).build()
            descriptor.enable_time_to_live(lifetime)
        self._last = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        """Yield the changes of an upsert."""
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
        elif old != new or self._ttl_ms > 0:
            yield Row.of_kind(RowKind.UPDATE_BEFORE, *old)
            yield Row.of_kind(RowKind.UPDATE_AFTER, *new)
        else:
            return
        self._last.update(new)


def normalized(stream: DataStream[Any], key: Sequence[int], state_ttl_ms: int) -> DataStream[Any]:
    """Return a stream of upserts as a changelog with the old rows of updates.

    Args:
        stream: Rows.
        key: The positions of the primary key.
        state_ttl_ms: The time after which a key that was not written expires; 0 for never.
    """
    positions = list(key)

    def key_of(row: Any) -> Any:
        return tuple(row[i] for i in positions)

    return (
        stream.key_by(key_of).process(ChangelogNormalize(state_ttl_ms)).name("ChangelogNormalize")
    )
