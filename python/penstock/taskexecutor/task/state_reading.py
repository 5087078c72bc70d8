"""Reads keyed state of a running task in pages, each taken by the task's thread between records."""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock import network
from penstock.common.exception_deadline import described_in_time
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.state.plain_values import plain
from penstock.taskexecutor.state.state_filters import FilterFields, fits
from penstock.taskexecutor.task.state_lookup import values_of_key, without_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.rpc.inspection_messages import ReadState
    from penstock.taskexecutor.task.operator_chain import OperatorChain
    from penstock.taskexecutor.task.operator_context import TaskOperatorContext

STEP_ENTRIES: Final = 500
"""Entries that the task's thread reads before it continues with its records."""

MAX_PAGE_BYTES: Final = 4 * 1024 * 1024

Places: TypeAlias = "Sequence[tuple[Any, Sequence[object]]]"
"""The contents of each namespace, and their keys."""


class StateReading:
    """One request to a task; its thread reads, another thread waits and requests the next step.

    Attributes:
        done: Set after each step.
        states: The kinds, by name, of the keyed states of the selected operators.
        chunks: Serialised lists of rows (key, namespace, value).
        rows: Number of rows.
        position: Number of entries read, from the first.
        places: The keys that the scan reads; None before they are listed.
        is_at_end: Whether no entry is left.
        problem: Why there is no answer; empty when there is one.
        fields: The fields that the filters name.
    """

    def __init__(self, request: ReadState, places: Places | None = None) -> None:
        """Create a reading at the request's position.

        Args:
            request: The request.
            places: The keys that the scan's first page listed.
        """
        self.done = threading.Event()
        self.states: dict[str, str] = {}
        self.chunks: list[bytes] = []
        self.rows = 0
        self.position = request.position
        self.places = places
        self.is_at_end = False
        self.problem = ""
        self._request = request
        self._serializer: TypeSerializer[Any] = TypeSerializer()
        self._keys = None if request.keys is None else self._serializer.deserialize(request.keys)
        self._filters = self._serializer.deserialize(request.filters) if request.filters else []
        self.fields = FilterFields(self._filters)
        self._bytes = 0
        self._entries: Iterator[tuple[Any, Any]] | None = None

    @property
    def is_full(self) -> bool:
        """Return whether the page has as many rows or bytes as it may, or is the last one."""
        is_large = self.rows >= self._request.limit or self._bytes >= MAX_PAGE_BYTES
        return self.is_at_end or bool(self.problem) or is_large

    def run(self, operators: OperatorChain) -> None:
        """Take a step, in the task's thread."""
        try:
            for context in operators.contexts:
                if context.config.id in self._request.operators and context.is_keyed:
                    self._read(context)
                    return
            self.is_at_end = True
        except BaseException as error:  # raised by a user class that is compared or serialised
            self.problem = described_in_time(error)
        finally:
            self.done.set()

    def _read(self, context: TaskOperatorContext) -> None:
        context.keyed_state.write_back()
        tables = context.keyed_state.tables
        self.states = {name: table.kind for name, table in tables.items()}
        table = tables.get(self._request.state)
        if table is None:
            self.is_at_end = True
            return
        if self._keys is not None:
            self._add(
                [
                    (key, namespace, value)
                    for key in self._keys
                    for namespace, value in values_of_key(context, table, key)
                ]
            )
            self.is_at_end = True
            return
        if self._entries is None:
            if self.places is None:
                # Keys at this time; a key removed before its turn is skipped.
                self.places = [(contents, list(contents.keys())) for contents in table.namespaces()]
            self._entries = _after(self.places, self.position)
        found = []
        looked = 0
        for contents, key in self._entries:
            looked += 1
            value = contents.get(key)
            if value is not None:
                row = (network.key_of(key), contents.namespace, without_times(value))
                shown = tuple(plain(part) for part in row)
                self.fields.look(shown)
                if fits(shown, self._filters):
                    found.append(shown)
            if looked >= STEP_ENTRIES or self.rows + len(found) >= self._request.limit:
                break
        else:
            self.is_at_end = True
        self.position += looked
        self._add(found)

    def _add(self, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            chunk = self._serializer.serialize([list(row) for row in rows])
            self.chunks.append(chunk)
            self.rows += len(rows)
            self._bytes += len(chunk)


def _after(places: Places, position: int) -> Iterator[tuple[Any, Any]]:
    """Yield contents and key of each entry after the first ones."""
    for contents, keys in places:
        for key in islice(keys, position, None):
            yield contents, key
        position = max(0, position - len(keys))
