"""The keys of batches, and the arguments of aggregates and orders."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.columns.evaluation import ColumnProgram, unsupported_operation
from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.expressions.checking import kind_of
from penstock.formats.arrow_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.aggregates.named import KeyFields
    from penstock.columns.column_batch import ColumnBatch
    from penstock.common.typeinfo import TypeInformation
    from penstock.expressions.evaluation import Evaluation
    from penstock.expressions.program import Program

#: Smaller batches are processed record by record, which costs less than a kernel call.
_FEWEST_ROWS: Final = 8


class Keyed(NamedTuple):
    """A batch with its keys.

    Attributes:
        keys: The columns of the key's fields, for each record.
        arguments: The arguments of the records, such as those of aggregates.
    """

    keys: list[Any]
    arguments: list[Any]


class KeyedColumns:
    """Computes keys and arguments of batches, and counts the batches.

    Attributes:
        batches: The batches that were computed by columns.
        given_up: The batches whose records were processed one by one.
        rows: The records of the batches that were computed.
    """

    def __init__(
        self,
        key: Program,
        arguments: Program | None,
        fields: KeyFields,
        key_type: TypeInformation | None,
    ) -> None:
        """Create the evaluator.

        Args:
            key: Computes the key of a record.
            arguments: Computes the arguments of a record; None without arguments.
            fields: The fields of the key.
            key_type: The declared type of the keys; None if they have none.
        """
        self._key = ColumnProgram(key)
        self._arguments = None if arguments is None else ColumnProgram(arguments)
        self._is_tuple = fields.is_tuple
        self._key_type = key_type
        self._fields = fields
        self.batches = 0
        self.given_up = 0
        self.rows = 0

    @cached_property
    def key_types(self) -> list[Any]:
        """The Arrow types of the columns of the key."""
        return [arrow_type(kind) for kind in self._fields.types]

    def of(self, batch: ColumnBatch) -> Keyed | None:
        """Return the keys and arguments of a batch; None if records are processed one by one."""
        found = None
        if len(batch) >= _FEWEST_ROWS and batch.kinds is None:
            found = self.computed(batch)
        self.count(batch, in_columns=found is not None)
        return found

    def count(self, batch: ColumnBatch, *, in_columns: bool) -> None:
        """Count a batch."""
        if in_columns:
            self.batches += 1
            self.rows += len(batch)
        else:
            self.given_up += 1

    def computed(self, batch: ColumnBatch) -> Keyed | None:
        """Return the keys and arguments of a batch of any size, which is not counted, or None."""
        keys = self._key.evaluated(batch)
        if keys is None or [column.type for column in keys.data.columns] != self.key_types:
            return None
        if self._is_tuple is not isinstance(keys.declared, (RowTypeInfo, TupleTypeInfo)):
            return None
        if self._key_type is not None and keys.declared != self._key_type:
            return None
        if self._arguments is None:
            return Keyed(keys.data.columns, [])
        arguments = self._arguments.evaluated(batch)
        return None if arguments is None else Keyed(keys.data.columns, arguments.data.columns)


def keyed_columns(
    evaluation: Evaluation,
    selector: Any,
    key_type: TypeInformation | None,
    arguments: Callable[[Any], object] | None,
    fields: KeyFields,
    types: tuple[object | None, ...],
) -> KeyedColumns | None:
    """Return the evaluator of keys and arguments; None if records are processed singly.

    Args:
        evaluation: The evaluation of the operator, whose metrics count the batches.
        selector: The function that selects the key.
        key_type: The declared type of the keys; None if they have none.
        arguments: Computes the arguments of a record; None without arguments.
        fields: The fields of the key.
        types: The declared type of the records.
    """
    if not evaluation.has_columns or unhashable_field(fields) is not None:
        return None
    key = evaluation.program(selector, 1, types)
    computed = None if arguments is None else evaluation.program(arguments, 1, types)
    if key is None or (computed is None and arguments is not None):
        return None
    for program in (key, computed):
        if program is not None and unsupported_operation(program) is not None:
            return None
    found = KeyedColumns(key, computed, fields, key_type)
    evaluation.column_programs.append(found)
    return found


def unhashable_field(fields: KeyFields) -> str | None:
    """Return the name of a field that kernels group differently from keyed state, or None.

    For example, the floats 0.0 and -0.0 are two keys but equal values.
    """
    for name, kind in zip(fields.names, fields.types, strict=True):
        if kind_of(kind) not in ("integer", "boolean", "string"):
            return name
    return None
