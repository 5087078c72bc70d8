"""The columnar evaluator of programs: one batch at a time, with Arrow kernels.

A program means the same to it as to the machine for single records (``docs/formats/program.md``).
It gives up by batch as that one gives up by record: where a value is null, does not fit into 64
bits, or where a kernel of Arrow fails or would round otherwise than Python, the records of the
batch are taken as objects, and Python's result or Python's error appears.

Rows that take different branches are evaluated apart from each other, so that what fails for some
of them fails only where Python would have come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.columns.batch_schema import fields_of
from penstock.columns.kernels import (
    CALLS,
    GivenUpError,
    compared,
    computed,
    contained,
    element,
    kind_of,
    truth,
)
from penstock.common.composite_types import PickledBytesTypeInfo, RowTypeInfo
from penstock.common.typeinfo import Types
from penstock.expressions.program import ARITHMETIC, COMPARISONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.columns.column_batch import ColumnBatch
    from penstock.common.typeinfo import TypeInformation
    from penstock.expressions.program import Program

_UNSUPPORTED: Final = frozenset({"**", "&", "|", "^", "<<", ">>", "invert", "list", "subscript"})

#: Operations that do not fail for one row of a kind and succeed for another one, but where a number
#: needs more than 64 bits.
_TOTAL: Final = frozenset(
    COMPARISONS
    | {"+", "-", "*", "negate", "not", "is", "is not", "in", "not in", "move", "tuple", "call"}
    | {"cell", "global", "field", "row field", "named field", "unpack"}
)

#: After this many consecutive abandoned batches, the program stops trying columns.
_MOST_GIVEN_UP: Final = 16


class _Record(NamedTuple):
    """The record itself, whose fields may be read."""


class _Tuple(NamedTuple):
    """A tuple of columns and constants."""

    items: list[Any]


class Column(NamedTuple):
    """A value for each row.

    Attributes:
        values: An Arrow array.
        declared: The type of the values.
    """

    values: Any
    declared: TypeInformation


_RECORD: Final = _Record()


def unsupported_operation(program: Program) -> str | None:
    """Return an operation that no kernel computes; None if columns may compute the program."""
    for operation, _, left, _, _ in program.instructions:
        if operation in _UNSUPPORTED:
            return operation
        if operation == "call" and program.constants[left][0] not in CALLS:
            function = program.constants[left][0]
            # One that takes an attribute has no name.
            return f"call of {getattr(function, '__name__', function)}"
    return None


class ColumnProgram:
    """Evaluates one program over batches.

    Attributes:
        batches: The batches that were computed by columns.
        given_up: The abandoned batches, whose records were processed as objects.
        rows: The records of the batches that were computed.
    """

    def __init__(self, program: Program) -> None:
        """Keeps a program of which `unsupported_operation` names nothing."""
        self._program = program
        #: By register: the last instruction that reads it.
        self._last_uses = _last_uses(program)
        self._given_up_in_a_row = 0
        self.batches = 0
        self.given_up = 0
        self.rows = 0

    def evaluated(self, batch: ColumnBatch) -> ColumnBatch | None:
        """Return the results for the records of a batch; None if it is abandoned."""
        pieces = self._pieces(batch)
        if pieces is None:
            return None
        try:
            result = _joined(batch, pieces)
        except GivenUpError:
            self._give_up()
            return None
        self._note(batch)
        return result

    def stamped(self, batch: ColumnBatch) -> ColumnBatch | None:
        """Return the records of a batch with the timestamps that the program computes.

        The program takes a record and its timestamp.

        Returns:
            None if the batch is abandoned.
        """
        pieces = self._pieces(batch)
        if pieces is None:
            return None
        try:
            stamps = _joined(batch, pieces)
        except GivenUpError:
            self._give_up()
            return None
        column = stamps.data.column(0)
        if (
            stamps.declared not in (Types.LONG(), Types.INT(), Types.SHORT(), Types.BYTE())
            or column.null_count
            or len(stamps) != len(batch)
        ):
            self._give_up()
            return None
        self._note(batch)
        import pyarrow as pa

        return batch.with_timestamps(column.cast(pa.int64()))

    def _pieces(self, batch: ColumnBatch) -> list[tuple[_Frame, Any]] | None:
        """Return the results of the rows by branch; None if the batch is abandoned."""
        if self._given_up_in_a_row >= _MOST_GIVEN_UP or not _still_holds(self._program):
            self.given_up += 1
            return None
        import pyarrow as pa

        registers: dict[int, Any] = dict(self._program.constants)
        registers[0] = _RECORD if _has_fields(batch) else Column(batch.column(0), batch.declared)
        if self._program.parameters > 1:
            stamps = batch.timestamps
            is_one = isinstance(stamps, int)
            registers[1] = stamps if is_one else Column(stamps, Types.LONG())
        pieces: list[tuple[_Frame, Any]] = []
        try:
            self._run(_Frame(batch, None, registers), 0, pieces)
        except (GivenUpError, pa.ArrowException, ArithmeticError, ValueError):
            self._give_up()
            return None
        return pieces

    def _give_up(self) -> None:
        self.given_up += 1
        self._given_up_in_a_row += 1

    def _note(self, batch: ColumnBatch) -> None:
        self.batches += 1
        self.rows += len(batch)
        self._given_up_in_a_row = 0

    def _run(self, frame: _Frame, place: int, pieces: list[tuple[_Frame, Any]]) -> None:
        """Evaluates the rows of a frame from an instruction on."""
        program = self._program
        while True:
            operation, target, left, right, number = program.instructions[place]
            place += 1
            if operation == "return":
                pieces.append((frame, frame.registers[left]))
                return
            if operation == "jump":
                place = number
            elif operation == "drop if false" or operation.startswith("jump if"):
                condition = _condition(operation, frame.registers[left])
                is_drop = operation == "drop if false"
                if isinstance(condition, bool):
                    if not is_drop:
                        place = number if condition else place
                    elif not condition:
                        return
                    continue
                if is_drop:
                    frame = frame.where(condition, self._last_uses, place)
                    continue
                joined = self._branches(frame, place - 1, condition)
                if joined is not None:
                    place = joined
                    continue
                # The rows that jump, then those that continue.
                jumping, staying = frame.split(condition, self._last_uses, place)
                if jumping is not None:
                    if staying is None:
                        place = number
                        continue
                    self._run(jumping, number, pieces)
                assert staying is not None, "there is a row"
                frame = staying
            else:
                frame.registers[target] = self._value(frame, operation, left, right, number)

    def _branches(self, frame: _Frame, place: int, jumps: Any) -> int | None:
        """Evaluate both branches after a conditional jump for all rows, and join their values.

        This is cheaper than splitting the rows.  It requires that no operation can fail in a branch
        that Python would not take, and that both branches have values of one kind.

        Args:
            frame: Takes the values; unchanged where the branches cannot be joined.
            place: The instruction that jumps.
            jumps: The rows that jump.

        Returns:
            The instruction at which the branches meet; None if they cannot be joined.
        """
        import pyarrow as pa

        try:
            return self._joined_branches(frame, place, jumps)
        except (_ApartError, GivenUpError, pa.ArrowException):
            return None

    def _joined_branches(self, frame: _Frame, place: int, jumps: Any) -> int:
        import pyarrow.compute as pc

        instructions = self._program.instructions
        target = instructions[place][4]
        last = instructions[target - 1]
        has_other = target - 1 > place and last[0] == "jump" and last[4] > target
        end = last[4] if has_other else target
        staying = frame.copy()
        exits = [(jumps, frame.registers)]
        self._straight(staying, place + 1, target - 1 if has_other else target, target, exits)
        # The registers on arrival: those of the first jump that a row took.
        jumps, registers = exits[-1][0], dict(exits[-1][1])
        for mask, earlier in reversed(exits[:-1]):
            for register, value in earlier.items():
                if self._last_uses.get(register, -1) >= target:
                    registers[register] = _chosen(mask, value, registers[register])
            jumps = pc.or_(jumps, mask)
        jumping = frame.copy()
        jumping.registers = registers
        self._straight(jumping, target, end, -1, [])
        for register, value in staying.registers.items():
            other = jumping.registers.get(register, value)
            if self._last_uses.get(register, -1) >= end and register in jumping.registers:
                frame.registers[register] = _chosen(jumps, other, value)
        return end

    def _straight(
        self,
        frame: _Frame,
        place: int,
        end: int,
        exit_place: int,
        exits: list[tuple[Any, dict[int, Any]]],
    ) -> None:
        """Evaluates instructions in order for all rows.

        Args:
            frame: The rows.
            place: The first instruction.
            end: The position after the last one.
            exit_place: Where conditional jumps may lead beside joined branches.
            exits: Takes the rows that jump there, and the registers with which they do.
        """
        while place < end:
            operation, target, left, right, number = self._program.instructions[place]
            if operation.startswith("jump if"):
                condition = _condition(operation, frame.registers[left])
                if isinstance(condition, bool):
                    raise _ApartError
                if number == exit_place:
                    exits.append((condition, dict(frame.registers)))
                    place += 1
                else:
                    place = self._joined_branches(frame, place, condition)
                continue
            if operation not in _TOTAL:
                raise _ApartError
            frame.registers[target] = self._value(frame, operation, left, right, number)
            place += 1
        if place != end:
            raise _ApartError

    def _value(self, frame: _Frame, operation: str, left: int, right: int, number: int) -> Any:
        """Return the value of an instruction that has one."""
        registers = frame.registers
        if operation in ("tuple", "call"):
            items = [registers[at] for at in self._program.lists[right : right + number]]
            if operation == "tuple":
                return _Tuple(items)
            return _as_value(CALLS[registers[left][0]](*map(_values, items)))
        if operation == "unpack":
            if frame.width(registers[left]) != number:
                raise GivenUpError
            return None
        if operation in ("cell", "global"):
            return _looked_up(operation, registers[left], registers.get(right))
        if operation == "move":
            return registers[left]
        if operation == "field":
            return frame.field(registers[left], number)
        if operation in ("row field", "named field"):
            at = number if operation == "row field" else -1
            return frame.named_field(registers[left], registers[right], at)
        if operation in ("negate", "not"):
            return _as_value(computed(operation, _values(registers[left]), None))
        first, second = _values(registers[left]), _values(registers[right])
        if operation in ARITHMETIC:
            return _as_value(computed(operation, first, second))
        if operation in COMPARISONS or operation in ("is", "is not"):
            return _as_value(compared(operation, first, second))
        if operation in ("in", "not in"):
            return _as_value(contained(operation, first, second))
        raise GivenUpError


class _Frame:
    """Some rows of a batch and the values that their registers have."""

    def __init__(self, batch: ColumnBatch, selection: Any, registers: dict[int, Any]) -> None:
        """Begins with the values of the registers.

        Args:
            batch: The batch.
            selection: The positions of the rows, ascending; None if they are all.
            registers: By number: a `Column`, a tuple, the record, or a constant.
        """
        self.batch = batch
        self.selection = selection
        self.registers = registers
        self._fields: dict[int, Column] = {}

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.batch if self.selection is None else self.selection)

    def copy(self) -> _Frame:
        """Return a frame of the same rows whose registers can be set independently."""
        found = _Frame(self.batch, self.selection, dict(self.registers))
        found._fields = self._fields
        return found

    def where(self, mask: Any, last_uses: dict[int, int], place: int) -> _Frame:
        """Return the frame of the rows for which a boolean array is true.

        Args:
            mask: The array.
            last_uses: By register: the last instruction that reads it.
            place: The next instruction.
        """
        import pyarrow.compute as pc

        chosen = pc.indices_nonzero(mask)
        if len(chosen) == len(self):
            return self
        selection = chosen if self.selection is None else self.selection.take(chosen)
        registers = {
            at: _taken(value, chosen)
            for at, value in self.registers.items()
            if last_uses.get(at, -1) >= place
        }
        return _Frame(self.batch, selection, registers)

    def split(
        self, mask: Any, last_uses: dict[int, int], place: int
    ) -> tuple[_Frame | None, _Frame | None]:
        """Return the frames of the rows for which a mask is true and false; None for no rows."""
        import pyarrow.compute as pc

        number = pc.sum(mask).as_py() or 0
        if number == len(self):
            return self, None
        if number == 0:
            return None, self
        return (
            self.where(mask, last_uses, place),
            self.where(pc.invert(mask), last_uses, place),
        )

    def width(self, value: Any) -> int:
        """Return the number of the fields of a record or tuple."""
        if value is _RECORD:
            return int(self.batch.data.num_columns)
        if isinstance(value, _Tuple):
            return len(value.items)
        raise GivenUpError

    def field(self, value: Any, position: int) -> Any:
        """Return a field of a record or tuple, or an element of lists."""
        if isinstance(value, Column):
            return _as_value(element(value.values, position))
        if position >= self.width(value):
            raise GivenUpError
        if isinstance(value, _Tuple):
            return value.items[position]
        found = self._fields.get(position)
        if found is None:
            column = self.batch.column(position)
            if self.selection is not None:
                column = column.take(self.selection)
            found = Column(column, fields_of(self.batch.declared)[position][1])
            self._fields[position] = found
        return found

    def named_field(self, value: Any, name: str, position: int) -> Any:
        """Return the field of a row that has a name; at a position, of a record without names."""
        if value is _RECORD and isinstance(self.batch.declared, RowTypeInfo):
            names = self.batch.declared.get_field_names()
            if name not in names:
                raise GivenUpError
            return self.field(value, names.index(name))
        if position < 0:
            raise GivenUpError
        return self.field(value, position)


class _ApartError(Exception):
    """The rows of two branches must be evaluated separately."""


def _last_uses(program: Program) -> dict[int, int]:
    """Return the last instruction that reads each register."""
    found = {}
    for place, (operation, _, left, right, number) in enumerate(program.instructions):
        found[left] = found[right] = place
        if operation in ("tuple", "call"):
            for register in program.lists[right : right + number]:
                found[register] = place
    return found


def _chosen(mask: Any, first: Any, second: Any) -> Any:
    """Return a value that is the first one where a mask is true, and the second one elsewhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if first is second:
        return first
    if isinstance(first, _Tuple) and isinstance(second, _Tuple):
        if len(first.items) != len(second.items):
            raise _ApartError
        pairs = zip(first.items, second.items, strict=True)
        return _Tuple([_chosen(mask, one, other) for one, other in pairs])
    values = [_values(first), _values(second)]
    kind = kind_of(values[0])
    if kind != kind_of(values[1]):
        raise _ApartError
    wide = {"integer": pa.int64(), "float": pa.float64(), "boolean": pa.bool_()}.get(
        kind, pa.string()
    )
    parts = [v.cast(wide) if hasattr(v, "null_count") else pa.scalar(v, wide) for v in values]
    return _as_value(pc.if_else(mask, *parts))


