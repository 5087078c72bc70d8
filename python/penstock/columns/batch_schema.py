"""The Arrow schema of a batch, and columns of files as columns of a batch.

Arrow has many forms of a column for one declared type.  A batch has one, so that both ends of an
exchange know its schema without sending it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.basic_types import BasicType, BasicTypeInfo
from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.formats.arrow_columns import ColumnMisfit
from penstock.formats.arrow_types import arrow_library, arrow_type

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

#: The types whose values convert to a column of the Arrow type and back without loss.
_EXACT: Final = frozenset(
    {
        BasicType.STRING,
        BasicType.BOOLEAN,
        BasicType.BYTE,
        BasicType.SHORT,
        BasicType.INT,
        BasicType.LONG,
        BasicType.FLOAT,
        BasicType.DOUBLE,
    }
)


def fields_of(declared: TypeInformation) -> list[tuple[str, TypeInformation]]:
    """Return the names and types of the fields of a type; a single value is a field ``value``."""
    if isinstance(declared, RowTypeInfo):
        names, types = declared.get_field_names(), declared.get_field_types()
        return list(zip(names, types, strict=True))
    if isinstance(declared, TupleTypeInfo):
        return [(f"f{i}", kind) for i, kind in enumerate(declared.get_field_types())]
    return [("value", declared)]


def batch_schema(declared: TypeInformation) -> Any:
    """Return the Arrow schema of batches of a type.

    Raises:
        InvalidProgramError: Arrow has no type for a field.
        DependencyError: pyarrow is not installed.
    """
    pa = arrow_library("a batch of columns")
    return pa.schema([(name, arrow_type(kind)) for name, kind in fields_of(declared)])


def inexact_field(declared: TypeInformation) -> str | None:
    """Return the name of a field that has no exact column; None if every field has one.

    Such values, for example nested rows or decimals of any scale, do not survive a conversion to a
    column and back, so records with one stay rows.
    """
    for name, kind in fields_of(declared):
        if not (isinstance(kind, BasicTypeInfo) and kind.basic_type in _EXACT):
            return name
    return None


def batch_column(column: Any, declared: TypeInformation) -> Any:
    """Return a column of a file as the column of a batch, with the same values.

    Args:
        column: An Arrow array of any type that is read as the declared one.
        declared: A type with an exact column.

    Returns:
        The array; None if reading its values one by one needs more than a cast.

    Raises:
        ColumnMisfit: A value does not fit the type.
    """
    import pyarrow as pa
    import pyarrow.types as at

    wanted = arrow_type(declared)
    if column.type == wanted:
        return column
    kind = column.type
    if at.is_dictionary(kind) and kind.value_type == wanted:
        return column.dictionary_decode()
    is_widened = at.is_integer(kind) and at.is_integer(wanted)
    is_widened = is_widened or (at.is_float32(kind) and at.is_float64(wanted))
    is_widened = is_widened or (at.is_string(wanted) and at.is_large_string(kind))
    if not is_widened:
        return None
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid as error:
        raise ColumnMisfit(declared, f"its column is of {kind}: {error}") from None
