"""Accumulators of a job: its subtasks' accumulators, merged by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.errors import JobExecutionError
from penstock.rpc.messages import ACCUMULATOR_EXTENSION
from penstock.serialization.type_serializer import TypeSerializer

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from penstock.graph.ids import ExecutionAttemptID


def merge_accumulators(parts: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Merge accumulators and return their results.

    Plain numbers are added, lists and strings joined in order, dicts merged key by key.

    Raises:
        JobExecutionError: two subtasks use one name for values of different kinds.
    """
    merged: dict[str, Any] = {}
    for part in parts:
        for name, encoded in part.items():
            value = _decoded(encoded)
            merged[name] = _merge(name, merged[name], value) if name in merged else value
    return {
        name: value.get_local_value() if _is_accumulator(value) else value
        for name, value in merged.items()
    }


def _decoded(value: object) -> Any:
    if isinstance(value, msgspec.msgpack.Ext) and value.code == ACCUMULATOR_EXTENSION:
        return TypeSerializer[Any]().deserialize(bytes(value.data))
    return value


def _is_accumulator(value: object) -> bool:
    return hasattr(value, "get_local_value")


def _merge(name: str, one: Any, other: Any) -> Any:
    if _is_accumulator(one) and type(one) is type(other):
        one.merge(other)
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        joined = dict(one)
        for key, value in other.items():
            joined[key] = _merge(name, joined[key], value) if key in joined else value
        return joined
    try:
        return one + other
    except TypeError:
        raise JobExecutionError(
            f"accumulator {name!r} is a {type(one).__name__} in one subtask and "
            f"a {type(other).__name__} in another"
        ) from None


class JobAccumulators:
    """The values last reported by each attempt of a job."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._values: dict[ExecutionAttemptID, dict[str, Any]] = {}

    def report(self, attempt: ExecutionAttemptID, values: dict[str, object]) -> None:
        """Replace the values of an attempt."""
        self._values[attempt] = values

    def forget(self, vertices: Container[bytes]) -> None:
        """Drop the values of all attempts of some vertices."""
        self._values = {
            attempt: values
            for attempt, values in self._values.items()
            if attempt.vertex_id not in vertices
        }

    def merged(
        self, vertex_id: bytes | None = None, subtask: int | None = None
    ) -> dict[str, object]:
        """Return the values of the latest attempts of the subtasks, merged by name.

        Args:
            vertex_id: The vertex whose subtasks are merged; all vertices if None.
            subtask: The only subtask to merge; all if None.
        """
        latest: dict[tuple[bytes, int], ExecutionAttemptID] = {}
        for attempt in self._values:
            if vertex_id not in (None, attempt.vertex_id) or subtask not in (None, attempt.subtask):
                continue
            key = (attempt.vertex_id, attempt.subtask)
            if key not in latest or latest[key].attempt < attempt.attempt:
                latest[key] = attempt
        return merge_accumulators(self._values[latest[key]] for key in sorted(latest))
