"""Values of states as columns of Arrow tables."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from penstock.common.types import Row
from penstock.errors import SerializationError
from penstock.taskexecutor.state.time_to_live import Aged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa


def table_of(columns: Mapping[str, Iterable[Any]], where: str) -> pa.Table:
    """A table of columns whose values may be any that Arrow has a type for.

    Rows, dataclasses, named and other tuples become structs, dictionaries lists of their pairs.

    Raises:
        SerializationError: The values of a column have no common type of Arrow.
    """
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array([plain(value) for value in values])
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise SerializationError(
                f"{where}: the values of column {name!r} have no common type of Arrow ({error}); "
                "the method of the same name with _entries gives them as Python's"
            ) from error
    return pa.table(arrays)


def plain(value: Any) -> Any:
    """A value of the classes that Arrow knows."""
    if isinstance(value, Aged):
        return plain(value.value)
    if isinstance(value, Row):
        names = value._field_names() or [f"f{i}" for i in range(len(value))]
        return {name: plain(field) for name, field in zip(names, value, strict=True)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None) or [f"f{i}" for i in range(len(value))]
        return {name: plain(field) for name, field in zip(names, value, strict=True)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, dict):
        return [{"key": plain(key), "value": plain(held)} for key, held in value.items()]
    if isinstance(value, (list, set, frozenset)):
        return [plain(item) for item in value]
    if hasattr(value, "max_timestamp") and hasattr(value, "start"):
        return {"start": value.start, "end": value.end}
    return value
