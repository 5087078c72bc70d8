"""The keys and the results of a join of two streams, computed by columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.columns.batch_schema import fields_of
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.evaluation import ColumnProgram, unsupported_operation
from penstock.columns.exchange import has_batches
from penstock.columns.keyed_columns import unhashable_field
from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.expressions.checking import kind_of
from penstock.expressions.evaluation import Called, Stage
from penstock.expressions.functions import bound_function
from penstock.formats.arrow_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.aggregates.named import KeyFields
    from penstock.columns.pairs import Pairs
    from penstock.common.typeinfo import TypeInformation
    from penstock.expressions.evaluation import Evaluation
    from penstock.expressions.program import Program
    from penstock.graph.operators import RegularJoin

#: Operations that copy fields of the record.
_COPIES: Final = frozenset({"field", "row field", "named field", "tuple", "return"})

#: The register of the record.
_RECORD: Final = 0


class JoinColumns:
    """Computes keys and results of batches, and counts the batches.

    Attributes:
        types: By side, the type of the records.
        key_fields: By side, the fields of the key.
        batches: The batches that were joined by columns.
        given_up: The batches whose records were joined, or whose results computed, one by one.
        rows: The records of the batches that were joined by columns.
    """

    def __init__(
        self,
        types: tuple[TypeInformation, TypeInformation],
        key_fields: tuple[KeyFields, KeyFields],
        key_type: TypeInformation | None,
        keys: Sequence[Program],
        results: Program,
    ) -> None:
        """Create the evaluator.

        Args:
            types: By side, the type of the records.
            key_fields: By side, the fields of the key.
            key_type: The declared type of the keys; None if they have none.
            keys: By side, the program of the key.
            results: The program of the result of a pair.
        """
        self.types = types
        self.key_fields = key_fields
        self._key_type = key_type
        self._keys = [ColumnProgram(program) for program in keys]
        self._copied = [
            _copied_fields(program, declared) for program, declared in zip(keys, types, strict=True)
        ]
        self._results = ColumnProgram(results)
        self.batches = 0
        self.given_up = 0
        self.rows = 0

    def key_types(self, side: int) -> list[Any]:
        """Return the Arrow types of the columns of a side's key."""
        return [arrow_type(kind) for kind in self.key_fields[side].types]

    def keyed(self, side: int, rows: Any) -> tuple[Any, Sequence[int]] | None:
        """Return an object with the columns of the keys of some rows, and their positions.

        Args:
            side: The side of the rows.
            rows: A ``pyarrow.RecordBatch``, or an object with its ``column`` and a ``batch()``.

        Returns:
            None if the keys cannot be computed by columns.
        """
        copied = self._copied[side]
        if copied is not None and self._key_type is None:
            return rows, copied
        data = rows.batch() if hasattr(rows, "batch") else rows
        keys = self._keys[side].evaluated(ColumnBatch(data, self.types[side]))
        if keys is None or [each.type for each in keys.data.columns] != self.key_types(side):
            return None
        is_tuple = isinstance(keys.declared, (RowTypeInfo, TupleTypeInfo))
        if self.key_fields[side].is_tuple is not is_tuple:
            return None
        if self._key_type is not None and keys.declared != self._key_type:
            return None
        return keys.data, range(keys.data.num_columns)

    def results(self, pairs: Pairs) -> ColumnBatch | None:
        """Return the results of pairs; None if their function must be called."""
        found = self._results.of_pairs(pairs)
        self.given_up += found is None
        return found


def _copied_fields(program: Program, declared: TypeInformation) -> tuple[int, ...] | None:
    """Return the positions of the fields of a record that a program copies.

    Returns:
        None if the program does more.
    """
    names = [name for name, _ in fields_of(declared)]
    found: dict[int, tuple[int, ...]] = {}
    for operation, target, left, right, number in program.instructions:
        if operation not in _COPIES:
            return None
        if operation == "return":
            return found.get(left)
        if operation == "tuple":
            items = program.lists[right : right + number]
            if any(len(found.get(item, ())) != 1 for item in items):
                return None
            found[target] = tuple([found[item][0] for item in items])
            continue
        if left != _RECORD:
            return None
        name = None if operation == "field" else program.constants.get(right)
        if isinstance(declared, RowTypeInfo) and name is not None:
            if name not in names:
                return None
            number = names.index(name)
        if not 0 <= number < len(names):
            return None
        found[target] = (number,)
    return None


def join_columns(
    descriptor: RegularJoin,
    selectors: Sequence[Any],
    key_type: TypeInformation | None,
    types: Sequence[Any],
    evaluation: Evaluation,
) -> JoinColumns | str:
    """Return the evaluator of a join, or why its records are joined one by one.

    Args:
        descriptor: The join.
        selectors: By side, the selector of the key.
        key_type: The declared type of the keys; None if they have none.
        types: By side, the declared type of the records.
        evaluation: The evaluation of the operator.
    """
    reason = descriptor.why_by_rows or _why_not_keyed(descriptor, types)
    if reason is not None:
        return reason
    programs = []
    for side, selector in enumerate(selectors):
        programs.append(_program(evaluation, bound_function(selector, "get_key"), types[side]))
    results = bound_function(descriptor.function.joining.function, "join")
    programs.append(_program(evaluation, results, *types))
    for program in programs:
        if isinstance(program, str):
            return program
    left_key, right_key, of_pairs = programs
    one, other = descriptor.key_fields
    return JoinColumns(
        (types[0], types[1]), (one, other), key_type, [left_key, right_key], of_pairs
    )


def _why_not_keyed(descriptor: RegularJoin, types: Sequence[Any]) -> str | None:
    """Return why the records of a join cannot be stored as columns by key; None if they can."""
    if not all(map(has_batches, types)):
        return "as a declared type of its records has no exact columns"
    one, other = descriptor.key_fields
    if one is None or other is None:
        return "as the type of its keys is unknown"
    for fields in (one, other):
        name = unhashable_field(fields)
        if name is not None:
            return f"as no kernel groups by the field {name!r} of the key"
    kinds = [[kind_of(kind) for kind in fields.types] for fields in (one, other)]
    if kinds[0] != kinds[1] or one.is_tuple is not other.is_tuple:
        return "as the keys of the two sides are of different types"
    return None


def _program(evaluation: Evaluation, function: Any, *types: Any) -> Any:
    """Return the program of a function over records of some types, or why it is called."""
    decided = evaluation.decide([Stage(function, types=types)], len(types))
    if isinstance(decided, Called):
        return f"as a function is called: it {decided.reason}"
    operation = unsupported_operation(decided)
    return decided if operation is None else f"as no kernel of Arrow computes {operation!r}"
