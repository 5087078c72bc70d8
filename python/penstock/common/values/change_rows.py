"""Rows that describe changes: a record as a `Row` of a kind."""

from __future__ import annotations

from typing import Any

from penstock.common.record_types import RecordTypeInfo, as_row_type
from penstock.common.row_kind import RowKind
from penstock.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.common.types import Row
from penstock.common.values.records import names_in, plain_fields, plain_values


def change_row(kind: RowKind, record: Any) -> Row:
    """Return a record as a row of a kind, in a copy.

    The fields of a row, dictionary or record of a class keep their names; those of a tuple or list
    have none, and any other value is the only field.

    Args:
        kind: The kind of change.
        record: Any record.
    """
    names = None
    values: Any
    if isinstance(record, Row):
        names, values = record._field_names(), record
    elif isinstance(record, dict):
        names, values = list(record), plain_values(list(record.values()))
    elif (declared := names_in(record)) is not None:
        names, values = list(declared), plain_fields(record, declared)
    elif isinstance(record, tuple | list):
        values = plain_values(list(record))
    else:
        values = plain_values([record])
    row = Row.of_kind(kind, *values)
    if names is not None:
        row.set_field_names(list(names))
    return row


def kind_of_change(record: Any) -> RowKind:
    """Return the kind of a row; any other record is an insertion."""
    return record.get_row_kind() if isinstance(record, Row) else RowKind.INSERT


def type_of_changes(known: TypeInformation) -> RowTypeInfo | None:
    """Return the type of the rows that records of a type become; None if unknown."""
    found = as_row_type(known) if isinstance(known, RecordTypeInfo) else known
    return found if isinstance(found, RowTypeInfo) else None
