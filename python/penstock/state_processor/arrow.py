"""Values of states as columns of Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import SerializationError
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.state.plain_values import plain
from penstock.taskexecutor.state.state_filters import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from penstock.common.jobs.job_gateway import StateAnswer


def table_of(columns: Mapping[str, Iterable[Any]], where: str) -> pa.Table:
    """Return a table of columns with any values that Arrow has a type for.

    Rows, dataclasses and tuples become structs, dictionaries lists of their pairs.

    Raises:
        SerializationError: The values of a column have no common type of Arrow.
    """
    return table_of_plain({name: map(plain, values) for name, values in columns.items()}, where)


def table_of_plain(columns: Mapping[str, Iterable[Any]], where: str) -> pa.Table:
    """Return a table of columns of values that `plain` returned.

    Raises:
        SerializationError: The values of a column have no common type of Arrow.
    """
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(list(values))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise SerializationError(
                f"{where}: the values of column {name!r} have no common type of Arrow ({error}); "
                "the method of the same name that ends in _entries returns Python values"
            ) from error
    return pa.table(arrays)


def rows_of(answer: StateAnswer) -> list[list[Any]]:
    """Return the rows of an answer: key, namespace and value."""
    serializer: TypeSerializer[list[list[Any]]] = TypeSerializer()
    return [row for chunk in answer.entries for row in serializer.deserialize(chunk)]


def batches_of(rows: Sequence[Sequence[Any]], state: str) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches.

    Raises:
        SerializationError: A column has no common type of Arrow.
    """
    if rows:
        columns = zip(*rows, strict=True)
        table = table_of_plain(dict(zip(COLUMNS, columns, strict=True)), f"the state {state!r}")
        yield from table.combine_chunks().to_batches()


def stream_of(rows: Sequence[Sequence[Any]], state: str) -> bytes:
    """Return rows as a stream of Arrow; empty without rows.

    Raises:
        SerializationError: A column has no common type of Arrow.
    """
    import pyarrow as pa

    batches = list(batches_of(rows, state))
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
