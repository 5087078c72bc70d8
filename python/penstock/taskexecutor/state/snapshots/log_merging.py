"""Keyed state of a checkpoint merged with its log, as bytes, for inspection."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.serialization.key_form import form_of
from penstock.serialization.pure.dynamic_codec import decode_dynamic
from penstock.serialization.pure.value_bytes import Reader
from penstock.taskexecutor.state.key_group_entries import NAMESPACE
from penstock.taskexecutor.state.snapshots.snapshot_contents import (
    CHANGED,
    REMOVED,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot
    from penstock.taskexecutor.state.snapshots.snapshot_contents import KeyedStates

#: Keys of these classes are equal exactly if their bytes are.
_WRITTEN_ALIKE: Final = frozenset((int, str, bytes))

#: Serialised namespace, key and, for a timer, its own namespace.
_Place = tuple[bytes, bytes, bytes]


def with_log(snapshot: OperatorSnapshot) -> OperatorSnapshot:
    """Return the snapshot with its log applied to keyed states and timers.

    Logged rows of a database are left to the reader of the database.
    """
    if not snapshot.log:
        return snapshot
    return replace(
        snapshot,
        keyed=merged(snapshot.keyed, [segment.keyed for segment in snapshot.log]),
        timers=merged(snapshot.timers, [segment.timers for segment in snapshot.log]),
    )


def merged(states: KeyedStates, log: Sequence[KeyedStates]) -> KeyedStates:
    """Return states with the segments of a log applied, without states that only the log has."""
    found: KeyedStates = {}
    for name, (kind, groups) in states.items():
        is_timer = kind == "timer"
        touched = {
            group
            for segment in log
            for prefix in (CHANGED, REMOVED)
            if prefix + name in segment
            for group in segment[prefix + name][1]
        }
        if not touched:
            found[name] = kind, groups
            continue
        changed = dict(groups)
        for group in touched:
            entries = dict(_entries(changed.get(group, b""), is_timer))
            for segment in log:
                gone = segment.get(REMOVED + name, (kind, {}))[1].get(group, b"")
                for place, _ in _entries(gone, is_timer):
                    entries.pop(place, None)
                entries.update(
                    _entries(segment.get(CHANGED + name, (kind, {}))[1].get(group, b""), is_timer)
                )
            changed[group] = _joined(entries)
        found[name] = kind, changed
    return found


def _entries(data: bytes, is_timer: bool) -> Iterator[tuple[_Place, bytes]]:
    """Yield each entry's place and its bytes, unchanged."""
    reader = Reader(data)
    namespace = b""
    while reader.position < reader.end:
        begin = reader.position
        if reader.take(1)[0] == NAMESPACE:
            is_none = decode_dynamic(reader) is None
            namespace = b"" if is_none else bytes(data[begin : reader.position])
            continue
        key = decode_dynamic(reader)
        middle = reader.position
        decode_dynamic(reader)
        rest = bytes(data[middle : reader.position]) if is_timer else b""
        # Equal keys may have different bytes: sets have no order.
        written = bytes(data[begin:middle]) if type(key) in _WRITTEN_ALIKE else form_of(key)
        yield (namespace, written, rest), bytes(data[begin : reader.position])


def _joined(entries: dict[_Place, bytes]) -> bytes:
    out = bytearray()
    last = b""
    # Entries without a namespace first: the format cannot switch back to none.
    for (namespace, _, _), entry in sorted(entries.items(), key=lambda item: item[0][0]):
        if namespace != last:
            out += namespace
            last = namespace
        out += entry
    return bytes(out)