def _has_fields(batch: ColumnBatch) -> bool:
    return len(fields_of(batch.declared)) != 1 or fields_of(batch.declared)[0][1] is not (
        batch.declared
    )


def _still_holds(program: Program) -> bool:
    """Return whether the functions that a program was compiled from are unchanged."""
    return all(
        function.__code__ is code and (defaults is None or function.__defaults__ is defaults)
        for function, code, defaults in program.origins
    )


def _looked_up(operation: str, what: Any, variables: Any) -> Any:
    """Return the value of a cell or a global variable."""
    if operation == "global":
        if what not in variables:
            raise GivenUpError
        value = variables[what]
    else:
        value = what.cell_contents
    if type(value) not in (bool, float, int, str):
        raise GivenUpError
    return value


def _condition(operation: str, value: Any) -> Any:
    """Return the rows for which a conditional jump or a drop applies: a mask, or a bool."""
    import pyarrow.compute as pc

    values = _values(value)
    if operation in ("jump if none", "jump if not none"):
        return compared("is" if operation == "jump if none" else "is not", values, None)
    found = truth(values)
    if operation == "jump if false":
        return not found if isinstance(found, bool) else pc.invert(found)
    return found


def _values(value: Any) -> Any:
    """Return the array of a column, or a constant."""
    if isinstance(value, Column):
        return value.values
    if isinstance(value, (_Record, _Tuple)):
        raise GivenUpError
    return value


