"""The columnar evaluator of programs: one batch at a time, with Arrow kernels.

The evaluator has the semantics of the machine for single records (``docs/formats/program.md``).
Where that machine gives up a record, the evaluator gives up the batch and the records are processed
as objects, so that Python's result or error appears.  It does so if a value is null or does not fit
into 64 bits, and if a kernel of Arrow fails or would round otherwise than Python.

Rows that take different branches are evaluated separately, so that a failure for some of them
occurs only where Python would have failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.columns.batch_schema import fields_of
from penstock.columns.branch_results import joined_results
from penstock.columns.frame import RECORD, Column, Frame, Tuple, as_value, values_of
from penstock.columns.kernels import (
    CALLS,
    GivenUpError,
    compared,
    computed,
    contained,
    kind_of,
    truth,
)
from penstock.common.typeinfo import Types
from penstock.expressions.program import ARITHMETIC, COMPARISONS

if TYPE_CHECKING:
    from penstock.columns.column_batch import ColumnBatch
    from penstock.columns.pairs import Pairs
    from penstock.expressions.program import Instruction, Program

_UNSUPPORTED: Final = frozenset({"**", "&", "|", "^", "<<", ">>", "invert", "list", "subscript"})

#: Operations that do not fail for one row of a kind and succeed for another, unless a number needs
#: more than 64 bits.
_TOTAL: Final = frozenset(
    COMPARISONS
    | {"+", "-", "*", "negate", "not", "is", "is not", "in", "not in", "move", "tuple", "call"}
    | {"cell", "global", "field", "row field", "named field", "unpack"}
)

#: After this many consecutive abandoned batches, the program stops trying columns.
_MOST_GIVEN_UP: Final = 16


def unsupported_operation(program: Program) -> str | None:
    """Return an operation that no kernel computes; None if columns may compute the program."""
    for operation, _, left, _, _ in program.instructions:
        if operation in _UNSUPPORTED:
            return operation
        if operation == "call" and program.constants[left][0] not in CALLS:
            function = program.constants[left][0]
            # A function that reads an attribute has no name.
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
        """Wrap a program that `unsupported_operation` accepts."""
        self._program = program
        #: By register: the last instruction that reads it.
        self._last_uses = _last_uses(program)
        self._given_up_in_a_row = 0
        self.batches = 0
        self.given_up = 0
        self.rows = 0

    def evaluated(self, batch: ColumnBatch) -> ColumnBatch | None:
        """Return the results for the records of a batch; None if it is abandoned."""
        return self._result(batch, self._pieces(batch, self._arguments(batch)))

    def of_pairs(self, pairs: Pairs) -> ColumnBatch | None:
        """Return the results for pairs of records; None if they are abandoned."""
        registers = {0: pairs.left, 1: pairs.right}
        return self._result(pairs, self._pieces(pairs, registers))

    def _result(
        self, batch: ColumnBatch | Pairs, pieces: list[tuple[Frame, Any]] | None
    ) -> ColumnBatch | None:
        if pieces is None:
            return None
        try:
            result = joined_results(batch, pieces)
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
        pieces = self._pieces(batch, self._arguments(batch))
        if pieces is None:
            return None
        try:
            stamps = joined_results(batch, pieces)
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

    def _arguments(self, batch: ColumnBatch) -> dict[int, Any]:
        """Return the registers of the program's arguments: a record, and its timestamp."""
        found: dict[int, Any] = {
            0: RECORD if _has_fields(batch) else Column(batch.column(0), batch.declared)
        }
        if self._program.parameters > 1:
            stamps = batch.timestamps
            is_one = isinstance(stamps, int)
            found[1] = stamps if is_one else Column(stamps, Types.LONG())
        return found

    def _pieces(
        self, batch: ColumnBatch | Pairs, arguments: dict[int, Any]
    ) -> list[tuple[Frame, Any]] | None:
        """Return the results of the rows by branch; None if the batch is abandoned."""
        if self._given_up_in_a_row >= _MOST_GIVEN_UP or not _still_holds(self._program):
            self.given_up += 1
            return None
        import pyarrow as pa

        registers: dict[int, Any] = {**self._program.constants, **arguments}
        pieces: list[tuple[Frame, Any]] = []
        try:
            self._run(Frame(batch, None, registers), 0, pieces)
        except (GivenUpError, pa.ArrowException, ArithmeticError, ValueError):
            self._give_up()
            return None
        return pieces

    def _give_up(self) -> None:
        self.given_up += 1
        self._given_up_in_a_row += 1

    def _note(self, batch: ColumnBatch | Pairs) -> None:
        self.batches += 1
        self.rows += len(batch)
        self._given_up_in_a_row = 0

    def _run(self, frame: Frame, place: int, pieces: list[tuple[Frame, Any]]) -> None:
        """Evaluate the rows of a frame from an instruction on."""
        program = self._program
        while True:
            operation, _, left, _, number = program.instructions[place]
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
                self._step(frame, program.instructions[place - 1])

    def _branches(self, frame: Frame, place: int, jumps: Any) -> int | None:
        """Evaluate both branches after a conditional jump for all rows, and join their values.

        This is cheaper than splitting the rows.  It requires that no operation can fail in a branch
        that Python would not take, and that both branches have values of one kind.

        Args:
            frame: Receives the values; unchanged if the branches cannot be joined.
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

    def _joined_branches(self, frame: Frame, place: int, jumps: Any) -> int:
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
        frame: Frame,
        place: int,
        end: int,
        exit_place: int,
        exits: list[tuple[Any, dict[int, Any]]],
    ) -> None:
        """Evaluate instructions in order for all rows.

        Args:
            frame: The rows.
            place: The first instruction.
            end: The position after the last one.
            exit_place: Target of conditional jumps other than the joined branches.
            exits: Receives the rows that jump there, with their registers.
        """
        while place < end:
            operation, _, left, _, number = self._program.instructions[place]
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
            self._step(frame, self._program.instructions[place])
            place += 1
        if place != end:
            raise _ApartError

    def _step(self, frame: Frame, instruction: Instruction) -> None:
        """Execute an instruction that does not jump."""
        operation, target, left, right, number = instruction
        if operation == "unpack":  # it has no result; the fields are read by others
            if frame.width(frame.registers[left]) != number:
                raise GivenUpError
            return
        frame.registers[target] = self._value(frame, operation, left, right, number)

    def _value(self, frame: Frame, operation: str, left: int, right: int, number: int) -> Any:
        """Return the value of an instruction."""
        registers = frame.registers
        if operation in ("tuple", "call"):
            items = [registers[at] for at in self._program.lists[right : right + number]]
            if operation == "tuple":
                return Tuple(items)
            return as_value(CALLS[registers[left][0]](*map(values_of, items)))
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
            return as_value(computed(operation, values_of(registers[left]), None))
        first, second = values_of(registers[left]), values_of(registers[right])
        if operation in ARITHMETIC:
            return as_value(computed(operation, first, second))
        if operation in COMPARISONS or operation in ("is", "is not"):
            return as_value(compared(operation, first, second))
        if operation in ("in", "not in"):
            return as_value(contained(operation, first, second))
        raise GivenUpError


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
    if isinstance(first, Tuple) and isinstance(second, Tuple):
        if len(first.items) != len(second.items):
            raise _ApartError
        pairs = zip(first.items, second.items, strict=True)
        return Tuple([_chosen(mask, one, other) for one, other in pairs])
    values = [values_of(first), values_of(second)]
    kind = kind_of(values[0])
    if kind != kind_of(values[1]):
        raise _ApartError
    wide = {"integer": pa.int64(), "float": pa.float64(), "boolean": pa.bool_()}.get(
        kind, pa.string()
    )
    parts = [v.cast(wide) if hasattr(v, "null_count") else pa.scalar(v, wide) for v in values]
    return as_value(pc.if_else(mask, *parts))


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

    values = values_of(value)
    if operation in ("jump if none", "jump if not none"):
        return compared("is" if operation == "jump if none" else "is not", values, None)
    found = truth(values)
    if operation == "jump if false":
        return not found if isinstance(found, bool) else pc.invert(found)
    return found
