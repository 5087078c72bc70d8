"""The results of a program's branches as one batch, in the order of the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.columns.batch_schema import fields_of
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.frame import RECORD, Column, Frame, Tuple
from penstock.columns.kernels import GivenUpError, kind_of
from penstock.common.composite_types import PickledBytesTypeInfo
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.columns.pairs import Pairs
    from penstock.common.typeinfo import TypeInformation


def joined_results(batch: ColumnBatch | Pairs, pieces: Sequence[tuple[Frame, Any]]) -> ColumnBatch:
    """Return the results of all branches, in the order of the records."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(batch, ColumnBatch):
        if not pieces:
            return batch.slice(0, 0)
        if all(value is RECORD for _, value in pieces):
            if len(pieces) == 1:
                selection = pieces[0][0].selection
                return batch if selection is None else batch.take(selection)
            chosen = pa.concat_arrays([frame.selection for frame, _ in pieces])
            return batch.take(chosen.take(pc.sort_indices(chosen)))
    made = _unified([_columns_of(frame, value) for frame, value in pieces])
    first = made[0]
    if len({isinstance(value, Tuple) for _, value in pieces}) > 1:
        raise GivenUpError
    types = [column.declared for column in first]
    arrays = [column.values for column in first]
    kept = batch if pieces[0][0].selection is None else None
    if kept is None:
        chosen = pa.concat_arrays([frame.selection for frame, _ in pieces])
        if len(pieces) > 1:
            order = pc.sort_indices(chosen)
            arrays = [
                pa.concat_arrays([part[at].values for part in made]).take(order)
                for at in range(len(types))
            ]
            chosen = chosen.take(order)
        kept = batch.take(chosen)
    is_tuple = isinstance(pieces[0][1], Tuple)
    declared = Types.TUPLE(types) if is_tuple else types[0]
    names = [name for name, _ in fields_of(declared)]
    return kept.with_columns(pa.RecordBatch.from_arrays(arrays, names), declared)


def _unified(made: list[list[Column]]) -> list[list[Column]]:
    """Convert the results of the branches to common types.

    Raises:
        GivenUpError: A value has different kinds in two branches.
    """
    import pyarrow as pa

    if len({len(columns) for columns in made}) > 1:
        raise GivenUpError
    declared: TypeInformation
    for at in range(len(made[0])):
        parts = [columns[at] for columns in made]
        if all(part.declared == parts[0].declared for part in parts):
            continue
        kinds = {kind_of(part.values) for part in parts}
        if kinds == {"integer"}:
            wide, declared = pa.int64(), Types.LONG()
        elif kinds == {"float"}:
            wide, declared = pa.float64(), Types.DOUBLE()
        else:
            raise GivenUpError
        for columns in made:
            columns[at] = Column(columns[at].values.cast(wide), declared)
    return made


def _columns_of(frame: Frame, value: Any) -> list[Column]:
    """Return the columns of a result."""
    items = value.items if isinstance(value, Tuple) else [value]
    if not items:
        raise GivenUpError
    return [_spread(item, len(frame)) for item in items]


def _spread(value: Any, length: int) -> Column:
    """Return a column; a constant becomes a column that repeats it."""
    import pyarrow as pa

    if isinstance(value, Column):
        if isinstance(value.declared, PickledBytesTypeInfo):
            raise GivenUpError
        return value
    kind = _OF_CONSTANTS.get(type(value))
    if kind is None:
        raise GivenUpError
    return Column(pa.repeat(pa.scalar(value, getattr(pa, kind[0])()), length), kind[1])


_OF_CONSTANTS: Final[dict[type, tuple[str, TypeInformation]]] = {
    bool: ("bool_", Types.BOOLEAN()),
    int: ("int64", Types.LONG()),
    float: ("float64", Types.DOUBLE()),
    str: ("string", Types.STRING()),
}