def _as_value(found: Any) -> Any:
    """Return an array as a column of the type that its values have; a constant as it is."""
    if not hasattr(found, "null_count"):
        return found
    # The results of a split are lists, which no batch contains.
    return Column(found, _DECLARED.get(str(found.type), Types.PICKLED_BYTE_ARRAY()))


#: The types of the arrays that kernels return.
_DECLARED: Final[dict[str, TypeInformation]] = {
    "bool": Types.BOOLEAN(),
    "int64": Types.LONG(),
    "double": Types.DOUBLE(),
    "string": Types.STRING(),
}


def _taken(value: Any, chosen: Any) -> Any:
    """Return a register's value for some of the rows."""
    if isinstance(value, Column):
        return Column(value.values.take(chosen), value.declared)
    if isinstance(value, _Tuple):
        return _Tuple([_taken(item, chosen) for item in value.items])
    return value


def _joined(batch: ColumnBatch, pieces: Sequence[tuple[_Frame, Any]]) -> ColumnBatch:
    """Return the results of all branches, in the order of the records."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pieces:
        return batch.slice(0, 0)
    if all(value is _RECORD for _, value in pieces):
        if len(pieces) == 1:
            selection = pieces[0][0].selection
            return batch if selection is None else batch.take(selection)
        chosen = pa.concat_arrays([frame.selection for frame, _ in pieces])
        return batch.take(chosen.take(pc.sort_indices(chosen)))
    made = _unified([_columns_of(frame, value) for frame, value in pieces])
    first = made[0]
    if len({isinstance(value, _Tuple) for _, value in pieces}) > 1:
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
    is_tuple = isinstance(pieces[0][1], _Tuple)
    declared = Types.TUPLE(types) if is_tuple else types[0]
    names = [name for name, _ in fields_of(declared)]
    return kept.with_columns(pa.RecordBatch.from_arrays(arrays, names), declared)


def _unified(made: list[list[Column]]) -> list[list[Column]]:
    """Return the results of the branches with the same types in each of them.

    Raises:
        GivenUpError: A value is of one kind in one branch, and of another one in another.
    """
    import pyarrow as pa

    if len({len(columns) for columns in made}) > 1:
        raise GivenUpError
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


def _columns_of(frame: _Frame, value: Any) -> list[Column]:
    """Return the columns of a result."""
    items = value.items if isinstance(value, _Tuple) else [value]
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
